"""The velocities of one segment, row by row, from as few forwards as the settings allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from pipelines.flowcache.attention import (
    Fold,
    Pass,
    Session,
    attached,
    rotary_of,
    timestep_embedding,
)
from pipelines.flowcache.config import FlowCacheConfig
from pipelines.flowcache.policy import FlowRule, Memory, Rule, TeaRule
from pipelines.flowcache.skipmap import SkipMap
from pipelines.flowcache.timeline import Timeline, make_timeline


@contextmanager
def flow_velocity(config: FlowCacheConfig, segment: Any) -> Iterator[FlowVelocity]:
    """Velocities of a `pipelines.skyreels_v2.denoise.Segment`. The transformer is as it was when
    this closes, whatever happened inside."""
    size = segment.causal_block if segment.causal_block > 1 else config.chunk
    timeline = make_timeline(segment.schedule, size)
    session = Session(config.is_causal(segment.causal_block))
    with attached(segment.transformer, session):
        yield FlowVelocity(config, segment, timeline, session)


class FlowVelocity:
    """Runs the transformer on the chunks of a row that need it, and only on those."""

    def __init__(
        self, config: FlowCacheConfig, segment: Any, timeline: Timeline, session: Session
    ) -> None:
        self.config, self.segment = config, segment
        self.timeline, self.session = timeline, session
        self.forwards = self.passes = self.kv_bytes = 0
        self.memories = {name: Memory(config, timeline) for name in segment.branches}
        groups = [list(segment.branches)]
        if config.branches == "apart":
            groups = [[name] for name in segment.branches]
        # Each with the branches that go by it.
        self.rules = [(self._rule(), names) for names in groups]
        # Chunks whose stored keys and values are not those of their latents.
        self.stale = {name: set() for name in segment.branches}
        self.computed = [[0] * len(timeline.chunks) for _ in range(timeline.rows)]
        # Frames of the last forward, and the rotary embedding of their tokens.
        self.placed: list[int] = []
        self.rotary: tuple[torch.Tensor, torch.Tensor] | None = None
        # Known with the size of the first row's frames.
        self.budget: int | None = None

    def __call__(self, row: int, model_input: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        if row == 0:
            self.budget = self._budget(model_input)
        velocities = {}
        for rule, names in self.rules:
            chosen = rule.choose(row)
            for name in names:
                velocities[name] = self._velocity(name, row, chosen, model_input, timestep)
            # What moves the latents is the guided velocity, where the branches go together.
            apart = len(self.rules) > 1
            moves = velocities[names[0]] if apart else self.segment.guided(velocities)
            rule.after(row, moves, model_input)
        return self.segment.guided(velocities)

    @property
    def forwards_skipped(self) -> int:
        return self.timeline.rows * len(self.memories) - self.forwards

    @property
    def skip_map(self) -> SkipMap:
        rows, chunks = self.timeline.rows, len(self.timeline.chunks)
        return SkipMap(
            steps=rows,
            chunks=chunks,
            computed=tuple(map(tuple, self.computed)),
            moved=tuple(
                tuple(int(index in moving) for index in range(chunks))
                for moving in self.timeline.moving
            ),
            passes=self.passes,
            plain_passes=rows * chunks * len(self.memories),
            kv_bytes=self.kv_bytes,
            exact=self.config.is_exact(self.segment.causal_block, self.budget is not None),
            changes=self.rules[0][0].changes,
        )

    def _velocity(
        self,
        name: str,
        row: int,
        chosen: list[int],
        model_input: torch.Tensor,
        timestep: torch.Tensor,
    ) -> torch.Tensor:
        """`[1, C, Fo, h, w]` of one guidance branch, 0 where nothing moves."""
        memory = self.memories[name]
        self._age(name, row)
        running = self._running(name, row, chosen)
        if running:
            velocity = self._forward(name, row, chosen, running, model_input, timestep)
            for chunk, own in zip(running, velocity, strict=True):
                if chunk in chosen:
                    memory.learn(row, chunk, own)
        velocities = torch.zeros_like(model_input)
        for chunk in self.timeline.moving[row]:
            velocities[:, :, self.timeline.chunks[chunk].frames] = memory.velocity(row, chunk)
        return velocities

    def _age(self, name: str, row: int) -> None:
        """What is stored of a chunk becomes stale when the chunk changes. To the bit it also does
        when a chunk that it looks at changes, or the noise on the given frames is drawn anew."""
        stale, chunks = self.stale[name], range(len(self.timeline.chunks))
        changed = set(self.timeline.changed[row])
        if self._to_the_bit and row:
            if self.segment.condition_noise and self.segment.schedule.prefix:
                changed.add(0)
            if changed and self.session.causal:
                changed.update(range(min(changed), len(chunks)))
            elif changed:
                changed.update(chunks)
        stale |= changed

    def _running(self, name: str, row: int, chosen: list[int]) -> list[int]:
        """The chunks to run: those to compute, and the stale ones that these look at. Chunks that
        move but reuse stay stale."""
        if not chosen:
            return []
        moving = set(self.timeline.moving[row])
        seen = range(max(chosen)) if self.session.causal else range(len(self.timeline.chunks))
        return sorted({*chosen, *(self.stale[name] & set(seen) - moving)})

    def _forward(
        self,
        name: str,
        row: int,
        chosen: list[int],
        running: list[int],
        model_input: torch.Tensor,
        timestep: torch.Tensor,
    ) -> list[torch.Tensor]:
        """Velocity `[1, C, n, h, w]` of each chunk that runs."""
        chunks = [self.timeline.chunks[index] for index in running]
        frames = [frame for chunk in chunks for frame in range(chunk.start, chunk.stop)]
        if frames != self.placed:
            self.placed, self.rotary = frames, self._rotary(frames, model_input)
        self.stale[name] -= set(running)
        self.session.current = Pass(name, chunks, self.rotary, self._fold(name, row, chosen))
        try:
            velocity = self.segment.forward(name, model_input[:, :, frames], timestep[:, frames])
        finally:
            self.session.current = None
        self.forwards += 1
        self.passes += len(chunks)
        self.kv_bytes = max(self.kv_bytes, self.session.bytes)
        for index in running:
            self.computed[row][index] = 1
        return list(velocity.split([chunk.stop - chunk.start for chunk in chunks], 2))

    def _rotary(
        self, frames: list[int], latents: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        cos, sin = rotary_of(self.segment.transformer, latents)
        return cos[:, frames].flatten(1, 2).unsqueeze(2), sin[:, frames].flatten(1, 2).unsqueeze(2)

    def _fold(self, name: str, row: int, chosen: list[int]) -> Fold | None:
        if self.budget is None:
            return None
        clean = [
            index
            for index in self.timeline.finished(row)
            if index not in self.stale[name] and index < max(chosen)
        ]
        return Fold(clean, self.budget, self.config.kv_lambda, max(chosen))

    def _budget(self, latents: torch.Tensor) -> int | None:
        """Tokens of finished chunks that are kept; None if that many are never there: the last
        chunk is looked at by none that comes after it."""
        budget, patch = self.config.kv_budget, self.segment.transformer.config.patch_size
        if budget is None:
            return None
        frame = (latents.shape[-2] // patch[1]) * (latents.shape[-1] // patch[2])
        lengths = [frame * (chunk.stop - chunk.start) for chunk in self.timeline.chunks]
        if self.config.kv_unit == "chunks":
            budget *= max(lengths)
        return budget if budget < sum(lengths[:-1]) else None

    @property
    def _to_the_bit(self) -> bool:
        """Whether stored keys and values have to be those of the plain pipeline."""
        return self.config.mode == "exact" and self.budget is None

    def _rule(self) -> Rule:
        if self.config.mode == "flow":
            return FlowRule(self.config, self.timeline)
        if self.config.mode == "teacache":
            return TeaRule(self.config, self.timeline, self._signal)
        return Rule(self.config, self.timeline)

    def _signal(self, row: int, chunks: list[int]) -> torch.Tensor:
        segment = self.segment
        frames = [self.timeline.chunks[index].start for index in chunks]
        timestep = segment.schedule.timesteps[row : row + 1, frames]
        timestep = timestep.to(segment.branches["cond"].device)
        return timestep_embedding(segment.transformer, timestep, segment.condition.fps)

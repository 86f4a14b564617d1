"""Which chunks of a row are computed, and what the others move with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from pipelines.flowcache.config import FlowCacheConfig
from pipelines.flowcache.decision import (
    always_computed,
    line_on,
    relative_change,
    relative_distance,
    reuse,
    reuse_step,
    signal_weight,
)
from pipelines.flowcache.timeline import Timeline

Signal = Callable[[int, list[int]], torch.Tensor]
"""TeaCache's embedding of the timesteps that some chunks are at in a row."""


class Memory:
    """The velocities that were computed last in one guidance branch, chunk by chunk."""

    def __init__(self, config: FlowCacheConfig, timeline: Timeline) -> None:
        self.timeline = timeline
        # Only `flow` goes on along a line: TeaCache is measured as it is.
        self.holds = config.mode != "flow" or config.extrapolate == "hold"
        self.computed: dict[int, list[tuple[float, torch.Tensor]]] = {}
        """Chunk -> (sigma, velocity) of its last two computed steps."""

    def learn(self, row: int, chunk: int, velocity: torch.Tensor) -> None:
        """Takes the velocity `[1, C, n, h, w]` that was computed for a chunk."""
        before = self.computed.get(chunk, [])
        self.computed[chunk] = [*before[-1:], (self._sigma(row, chunk), velocity)]

    def velocity(self, row: int, chunk: int) -> torch.Tensor:
        """What a chunk moves with in this row, `[1, C, n, h, w]`."""
        computed, now = self.computed[chunk], self._sigma(row, chunk)
        sigma, last = computed[-1]
        if now == sigma or self.holds or len(computed) < 2:
            return last
        return line_on(*computed, now)

    def _sigma(self, row: int, chunk: int) -> float:
        known = self.timeline.chunks[chunk]
        return known.sigmas[known.step(row)]


class Rule:
    """Computes everything that moves: mode `exact`."""

    changes: tuple[tuple[float, ...], ...] = ()
    """For each chunk the change of each of its steps, where the rule looks at it."""

    def __init__(self, config: FlowCacheConfig, timeline: Timeline) -> None:
        self.config, self.timeline = config, timeline

    def choose(self, row: int) -> list[int]:
        """Of the chunks that this row moves, those to compute. Asked once for each row."""
        return list(self.timeline.moving[row])

    def after(self, row: int, velocities: torch.Tensor, latents: torch.Tensor) -> None:
        """Sees what the row moves with and from where, both `[1, C, Fo, h, w]`."""


@dataclass
class ChunkState:
    accumulated: float = 0.0
    """Change since it was computed last."""
    changes: list[float] = field(default_factory=list)
    """Weighted L1rel of each of its steps so far."""


class FlowRule(Rule):
    """Each chunk by its own latents: mode `flow`."""

    def __init__(self, config: FlowCacheConfig, timeline: Timeline) -> None:
        super().__init__(config, timeline)
        self.states = {chunk.index: ChunkState() for chunk in timeline.chunks}

    @property
    def changes(self) -> tuple[tuple[float, ...], ...]:
        return tuple(
            tuple(round(change, 6) for change in state.changes) for state in self.states.values()
        )

    def choose(self, row: int) -> list[int]:
        chosen = []
        for chunk in (self.timeline.chunks[index] for index in self.timeline.moving[row]):
            state = self.states[chunk.index]
            again, state.accumulated = reuse_step(
                chunk.step(row),
                chunk.steps,
                self.config.warmup,
                state.accumulated,
                state.changes,
                self.config.threshold,
            )
            if not again:
                chosen.append(chunk.index)
        return chosen

    def after(self, row: int, velocities: torch.Tensor, latents: torch.Tensor) -> None:
        moved = [self.timeline.chunks[index] for index in self.timeline.moving[row]]
        changes = []
        for chunk in moved:
            velocity, own = velocities[:, :, chunk.frames], latents[:, :, chunk.frames]
            changes.append(relative_change(velocity, chunk.dt(chunk.step(row)), own))
        # One wait for the device, not one a chunk.
        for chunk, change in zip(moved, torch.stack(changes).tolist(), strict=True):
            if self.config.weighting == "signal":
                change *= signal_weight(chunk.sigmas[chunk.step(row)])
            self.states[chunk.index].changes.append(change)


class TeaRule(Rule):
    """One decision for all chunks, by the timesteps alone: mode `teacache`."""

    def __init__(self, config: FlowCacheConfig, timeline: Timeline, signal: Signal) -> None:
        super().__init__(config, timeline)
        self.signal = signal
        self.accumulated = 0.0

    def choose(self, row: int) -> list[int]:
        moving = list(self.timeline.moving[row])
        change = 0.0
        if row:
            change = relative_distance(self.signal(row, moving), self.signal(row - 1, moving))
        again, self.accumulated = reuse(self.accumulated, change, self.config.threshold)
        chunks = [self.timeline.chunks[index] for index in moving]
        # A chunk has its own first and last step; the warm-up is that of the segment.
        needed = any(always_computed(chunk.step(row), chunk.steps, 0) for chunk in chunks)
        if needed or row < self.config.warmup:
            again, self.accumulated = False, 0.0
        return [] if again else moving

"""Which chunks of a row are computed, and what the others move with, in one guidance branch."""

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
    signal_weight,
)
from pipelines.flowcache.timeline import Timeline

Signal = Callable[[int, list[int]], torch.Tensor]
"""TeaCache's embedding of the timesteps that some chunks are at in a row."""


@dataclass
class ChunkState:
    """What one chunk remembers in one branch."""

    computed: list[tuple[float, torch.Tensor]] = field(default_factory=list)
    """(sigma, velocity) of its last two computed steps."""
    accumulated: float = 0.0
    change: float = 0.0
    """L1rel of its last step, weighted."""


class Branch:
    """Computes everything: mode `exact`. The other modes choose less."""

    def __init__(self, config: FlowCacheConfig, timeline: Timeline) -> None:
        self.config, self.timeline = config, timeline
        self.states = {chunk.index: ChunkState() for chunk in timeline.chunks}

    def choose(self, row: int) -> list[int]:
        """Of the chunks that this row moves, those to compute."""
        return list(self.timeline.moving[row])

    def learn(self, row: int, chunk: int, velocity: torch.Tensor) -> None:
        """Takes the velocity `[1, C, n, h, w]` that was computed for a chunk."""
        known = self.timeline.chunks[chunk]
        state = self.states[chunk]
        state.computed = [*state.computed[-1:], (known.sigmas[known.step(row)], velocity)]

    def velocity(self, row: int, chunk: int) -> torch.Tensor:
        """What a chunk moves with in this row, `[1, C, n, h, w]`: the last that was computed."""
        return self.states[chunk].computed[-1][1]

    def after(self, row: int, velocities: torch.Tensor, latents: torch.Tensor) -> None:
        """Sees what the row moves with and from where, both `[1, C, Fo, h, w]`."""


class FlowBranch(Branch):
    """Each chunk by its own latents: mode `flow`."""

    def choose(self, row: int) -> list[int]:
        chosen = []
        for chunk in (self.timeline.chunks[index] for index in self.timeline.moving[row]):
            state, step = self.states[chunk.index], chunk.step(row)
            again, state.accumulated = reuse(state.accumulated, state.change, self.config.threshold)
            if always_computed(step, chunk.steps, self.config.warmup):
                again, state.accumulated = False, 0.0
            if not again:
                chosen.append(chunk.index)
        return chosen

    def velocity(self, row: int, chunk: int) -> torch.Tensor:
        known, computed = self.timeline.chunks[chunk], self.states[chunk].computed
        sigma, last = computed[-1]
        now = known.sigmas[known.step(row)]
        if now == sigma or self.config.extrapolate == "hold" or len(computed) < 2:
            return last
        return line_on(*computed, now)

    def after(self, row: int, velocities: torch.Tensor, latents: torch.Tensor) -> None:
        moved = [self.timeline.chunks[index] for index in self.timeline.moving[row]]
        changes = [
            relative_change(
                velocities[:, :, chunk.frames],
                chunk.dt(chunk.step(row)),
                latents[:, :, chunk.frames],
            )
            for chunk in moved
        ]
        # One wait for the device, not one a chunk.
        for chunk, change in zip(moved, torch.stack(changes).tolist(), strict=True):
            if self.config.weighting == "signal":
                change *= signal_weight(chunk.sigmas[chunk.step(row)])
            self.states[chunk.index].change = change


class TeaBranch(Branch):
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

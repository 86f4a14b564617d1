"""The chunks of one segment, and in which row of the schedule each is at which step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch


class Schedule(Protocol):
    """What is read of `pipelines.skyreels_v2.schedule.Schedule`."""

    timesteps: torch.Tensor
    updates: torch.Tensor
    groups: tuple
    prefix: int


@dataclass(frozen=True)
class Chunk:
    """Latent frames [start, stop) that are computed, reused and finished together."""

    index: int
    start: int
    stop: int
    rows: tuple[int, ...]
    """The rows that move it, one a step; none where it is given."""
    sigmas: tuple[float, ...]
    """Its noise level before each step, and after the last one."""

    @property
    def frames(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def steps(self) -> int:
        return len(self.rows)

    def step(self, row: int) -> int | None:
        """Its own step in this row, from 0; None where it does not move."""
        return self.rows.index(row) if row in self.rows else None

    def dt(self, step: int) -> float:
        return self.sigmas[step + 1] - self.sigmas[step]


@dataclass(frozen=True)
class Timeline:
    chunks: tuple[Chunk, ...]
    moving: tuple[tuple[int, ...], ...]
    """For each row the chunks that it moves, in their order."""
    changed: tuple[frozenset[int], ...]
    """For each row the chunks whose latents or timestep are not those of the row before; all of
    them in the first. Noise that is added to given frames is not counted."""

    @property
    def rows(self) -> int:
        return len(self.moving)

    def finished(self, row: int) -> list[int]:
        """Chunks that are clean in this row: given, or moved for the last time before it."""
        return [c.index for c in self.chunks if not c.rows or c.rows[-1] < row]


def make_timeline(schedule: Schedule, size: int) -> Timeline:
    """Chunks of `size` latent frames, counted from the start of the given frames and again from
    the first that is not given. The last one of either may be shorter."""
    timesteps, updates = schedule.timesteps, schedule.updates
    total = timesteps.shape[1]
    starts = [*range(0, schedule.prefix, size), *range(schedule.prefix, total, size)]
    stops = [*starts[1:], total]
    chunks = tuple(
        Chunk(
            index,
            start,
            stop,
            tuple(updates[:, start].nonzero().flatten().tolist()),
            _sigmas(schedule, start),
        )
        for index, (start, stop) in enumerate(zip(starts, stops, strict=True))
    )
    moving = tuple(
        tuple(c.index for c in chunks if updates[row, c.start]) for row in range(len(updates))
    )
    changed = [frozenset(range(len(chunks)))]
    for row in range(1, len(updates)):
        other = timesteps[row] != timesteps[row - 1]
        changed.append(
            frozenset(c.index for c in chunks if other[c.start] or c.index in moving[row - 1])
        )
    return Timeline(chunks, moving, tuple(changed))


def _sigmas(schedule: Schedule, frame: int) -> tuple[float, ...]:
    for group in schedule.groups:
        if group.start <= frame < group.stop:
            return tuple(group.scheduler.sigmas.tolist())
    return ()

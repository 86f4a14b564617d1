"""What was computed and what was left out in one segment, as it is recorded and shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SkipMap:
    """One segment, steps by chunks."""

    steps: int
    """Rows of the segment's schedule."""
    chunks: int
    """Chunks of the segment, given ones included."""
    computed: Rows
    """`[steps][chunks]`, 1 where the transformer ran on the chunk, for its velocity or for its
    keys and values."""
    moved: Rows
    """`[steps][chunks]`, 1 where the chunk moved: with a velocity of an earlier step, where it was
    not computed."""
    passes: int
    """Times that the transformer ran on a chunk, all guidance branches together."""
    plain_passes: int
    """Times that it would have without FlowCache."""
    kv_bytes: int
    """The most that keys and values took at one time."""
    exact: bool
    """Whether the result is that of the plain pipeline."""
    changes: tuple[tuple[float, ...], ...] = ()
    """For each chunk the change of each of its steps, as mode `flow` weighs it, with the prompt:
    what `calibration.threshold_for` works on. Empty in the other modes."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> SkipMap:
        """From what `to_json` gave, lists in place of tuples as JSON has it."""
        rows = {name: tuple(map(tuple, fields[name])) for name in ("computed", "moved", "changes")}
        return cls(**{**fields, **rows})

    def lines(self) -> list[str]:
        """A line for each chunk and a column for each step: `#` computed, `-` reused, `k` run for
        its keys and values only, `.` not run and not moved."""
        marks = {(1, 1): "#", (0, 1): "-", (1, 0): "k", (0, 0): "."}
        return [
            "".join(
                marks[computed[chunk], moved[chunk]]
                for computed, moved in zip(self.computed, self.moved, strict=True)
            )
            for chunk in range(self.chunks)
        ]

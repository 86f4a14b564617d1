"""Frame arithmetic of a chain of segments: the one place where F, M and P(N) are computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chain:
    """`segments` stretches of F frames; each but the first repeats the last M of the one before."""

    segments: int
    F: int
    M: int
    end: int | None = None
    """Frames after which the video ends, where its last segment goes on; None: nowhere."""

    def __post_init__(self) -> None:
        if self.segments < 1 or self.F < 1 or not 0 <= self.M < self.F:
            raise ValueError(f"no such chain: segments={self.segments}, F={self.F}, M={self.M}")
        if self.end is not None and self.end <= self.P(self.segments - 1):
            raise ValueError(f"frame {self.end} is before segment {self.segments - 1}")

    @property
    def stride(self) -> int:
        """Frames that each segment after the first adds."""
        return self.F - self.M

    def start(self, i: int) -> int:
        """First frame of segment i, its repeated frames included."""
        return i * self.stride

    def P(self, n: int) -> int:
        """Frames of the video after n segments: P(0) = 0, P(n) = n * stride + M, at most `end`."""
        whole = 0 if n == 0 else n * self.stride + self.M
        return whole if self.end is None else min(whole, self.end)

    def new_frames(self, i: int) -> tuple[int, int]:
        """[first, last + 1] in the result of the frames that segment i adds."""
        return self.P(i), self.P(i + 1)

    @property
    def total(self) -> int:
        return self.P(self.segments)

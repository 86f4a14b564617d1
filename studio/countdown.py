"""How long a running job will still take: from its own steps, and before there are any, from what
earlier jobs of its kind took."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from studio.events import Event, Stage

ENOUGH_STEPS = 2
"""Steps of a segment after which its own speed is believed; the first one warms up."""


class Countdown:
    """Watches the events of one job.

    `expected` says how many seconds these segments (from 0) will take, by experience; None if
    there is none. `now` is a clock in seconds.
    """

    def __init__(
        self,
        expected: Callable[[Sequence[int]], float | None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.expected, self.now = expected, now
        self._segment = -1
        self._first_step = 0.0
        self._counted = 0
        self._began = 0.0
        self._whole: float | None = None

    def left(self, event: Event) -> float | None:
        """Seconds from this event to the end of the job; None if nothing can be said yet."""
        at = self.now()
        if event.segment != self._segment:
            self._segment, self._began, self._counted = event.segment, at, 0
        if event.stage is Stage.GENERATED:
            self._whole = at - self._began
        rest = event.segments - event.segment - 1
        if event.stage in (Stage.GENERATED, Stage.REUSED):
            return self._segments(range(event.segment + 1, event.segments))
        if event.stage is Stage.JOIN:
            return 0.0
        if event.stage is not Stage.DENOISE:
            return self._segments(range(event.segment, event.segments))
        if self._counted == 0:
            self._first_step, self._counted = at, event.step
        done = event.step - self._counted
        if done < ENOUGH_STEPS:
            return self._segments(range(event.segment, event.segments))
        step = (at - self._first_step) / done
        whole = self._whole if self._whole is not None else step * event.steps
        return step * (event.steps - event.step) + rest * whole

    def _segments(self, which: range) -> float | None:
        if self._whole is not None:
            return self._whole * len(which)
        return self.expected(which)

"""Progress of a render on stderr: one line that changes on a terminal, one a segment elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from studio.errors import Cancelled
from studio.events import Event, Stage

WORDS = {
    Stage.LOAD: "loading",
    Stage.ENCODE: "encoding the prompt",
    Stage.REUSED: "kept",
    Stage.GENERATED: "new",
    Stage.JOIN: "joining",
}


class Progress:
    """An `OnEvent`. Raises Cancelled once `asked()` says so."""

    def __init__(self, asked: Callable[[], bool], stream: TextIO | None = None) -> None:
        self.asked = asked
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.started: float | None = None
        self.steps_done = 0
        self._last: tuple[int, int] | None = None

    def __call__(self, event: Event) -> None:
        if self.asked():
            self._end_line()
            raise Cancelled
        place = f"segment {event.segment + 1}/{event.segments}"
        if event.stage is Stage.DENOISE:
            self._step(place, event)
        elif event.stage in (Stage.REUSED, Stage.GENERATED):
            self._line(f"{place} {WORDS[event.stage]}")
        elif self.live:
            self._show(f"{place} {WORDS.get(event.stage, event.stage)}…")

    def _step(self, place: str, event: Event) -> None:
        self.started = self.started or time.monotonic()
        # Within a long step the same one is told again.
        if (event.segment, event.step) != self._last:
            self._last = event.segment, event.step
            self.steps_done += 1
        if not self.live:
            return
        left = (event.segments - event.segment) * event.steps - event.step
        pace = (time.monotonic() - self.started) / max(self.steps_done - 1, 1)
        eta = f", about {left * pace:.0f} s left" if self.steps_done > 3 else ""
        self._show(f"{place} step {event.step}/{event.steps}{eta}")

    def _show(self, text: str) -> None:
        self.stream.write(f"\r\033[K{text}")
        self.stream.flush()

    def _line(self, text: str) -> None:
        self.stream.write(f"\r\033[K{text}\n" if self.live else f"{text}\n")
        self.stream.flush()

    def _end_line(self) -> None:
        if self.live:
            self._line("")

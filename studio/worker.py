"""The worker: one thread that runs one render after the other and that no browser tab owns."""

from __future__ import annotations

import functools
import itertools
import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from studio.errors import Cancelled, is_known
from studio.events import Event, OnEvent, Stage
from studio.render import Rendered

log = logging.getLogger(__name__)

Work = Callable[[OnEvent], Rendered]


@dataclass(frozen=True)
class Snapshot:
    """What the worker is doing, as anybody may read it at any time."""

    job: int = 0
    state: str = "idle"
    """idle, waiting, running, done, failed or cancelled."""
    told: str = ""
    take: str | None = None
    version: int = 0


class Worker:
    """Runs what is given to it in order. `snapshot` never blocks."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._versions = itertools.count(1)
        self._queue: queue.SimpleQueue[tuple[int, Work] | None] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._stopping = False
        self.snapshot = Snapshot()
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> int:
        """Puts work at the end of the queue and returns its number."""
        number = next(self._numbers)
        self._queue.put((number, work))
        if self.snapshot.state != "running":
            self._show(Snapshot(number, "waiting", "Waiting…"))
        return number

    def cancel(self, number: int) -> None:
        """Stops a job at its next step, or before it begins."""
        self._cancelled.add(number)

    def stop(self, timeout: float = 3.0) -> None:
        """Stops the running job at its next step and ends the thread."""
        self._stopping = True
        self._queue.put(None)
        self._thread.join(timeout)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None and not self._stopping:
            number, work = item
            self._show(Snapshot(number, "running", "Starting…"))
            try:
                rendered = work(functools.partial(self._watch, number))
                made = rendered.sources.count("generated")
                told = f"{made} of {len(rendered.sources)} segments new, "
                told += f"{rendered.timings['total']:.1f} s. Seeds: "
                told += ", ".join(map(str, rendered.take.seeds))
                self._show(Snapshot(number, "done", told, rendered.take.id))
            except Cancelled:
                told = "Cancelled. Finished segments are kept; run the same again to go on."
                self._show(Snapshot(number, "cancelled", told))
            except Exception as error:
                if not is_known(error):
                    log.exception("job %d failed", number)
                self._show(Snapshot(number, "failed", str(error)))

    def _watch(self, number: int, event: Event) -> None:
        if number in self._cancelled or self._stopping:
            raise Cancelled
        told = f"Segment {event.segment + 1} of {event.segments}"
        if event.stage is Stage.DENOISE:
            told += f", step {event.step} of {event.steps}"
        else:
            told += f": {event.stage.value}"
        self._show(Snapshot(number, "running", told))

    def _show(self, snapshot: Snapshot) -> None:
        self.snapshot = replace(snapshot, version=next(self._versions))

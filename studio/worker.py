"""The worker: one thread that works off the queue and that no browser tab owns."""

from __future__ import annotations

import functools
import logging
import sqlite3
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from studio import actions, media
from studio.chapter import plan_of
from studio.countdown import Countdown
from studio.engine import Engine
from studio.errors import Cancelled, is_known
from studio.estimate import expected_seconds
from studio.events import Event, Stage
from studio.jobs import Job, SignOfLife, State
from studio.library import Library
from studio.pace import Pace

log = logging.getLogger(__name__)

IDLE_SECONDS = 0.25
REPORT_SECONDS = 0.25


@dataclass(frozen=True)
class Preview:
    """The last picture of a running job."""

    job: int
    rev: int
    """Grows with each picture."""
    webp: bytes


class Worker:
    """Runs the jobs of a library one after the other, those that a crash interrupted first."""

    def __init__(self, library: Library, engine: Engine) -> None:
        self.library, self.engine = library, engine
        self._stopping = threading.Event()
        self._reported = 0.0
        self._done: list[str] = []
        self._countdown: Countdown | None = None
        self.preview: Preview | None = None
        """Of the running job; it lives in memory alone."""
        self._locks = library.folder / "staging"
        self._life = SignOfLife(self._locks)
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 1.5) -> None:
        """Ends the thread. A running job stops at its next step and waits for the next start; one
        that is longer over its step is found to be dead at that start."""
        self._stopping.set()
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._life.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.library.jobs.release_those_of_the_dead(self._locks)
                job = self.library.jobs.claim(self._life.owner)
                if job is None:
                    self._stopping.wait(IDLE_SECONDS)
                else:
                    self._work(job)
            except Exception:
                log.exception("the worker stumbled")
                self._stopping.wait(1.0)

    def _work(self, job: Job) -> None:
        jobs = self.library.jobs
        watch = functools.partial(self._watch, job.id)
        self._done, self.preview = [], None
        self._countdown = self._experience(job)
        try:
            rendered = actions.fulfil(self.library, self.engine, job.order, watch)
        except Cancelled:
            if self._stopping.is_set() and not jobs.asked_to_stop(job.id):
                jobs.release(job.id, self._life.owner)
                return
            told = "Cancelled. Finished segments are kept; run the same again to go on."
            jobs.finish(job.id, State.CANCELLED, told)
        except Exception as error:
            if self._stopping.is_set():
                # Whoever stops the server may have stopped its ffmpeg too.
                jobs.release(job.id, self._life.owner)
                return
            if not is_known(error):
                log.exception("job %d failed", job.id)
            jobs.finish(job.id, State.FAILED, str(error) or type(error).__name__)
        else:
            made = rendered.sources.count("generated")
            told = f"Done. {made} of {len(rendered.sources)} segments new, "
            told += f"{rendered.timings['total']:.1f} s. Seeds: "
            told += ", ".join(map(str, rendered.take.seeds))
            jobs.finish(job.id, State.DONE, told, rendered.take.id)

    def _experience(self, job: Job) -> Countdown:
        pace = Pace(self.library.database)

        def expected(which: Sequence[int]) -> float | None:
            pipeline = self.engine.pipeline(job.order.recipe.model)
            plan = plan_of(pipeline, job.order.chapters)
            return expected_seconds(pace, pipeline, job.order, plan, which)

        return Countdown(expected)

    def _watch(self, job: int, event: Event) -> None:
        """Stops at the next step if asked to; tells the disk how it goes, a few times a second."""
        if self._stopping.is_set():
            raise Cancelled
        if event.id is not None:
            self._done.append(event.id)
        left = self._countdown.left(event) if self._countdown else None
        now = time.monotonic()
        if event.stage is Stage.DENOISE and now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        self._take_preview(job, event)
        progress = {
            "stage": event.stage.value,
            "segment": event.segment,
            "segments": event.segments,
            "step": event.step,
            "steps": event.steps,
            "done": self._done,
            "eta_seconds": None if left is None else round(left, 1),
            "preview_rev": self.preview.rev if self.preview else None,
        }
        try:
            asked_to_stop = self.library.jobs.report(job, progress)
        except sqlite3.Error as error:
            log.warning("progress of job %d is not shown: %s", job, error)
            return
        if asked_to_stop:
            raise Cancelled

    def _take_preview(self, job: int, event: Event) -> None:
        """Keeps the picture of this step; a picture that fails is no reason to stop."""
        if event.preview is None:
            return
        try:
            picture = event.preview()
            if picture is not None:
                rev = self.preview.rev + 1 if self.preview else 1
                self.preview = Preview(job, rev, media.webp(picture))
        except Exception as error:
            log.warning("the preview of job %d is not shown: %s", job, error)

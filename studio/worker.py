"""The worker: one thread that works off the queue and that no browser tab owns."""

from __future__ import annotations

import functools
import logging
import sqlite3
import threading
import time

from studio import actions
from studio.engine import Engine
from studio.errors import Cancelled, is_known
from studio.events import Event, Stage
from studio.jobs import Job, SignOfLife, State
from studio.library import Library

log = logging.getLogger(__name__)

IDLE_SECONDS = 0.25
REPORT_SECONDS = 0.25


class Worker:
    """Runs the jobs of a library one after the other, those that a crash interrupted first."""

    def __init__(self, library: Library, engine: Engine) -> None:
        self.library, self.engine = library, engine
        self._stopping = threading.Event()
        self._reported = 0.0
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

    def _watch(self, job: int, event: Event) -> None:
        """Stops at the next step if asked to; tells the disk how it goes, a few times a second."""
        if self._stopping.is_set():
            raise Cancelled
        now = time.monotonic()
        if event.stage is Stage.DENOISE and now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        progress = {
            "stage": event.stage.value,
            "segment": event.segment,
            "segments": event.segments,
            "step": event.step,
            "steps": event.steps,
        }
        try:
            asked_to_stop = self.library.jobs.report(job, progress)
        except sqlite3.Error as error:
            log.warning("progress of job %d is not shown: %s", job, error)
            return
        if asked_to_stop:
            raise Cancelled

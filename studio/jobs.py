"""The queue: orders that wait, run or have ended, in SQLite, so that a restart loses none.

A job is claimed by one worker of one process. A worker proves that it lives by holding a lock; the
jobs of the dead go back to the front of the queue.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from pipelines.errors import BadInput
from reuse import disk
from studio.database import Database
from studio.order import Order
from studio.take import now

log = logging.getLogger(__name__)

_LAST_ENDED = "ended DESC, position DESC, id DESC"


class State(StrEnum):
    """Where a job is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Job:
    """One order and what became of it."""

    id: int
    order: Order
    state: State
    created: str
    progress: Mapping[str, Any]
    """Of a running job: stage, segment (from 0), segments, step, steps, done (ids of the segments
    that are there), eta_seconds, preview_rev."""
    told: str
    """How it ended, in words."""
    take: str | None
    """Of a job that is done: the id of its take."""


class Jobs:
    """The queue of a library."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._unreadable: set[int] = set()

    def submit(self, order: Order) -> int:
        """Puts an order at the end of the queue; returns the number of its job."""
        with self.database.writing():
            done = self.database.execute(
                "INSERT INTO jobs (request, state, position, created, cancel, progress, told)"
                " SELECT ?, ?, coalesce(max(position), 0) + 1, ?, 0, '{}', '' FROM jobs",
                order.model_dump_json(),
                State.WAITING,
                datetime.now(UTC).isoformat(timespec="seconds"),
            )
            return int(done.lastrowid or 0)

    def get(self, job: int) -> Job:
        """Raises BadInput if there is no such job."""
        found = self._select("WHERE id = ?", job)
        if not found:
            raise BadInput("job", job, "There is no such job.")
        return found[0]

    def queue(self) -> list[Job]:
        """What runs, then what waits in the order in which it will run."""
        rest = "WHERE state IN (?, ?) ORDER BY state = ?, position"
        return self._select(rest, State.RUNNING, State.WAITING, State.WAITING)

    def newest(self) -> Job | None:
        """The running job; else the next that waits; else the one that ended last."""
        queue = self.queue()
        found = queue[:1] or self._select(f"ORDER BY {_LAST_ENDED} LIMIT 1")
        return found[0] if found else None

    def ended(self, limit: int) -> list[Job]:
        """Those that ended last, the newest first."""
        rest = f"WHERE state IN (?, ?, ?) ORDER BY {_LAST_ENDED} LIMIT ?"
        return self._select(rest, State.DONE, State.FAILED, State.CANCELLED, limit)

    def cancel(self, job: int) -> None:
        """Takes a waiting job out of the queue; asks a running one to stop at its next step."""
        self.get(job)
        with self.database.writing():
            self.database.execute("UPDATE jobs SET cancel = 1 WHERE id = ?", job)
            self.database.execute(
                "UPDATE jobs SET state = ?, told = ?, ended = ? WHERE id = ? AND state = ?",
                State.CANCELLED,
                "Cancelled before it began.",
                now(),
                job,
                State.WAITING,
            )

    def move(self, job: int, before: int | None) -> None:
        """Puts a waiting job in front of another one, or at the end.

        Raises BadInput if one of them does not wait.
        """
        with self.database.writing():
            waiting = [
                row[0]
                for row in self.database.execute(
                    "SELECT id FROM jobs WHERE state = ? ORDER BY position", State.WAITING
                )
            ]
            for number in (job, before):
                if number is not None and number not in waiting:
                    raise BadInput("job", number, "Only a job that waits can be moved.")
            if job == before:
                return
            slots = [
                row[0]
                for row in self.database.execute(
                    "SELECT position FROM jobs WHERE state = ? ORDER BY position", State.WAITING
                )
            ]
            waiting.remove(job)
            waiting.insert(len(waiting) if before is None else waiting.index(before), job)
            for number, slot in zip(waiting, slots, strict=True):
                self.database.execute("UPDATE jobs SET position = ? WHERE id = ?", slot, number)

    # What a worker does

    def claim(self, owner: str) -> Job | None:
        """Takes the next waiting job for the worker called `owner`; None if none waits."""
        with self.database.writing():
            found = self.database.execute(
                "SELECT id FROM jobs WHERE state = ? ORDER BY position LIMIT 1", State.WAITING
            ).fetchone()
            if found is None:
                return None
            self.database.execute(
                "UPDATE jobs SET state = ?, owner = ?, progress = '{}' WHERE id = ?",
                State.RUNNING,
                owner,
                found[0],
            )
        try:
            return self.get(found[0])
        except BadInput:
            told = "It was ordered by another version of Retake; order it again."
            self.finish(found[0], State.FAILED, told)
            return None

    def report(self, job: int, progress: Mapping[str, Any]) -> bool:
        """Notes how far a running job is; returns whether it was asked to stop."""
        with self.database.writing():
            self.database.execute(
                "UPDATE jobs SET progress = ? WHERE id = ?", json.dumps(dict(progress)), job
            )
        return self.asked_to_stop(job)

    def asked_to_stop(self, job: int) -> bool:
        return bool(self.database.rows("SELECT cancel FROM jobs WHERE id = ?", job)[0][0])

    def finish(self, job: int, state: State, told: str, take: str | None = None) -> None:
        """Ends a running job."""
        with self.database.writing():
            self.database.execute(
                "UPDATE jobs SET state = ?, told = ?, take = ?, ended = ?, owner = NULL"
                " WHERE id = ? AND state = ?",
                state,
                told,
                take,
                now(),
                job,
                State.RUNNING,
            )

    def release(self, job: int, owner: str | None) -> None:
        """Puts a job that `owner` was running back where it was, for whoever comes next. Does
        nothing if it has ended, or another worker has it by now."""
        with self.database.writing():
            self.database.execute(
                "UPDATE jobs SET state = ?, owner = NULL WHERE id = ? AND state = ? AND owner IS ?",
                State.WAITING,
                job,
                State.RUNNING,
                owner,
            )

    def release_those_of_the_dead(self, locks: Path) -> int:
        """Puts back the running jobs whose worker holds no lock any more; returns how many."""
        running = self.database.rows("SELECT id, owner FROM jobs WHERE state = ?", State.RUNNING)
        dead = [(job, owner) for job, owner in running if not owner or not is_alive(locks, owner)]
        for job, owner in dead:
            self.release(job, owner)
        return len(dead)

    def _select(self, rest: str, *values: object) -> list[Job]:
        rows = self.database.rows(
            f"SELECT id, request, state, created, progress, told, take FROM jobs {rest}", *values
        )
        return [job for row in rows if (job := self._job(row)) is not None]

    def _job(self, row: tuple) -> Job | None:
        """None for an order that this version cannot read: another one has other fields."""
        number, request, state, created, progress, told, take = row
        try:
            order = Order.model_validate_json(request)
        except ValidationError as error:
            if number not in self._unreadable:
                self._unreadable.add(number)
                log.warning("job %d is left out: %s", number, error.errors()[0]["msg"])
            return None
        return Job(number, order, State(state), created, json.loads(progress), told, take)


class SignOfLife:
    """A lock that a worker holds for as long as its process lives; among those of staging, where
    a sweep clears away what the dead left."""

    def __init__(self, locks: Path) -> None:
        locks.mkdir(parents=True, exist_ok=True)
        self.owner = f"worker-{uuid4().hex}"
        self._path = _lock_of(locks, self.owner)
        self._lock = disk.take_lock(self._path)

    def close(self) -> None:
        disk.drop_lock(self._lock, self._path)


def is_alive(locks: Path, owner: str) -> bool:
    """Whether the worker called `owner` still holds its lock."""
    try:
        lock = disk.take_lock_of_the_dead(_lock_of(locks, owner))
    except FileNotFoundError:
        return False
    if lock is None:
        return True
    disk.drop_lock(lock)
    return False


def _lock_of(locks: Path, owner: str) -> Path:
    return locks / f"{owner}.lock"

"""History: sessions and takes in one SQLite file, an index over the manifests on disk.

Ratings, notes and baselines live here alone; everything else can be rebuilt.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlite_utils import Database

from pipelines.errors import BadInput
from reuse.errors import FormatTooNew
from studio.errors import TakeUnknown
from studio.take import Take

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
BUSY_SECONDS = 30


@dataclass(frozen=True)
class TakeRow:
    """One take as lists show it."""

    id: str
    session: str
    parent: str | None
    keep: int
    created: str
    model: str
    prompt: str
    segments: int
    seeds: tuple[int, ...]
    seconds: float
    render_seconds: float
    stars: int
    note: str
    baseline: bool


class History:
    """Opens or makes the index. Safe to use from several threads and processes.

    A file that is no database is put aside under another name and a new one is made.
    Raises FormatTooNew if a newer program wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}")
            log.warning("%s is damaged (%s): put aside as %s", path, error, aside.name)
            path.rename(aside)
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._open()

    def _open(self) -> None:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, check_same_thread=False, isolation_level=None
        )
        try:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA_VERSION:
                raise FormatTooNew(self.path, version, SCHEMA_VERSION)
            for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
            self.db = Database(connection)
            if version < SCHEMA_VERSION:
                self._create()
        except BaseException:
            connection.close()
            raise

    def _create(self) -> None:
        with self._writing():
            self.db["sessions"].create(
                {"id": str, "created": str, "baseline": str}, pk="id", if_not_exists=True
            )
            self.db["takes"].create(
                {
                    "id": str,
                    "session": str,
                    "parent": str,
                    "keep": int,
                    "created": str,
                    "model": str,
                    "prompt": str,
                    "segments": int,
                    "seeds": str,
                    "seconds": float,
                    "render_seconds": float,
                },
                pk="id",
                if_not_exists=True,
            )
            self.db["takes"].create_index(["session", "created"], if_not_exists=True)
            self.db["takes"].create_index(["created"], if_not_exists=True)
            self.db["take_segments"].create(
                {"take": str, "position": int, "segment": str, "seed": int},
                pk=("take", "position"),
                if_not_exists=True,
            )
            self.db["take_segments"].create_index(["segment"], if_not_exists=True)
            self.db["marks"].create(
                {"take": str, "stars": int, "note": str},
                pk="take",
                defaults={"stars": 0, "note": ""},
                not_null={"stars", "note"},
                if_not_exists=True,
            )
            self.db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction; takes the write lock at its start, so that it never fails half-way."""
        with self._lock:
            self.db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self.db.execute("ROLLBACK")
                raise
            self.db.execute("COMMIT")

    def _rows(self, sql: str, *values: object) -> list[tuple]:
        with self._lock:
            return self.db.execute(sql, values).fetchall()

    # Takes

    def record(self, take: Take) -> None:
        """Adds a published take; the first of a session becomes its baseline. Again is no harm."""
        with self._writing():
            self._insert(take)

    def _insert(self, take: Take) -> None:
        execute = self.db.execute
        execute(
            "INSERT OR IGNORE INTO sessions (id, created, baseline) VALUES (?, ?, ?)",
            (take.session, take.created, take.id),
        )
        execute(
            "INSERT OR IGNORE INTO takes (id, session, parent, keep, created, model, prompt,"
            " segments, seeds, seconds, render_seconds) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            (
                take.id,
                take.session,
                take.parent,
                take.keep,
                take.created,
                take.recipe.model,
                take.recipe.prompt,
                len(take.segments),
                json.dumps(take.seeds),
                take.seconds(),
                take.timings.get("total", 0.0),
            ),
        )
        for part in take.segments:
            execute(
                "INSERT OR IGNORE INTO take_segments VALUES (?,?,?,?)",
                (take.id, part.index, part.id, part.seed),
            )

    def take_ids(self) -> set[str]:
        return {row[0] for row in self._rows("SELECT id FROM takes")}

    def resolve(self, name: str) -> str:
        """The id of the take called `name`: an id, a unique beginning of one, or `latest`.

        Raises TakeUnknown.
        """
        name = name.strip()
        if name == "latest":
            found = self._rows("SELECT id FROM takes ORDER BY created DESC, rowid DESC LIMIT 1")
            if not found:
                raise TakeUnknown("take", name, "There is no take yet; make one with generate.")
            return found[0][0]
        found = self._rows(
            "SELECT id FROM takes WHERE substr(id, 1, ?) = ? ORDER BY created DESC LIMIT 9",
            len(name),
            name.lower(),
        )
        if not name or not found:
            fix = "No take begins so; `takes` lists them."
            raise TakeUnknown("take", name, fix)
        if len(found) > 1 and found[0][0] != name:
            several = ", ".join(row[0][:12] for row in found)
            raise TakeUnknown("take", name, f"Several takes begin so ({several}); give more of it.")
        return found[0][0]

    def takes(self, session: str | None = None, limit: int = 100) -> list[TakeRow]:
        """The newest takes first, of one session or of all."""
        where, values = ("WHERE takes.session = ?", [session]) if session else ("", [])
        return self._select(
            f"{where} ORDER BY takes.created DESC, takes.rowid DESC LIMIT ?", [*values, limit]
        )

    def row(self, take_id: str) -> TakeRow:
        """Raises TakeUnknown."""
        rows = self._select("WHERE takes.id = ?", [take_id])
        if not rows:
            raise TakeUnknown("take", take_id, "No such take; `takes` lists them.")
        return rows[0]

    def _select(self, rest: str, values: list[object]) -> list[TakeRow]:
        rows = self._rows(
            "SELECT takes.id, session, parent, keep, takes.created, model, prompt, segments, seeds,"
            " seconds, render_seconds, coalesce(stars, 0), coalesce(note, ''),"
            " takes.id = sessions.baseline FROM takes JOIN sessions ON sessions.id = takes.session"
            f" LEFT JOIN marks ON marks.take = takes.id {rest}",
            *values,
        )
        return [
            TakeRow(*row[:8], tuple(json.loads(row[8])), *row[9:13], bool(row[13])) for row in rows
        ]

    def segments_in_use(self) -> set[str]:
        """Ids of all segments that a take is made of."""
        return {row[0] for row in self._rows("SELECT DISTINCT segment FROM take_segments")}

    # Sessions and baselines

    def sessions(self) -> list[tuple[str, str | None]]:
        """(session, id of its baseline), the newest first."""
        return self._rows("SELECT id, baseline FROM sessions ORDER BY created DESC, rowid DESC")

    def baseline(self, session: str) -> str | None:
        found = self._rows("SELECT baseline FROM sessions WHERE id = ?", session)
        return found[0][0] if found else None

    def accept(self, take_id: str) -> str | None:
        """Makes a take the baseline of its session; returns the baseline before it."""
        session = self.row(take_id).session
        before = self.baseline(session)
        with self._writing():
            self.db.execute("UPDATE sessions SET baseline = ? WHERE id = ?", (take_id, session))
        return before

    # Marks

    def rate(self, take_id: str, stars: int) -> None:
        """Raises BadInput unless 0 <= stars <= 5."""
        if not 0 <= stars <= 5:
            raise BadInput("stars", stars, "Give 0 to 5 stars.")
        self._mark(take_id, stars=stars)

    def note(self, take_id: str, text: str) -> None:
        self._mark(take_id, note=text)

    def _mark(self, take_id: str, **values: object) -> None:
        self.row(take_id)
        with self._writing():
            self.db["marks"].upsert({"take": take_id, **values}, pk="take")

    # Rebuilding

    def rebuild(self, takes: Iterable[Take]) -> None:
        """Replaces the index by `takes`. Marks stay; so do baselines whose take is still there,
        and a session that lost its baseline shows its newest take."""
        ordered = sorted(takes, key=lambda take: take.created)
        kept = dict(self.sessions())
        ids = {take.id for take in ordered}
        with self._writing():
            for table in ("take_segments", "takes", "sessions"):
                self.db.execute(f"DELETE FROM {table}")
            for take in ordered:
                self._insert(take)
                baseline = kept.get(take.session)
                self.db.execute(
                    "UPDATE sessions SET baseline = ? WHERE id = ?",
                    (baseline if baseline in ids else take.id, take.session),
                )

    def close(self) -> None:
        with self._lock:
            self.db.conn.close()

"""The one SQLite file of a library: how it is opened, written and kept whole."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import sqlite_utils

from reuse.errors import FormatTooNew

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1
BUSY_SECONDS = 30

TABLES: Mapping[str, dict] = {
    "sessions": {"columns": {"id": str, "created": str, "baseline": str}, "pk": "id"},
    "takes": {
        "columns": {
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
        "pk": "id",
    },
    "take_segments": {
        "columns": {"take": str, "position": int, "segment": str, "seed": int},
        "pk": ("take", "position"),
    },
    "marks": {
        "columns": {"take": str, "stars": int, "note": str},
        "pk": "take",
        "defaults": {"stars": 0, "note": ""},
        "not_null": {"stars", "note"},
    },
    "jobs": {
        "columns": {
            "id": int,
            "request": str,
            "state": str,
            "position": float,
            "created": str,
            "owner": str,
            "cancel": int,
            "progress": str,
            "told": str,
            "take": str,
        },
        "pk": "id",
    },
}
INDEXES = (
    ("takes", ["session", "created"]),
    ("takes", ["created"]),
    ("take_segments", ["segment"]),
    ("jobs", ["state", "position"]),
)


class Database:
    """Opens or makes the file. Safe to use from several threads and processes.

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
            self._connection = connection
            self.tables = sqlite_utils.Database(connection)
            if version < SCHEMA_VERSION:
                self._create()
        except BaseException:
            connection.close()
            raise

    def _create(self) -> None:
        with self.writing():
            for name, shape in TABLES.items():
                options = {k: v for k, v in shape.items() if k != "columns"}
                self.tables[name].create(shape["columns"], if_not_exists=True, **options)
            for table, columns in INDEXES:
                self.tables[table].create_index(columns, if_not_exists=True)
            self.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction; takes the write lock at its start, so that it never fails half-way."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # On a full disk SQLite has rolled back by itself.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
        """One statement, inside `writing`."""
        return self._connection.execute(sql, values)

    def rows(self, sql: str, *values: object) -> list[tuple]:
        """All rows of a question."""
        with self._lock:
            return self._connection.execute(sql, values).fetchall()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

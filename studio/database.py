"""The one SQLite file of a library: how it is opened, written and kept whole."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import sqlite_utils

from reuse.errors import FormatTooNew
from studio.schema import VERSIONS

log = logging.getLogger(__name__)

SCHEMA_VERSION = len(VERSIONS)
BUSY_SECONDS = 30
_NO_DATABASE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turns to a write-ahead log. SQLite does not wait by itself where several processes do so at
    once."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > until:
                raise
        time.sleep(0.02)


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
            # The low byte is the kind of the error. Others leave a whole file behind.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _NO_DATABASE:
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
            version = self._version(connection)
            _write_ahead(connection)
            for pragma in ("synchronous=NORMAL", "foreign_keys=ON"):
                connection.execute(f"PRAGMA {pragma}")
            self._connection = connection
            self.tables = sqlite_utils.Database(connection)
            if version < SCHEMA_VERSION:
                self._bring_up_to_date()
        except BaseException:
            connection.close()
            raise

    def _version(self, connection: sqlite3.Connection) -> int:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise FormatTooNew(self.path, version, SCHEMA_VERSION)
        return version

    def _bring_up_to_date(self) -> None:
        with self.writing():
            # Another process may have done it while this one waited for its turn.
            for step in VERSIONS[self._version(self._connection) :]:
                step(self.tables)
            self.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction; takes the write lock at its start, so that it never fails half-way.

        Inside another one it is part of that one."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
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

"""SHA-256 of input files and folders, remembered by their stat so that weights are read once.

The trap is git's "racy" one: a file that is written again within the clock tick of its timestamps
looks unchanged. A hash is therefore remembered only for files that had been at rest for a while.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reuse.errors import FileChanging

if TYPE_CHECKING:
    import sqlite3

log = logging.getLogger(__name__)

SETTLED_NS = 2_000_000_000
"""FAT keeps times to 2 s, the coarsest in use."""

_SHA256_NAME = re.compile(r"[0-9a-f]{64}")
_TABLE = (
    "CREATE TABLE IF NOT EXISTS hashes (path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, "
    "ctime_ns INTEGER, inode INTEGER, sha256 TEXT)"
)

Stamp = tuple[int, int, int, int]


@dataclass(frozen=True)
class Content:
    """What a file or a folder holds, whatever it is called."""

    sha256: str
    """64 hex digits."""
    bytes: int


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, read from start to end. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class FileHashes:
    """Hashes files, and remembers the hashes in memory and, given a path, in a SQLite file there.

    The memory is a convenience: if it is lost, locked or damaged, files are read again.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._known: dict[bytes, tuple[Stamp, str]] = {}

    def of(self, path: Path) -> Content:
        """The content of a file, or of all files in a folder.

        A folder's hash covers the sorted relative names and the hashes of its files; names that
        start with a dot are left out, since tools drop their notes there (`.git`, `.cache`).
        Raises FileNotFoundError if there is neither, FileChanging, OSError.
        """
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return self._file(path)
        if stat.S_ISDIR(mode):
            return self._folder(path)
        raise FileNotFoundError(f"{path} is neither a file nor a folder")

    def _folder(self, folder: Path) -> Content:
        files = {os.fsencode(name): self._file(path) for name, path in _walk(folder, "", ())}
        total = hashlib.sha256(b"folder\n")
        for name in sorted(files):
            total.update(name + b"\0" + files[name].sha256.encode() + b"\n")
        return Content(total.hexdigest(), sum(content.bytes for content in files.values()))

    def _file(self, path: Path) -> Content:
        real = Path(os.path.realpath(path))
        if path.is_symlink() and real.parent.name == "blobs" and _SHA256_NAME.fullmatch(real.name):
            # The Hugging Face cache names the blob of a large file by its SHA-256, and never
            # writes to it again.
            return Content(real.name, real.stat().st_size)
        for _ in range(3):
            with real.open("rb", buffering=0) as file:
                started = time.time_ns()
                before = os.fstat(file.fileno())
                sha256 = self._recall(real, _stamp(before))
                if sha256 is not None:
                    return Content(sha256, before.st_size)
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
                after = os.fstat(file.fileno())
            if _stamp(before) == _stamp(after):
                # The clock is read before the file: a change while it is read must not slip in.
                if _at_rest(before, started):
                    self._remember(real, _stamp(before), sha256)
                return Content(sha256, before.st_size)
        raise FileChanging(path)

    def _recall(self, path: Path, stamp: Stamp) -> str | None:
        name = os.fsencode(path)
        then, sha256 = self._known.get(name, (None, None))
        if then != stamp and self._path is not None:
            row = self._query(
                lambda db: db.execute(
                    "SELECT size, mtime_ns, ctime_ns, inode, sha256 FROM hashes WHERE path = ?",
                    [name],
                ).fetchone()
            )
            if row is not None:
                then, sha256 = self._known[name] = (row[:4], row[4])
        return sha256 if then == stamp else None

    def _remember(self, path: Path, stamp: Stamp, sha256: str) -> None:
        name = os.fsencode(path)
        self._known[name] = (stamp, sha256)
        if self._path is not None:
            row = [name, *stamp, sha256]
            self._query(lambda db: db.execute("REPLACE INTO hashes VALUES (?, ?, ?, ?, ?, ?)", row))

    def _query(self, ask: Callable[[sqlite3.Connection], object]) -> object | None:
        """Runs `ask` in a transaction of its own: threads and processes may share the file."""
        import sqlite3

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=5)) as db, db:
                db.execute(_TABLE)
                return ask(db)
        except (sqlite3.OperationalError, OSError) as error:
            log.info("going on without the remembered hashes in %s: %s", self._path, error)
        except sqlite3.DatabaseError as error:
            log.warning("%s is damaged (%s); it is started afresh", self._path, error)
            with suppress(OSError):
                self._path.unlink()
        return None


def _walk(folder: Path, prefix: str, above: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Relative name and path of every file, through links too, but not round in circles."""
    real = os.path.realpath(folder)
    if real in above:
        return
    for name in os.listdir(folder):
        path = folder / name
        if name.startswith("."):
            continue
        if path.is_dir():
            yield from _walk(path, f"{prefix}{name}/", (*above, real))
        elif path.is_file():
            yield prefix + name, path


def _stamp(status: os.stat_result) -> Stamp:
    # The change time goes with the others: `touch -r` and `cp -p` set the modification time back.
    # SQLite's integers are signed.
    inode = status.st_ino & 0x7FFF_FFFF_FFFF_FFFF
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, inode


def _at_rest(status: os.stat_result, now_ns: int) -> bool:
    times = status.st_mtime_ns, status.st_ctime_ns
    return min(abs(now_ns - t) for t in times) > SETTLED_NS

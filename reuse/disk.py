"""What the cache asks of a file system (write, flush, remove, lock), and its errors in words.

All writing goes through here as plain system calls, so that a full disk shows wherever it strikes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reuse.errors import DiskFull, NotWritable

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}


@contextmanager
def full_disk_in_words(path: Path, needed: int | None = None) -> Iterator[None]:
    """Turns "no space" and "over quota" into DiskFull; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        culprit = error.filename if isinstance(error.filename, str) else path
        raise DiskFull(Path(culprit), _free_bytes(path), needed) from error


@contextmanager
def in_words(path: Path, needed: int | None = None) -> Iterator[None]:
    """Like `full_disk_in_words`, and turns a refusal to write into NotWritable."""
    try:
        with full_disk_in_words(path, needed):
            yield
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        raise NotWritable(path, os.strerror(error.errno)) from error


def write_file(path: Path, data: bytes) -> None:
    """Writes a new file whole. Raises DiskFull, NotWritable, OSError."""
    with in_words(path, len(data)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
        finally:
            os.close(file)


def flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk itself."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        # Some network file systems cannot flush a folder; there is then nothing to wait for.
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(file)


def remove(path: Path) -> None:
    """Removes a file or a folder, which others may be removing too. What cannot go is left for
    the next sweep."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder, those that vanish meanwhile left out."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(parent, name)).st_size
    return total


def take_lock(path: Path) -> int:
    """Makes and locks a file, waiting if need be; gives the descriptor to hand to `drop_lock`.

    The kernel drops the lock when its owner dies, however it dies.
    """
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # A sweep may have removed the file between the two calls: then this locks nothing.
            if _is_at(lock, path):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def take_lock_of_the_dead(path: Path) -> int | None:
    """Locks an existing file if nobody alive holds it; None if somebody does.
    Raises FileNotFoundError if there is no such file."""
    lock = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(lock, path):
            return lock
    except BlockingIOError:
        pass
    except BaseException:
        os.close(lock)
        raise
    os.close(lock)
    return None


def drop_lock(lock: int, path: Path | None = None) -> None:
    """Lets go of a lock; with a path, removes its file first."""
    if path is not None:
        with suppress(OSError):
            path.unlink()
    os.close(lock)


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _free_bytes(path: Path) -> int | None:
    for place in (path, *path.parents):
        with suppress(OSError):
            return shutil.disk_usage(place).free
    return None

"""What is being written now: a private folder that becomes an entry by one rename, or vanishes.

staging/<name>/        the files, as they will be published
staging/<name>.lock    locked while the owner lives, so that a sweep can tell the dead
"""

from __future__ import annotations

import errno
import json
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reuse import disk, manifest, tensors
from reuse.entry import Entry
from reuse.errors import NotInLibrary
from reuse.hashes import sha256_of

if TYPE_CHECKING:
    import torch

    from reuse.store import Store

log = logging.getLogger(__name__)

_NAME = re.compile(r"[0-9a-f]{32}")
_OCCUPIED = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


class Staging:
    """Made by `Store.stage`, as its owner, or as a member that adds files to another's folder."""

    def __init__(self, store: Store, path: Path, lock: int | None) -> None:
        self._store = store
        self._lock = lock
        self.path = path

    @classmethod
    def own(cls, store: Store) -> Staging:
        """A new folder. Raises DiskFull, NotWritable, OSError."""
        path = store.staging / uuid4().hex
        with disk.in_words(path):
            store.staging.mkdir(parents=True, exist_ok=True)
            # The lock comes first: a folder without one belongs to nobody.
            lock = disk.take_lock(_lock_of(path))
            try:
                path.mkdir()
            except BaseException:
                disk.drop_lock(lock, _lock_of(path))
                raise
        return cls(store, path, lock)

    @classmethod
    def join(cls, store: Store, name: str) -> Staging:
        """The folder that rank 0 made and named. Raises NotInLibrary if it is not there."""
        path = store.staging / name
        if not _NAME.fullmatch(name) or not path.is_dir():
            raise NotInLibrary(path)
        return cls(store, path, None)

    @property
    def name(self) -> str:
        """What other ranks pass to `Store.stage(shared=…)`."""
        return self.path.name

    def file(self, name: str) -> Path:
        """Where to write a file of that name. Raises ValueError unless it is a plain name."""
        if Path(name).name != name or name[:1] in ("", ".") or name == manifest.NAME:
            raise ValueError(f"not a name for a file of an entry: {name!r}")
        return self.path / name

    def write_tensors(self, stem: str, named: Mapping[str, torch.Tensor], rank: int = 0) -> Path:
        """Writes `<stem>_rank_<rank>.safetensors` (`rank_<rank>.safetensors` for an empty stem).
        Raises DiskFull, NotWritable, OSError."""
        path = self.file(tensors.file_name(stem, rank))
        tensors.save(path, named)
        return path

    def publish(self, kind: str, key: str, fields: Mapping[str, Any]) -> Entry:
        """Makes the folder, with all files in it, the entry `kind`/`key`, in one rename.

        `fields` go into the manifest beside ours. If a whole entry of that key is there already,
        it is returned and this one is dropped. In a group of ranks only the owner publishes, after
        all have written. Raises DiskFull, NotWritable, FormatTooNew (a later Retake owns the key),
        ValueError or TypeError for what cannot be a key, a file or a field, OSError.
        """
        if self._lock is None:
            raise ValueError("only who made a staging folder can publish it, and only once")
        target = self._store.folder(kind, key)
        with disk.in_words(self.path):
            files = {path.name: self._flushed(path) for path in sorted(self.path.iterdir())}
            data = manifest.write(kind, key, files, fields)
            disk.write_file(self.path / manifest.NAME, data)
            disk.flush(self.path / manifest.NAME)
            disk.flush(self.path)
            if not target.parent.is_dir():
                target.parent.mkdir(exist_ok=True)
                disk.flush(target.parent.parent)
            entry = self._rename(kind, key, target)
        self.close()
        return entry or Entry(kind, key, target, json.loads(data))

    def close(self) -> None:
        """Removes the folder unless it is published. A member leaves it to the owner."""
        if self._lock is None:
            return
        disk.remove(self.path)
        disk.drop_lock(self._lock, _lock_of(self.path))
        self._lock = None

    def _flushed(self, path: Path) -> dict[str, Any]:
        if path.is_symlink() or not path.is_file():
            raise ValueError(f"an entry holds plain files only: {path}")
        disk.flush(path)
        return {"sha256": sha256_of(path), "bytes": path.stat().st_size}

    def _rename(self, kind: str, key: str, target: Path) -> Entry | None:
        """None if ours is in place now, else the whole entry that was there before."""
        while True:
            try:
                os.rename(self.path, target)
                break
            except OSError as error:
                if error.errno not in _OCCUPIED:
                    raise
            # Finding it checks it, and moves it out of the way if it is damaged.
            entry = self._store.find(kind, key)
            if entry is not None:
                return entry
            self._store.clear(kind, key)
        try:
            disk.flush(target.parent)
        except OSError:
            # Not surely on disk: an error must mean that nothing was published.
            with suppress(OSError):
                os.rename(target, self.path)
            raise
        return None


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def sweep(staging: Path) -> int:
    """Removes what dead processes left behind, and what was set aside; gives how many.

    Whoever is alive holds a lock, so this may run beside them. Raises nothing for what it cannot
    remove; that stays for the next time.
    """
    if not staging.is_dir():
        return 0
    names = {path.name.removesuffix(".lock") for path in staging.iterdir()}
    removed = 0
    for path in (staging / name for name in sorted(names) if not name.startswith(".")):
        try:
            lock = disk.take_lock_of_the_dead(_lock_of(path))
            if lock is None:
                continue
        except FileNotFoundError:
            lock = None
        except OSError as error:
            log.warning("cannot sweep %s: %s", path, error)
            continue
        there = path.exists()
        disk.remove(path)
        removed += there and not path.exists()
        if lock is not None:
            disk.drop_lock(lock, _lock_of(path))
    return removed

"""The library on disk: find, publish, verify. Readers only ever see whole entries.

Entries come and go by renaming their folder. Taking one away (damaged, or collected) is done under
one lock, after another look, so that nobody removes what somebody else has just put right.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from reuse import collect, disk, manifest
from reuse.entry import Entry
from reuse.errors import Damaged, DiskFull, FormatTooNew, NotInLibrary, NotWritable
from reuse.hashes import FileHashes, sha256_of
from reuse.manifest import Fault
from reuse.staging import Staging, sweep

log = logging.getLogger(__name__)

KINDS = ("inputs", "segments", "takes")

_KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")


class Store:
    """One library folder. Any number of stores, threads and processes may share it."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.staging = self.root / "staging"
        self.damaged: list[Fault] = []
        """What `find` came across and moved out of the way, oldest first."""
        self._hashes = FileHashes()

    def folder(self, kind: str, key: str) -> Path:
        """Where an entry is or would be. Raises ValueError for an unknown kind and for a key that
        is not made of letters, digits, `-` and `_`."""
        if not _KEY.fullmatch(key):
            raise ValueError(f"not a key: {key!r}")
        return self._kind(kind) / key

    def find(self, kind: str, key: str) -> Entry | None:
        """The published entry, each of its files checked against the manifest; else None.

        Files seen whole once by this store are known by their stat. A damaged entry is moved out
        of the way, logged, and added to `damaged`: the caller computes it again. Finding an entry
        counts as a use of it (see `collect`). Raises FormatTooNew, OSError.
        """
        found = self._check(kind, key, self._remembered)
        if isinstance(found, Fault):
            found = self._set_aside(kind, key)
        if found is not None:
            with suppress(OSError):
                os.utime(found.path)
        return found

    def manifest(self, kind: str, key: str) -> dict[str, Any]:
        """The manifest alone, its own hash checked and no other file read. Raises NotInLibrary,
        Damaged, FormatTooNew, OSError."""
        folder = self._existing(kind, key)
        if folder is None:
            raise NotInLibrary(self._kind(kind) / key)
        return manifest.read(folder, kind, key)

    def keys(self, kind: str) -> Iterator[str]:
        """Keys of the published entries of a kind, sorted. Stray files are passed over."""
        for path in self._children(kind):
            if _KEY.fullmatch(path.name) and (path / manifest.NAME).is_file():
                yield path.name

    @contextmanager
    def stage(self, shared: str | None = None) -> Iterator[Staging]:
        """A private folder to write an entry into; left without `publish`, it is removed.

        With `shared`, the `name` of another process's staging, this one adds files to that folder,
        which only its owner publishes or removes: so each rank writes its own tensors. A full disk
        met inside raises DiskFull. Raises NotWritable, NotInLibrary (`shared` is gone), OSError.
        """
        work = Staging.own(self) if shared is None else Staging.join(self, shared)
        try:
            with disk.full_disk_in_words(work.path):
                yield work
        finally:
            work.close()

    def sweep(self) -> int:
        """Removes what dead processes left in staging; gives how many. Safe beside live ones."""
        return sweep(self.staging)

    def clear(self, kind: str, key: str) -> None:
        """Moves something that is no entry (a stray file or folder) away from an entry's place."""
        with self.moving():
            path = self.folder(kind, key)
            if os.path.lexists(path) and not isinstance(self._check(kind, key, sha256_of), Entry):
                self.move_out(path)

    def verify(self, kinds: Iterable[str] | None = None) -> Iterator[Fault]:
        """Reads everything and names what is not as it was published. Changes nothing.
        Raises OSError."""
        for kind in KINDS if kinds is None else kinds:
            for path in self._children(kind):
                yield from self._faults(kind, path)

    def faults(self, kind: str, key: str) -> list[Fault]:
        """What `verify` finds in one entry. Changes nothing. Raises ValueError as `folder` does,
        OSError."""
        path = self.folder(kind, key)
        if not path.is_dir():
            return [Fault(kind, key, "", "it is missing")]
        return list(self._faults(kind, path))

    def collect(self, keep: Mapping[str, Iterable[str]], older_than_s: float) -> collect.Collected:
        """Removes entries of `inputs` and `segments` that are not in `keep` and were neither
        published nor found for `older_than_s` seconds.

        A kind that `keep` does not name is left alone, as are entries of a later Retake. A running
        job is safe if the age is longer than the job, or its keys are in `keep`. Raises ValueError
        for other kinds, NotWritable, OSError.
        """
        return collect.collect(self, keep, older_than_s)

    def usage(self) -> dict[str, int]:
        """Bytes on disk for each kind and for staging."""
        return {kind: disk.size_of(self.root / kind) for kind in (*KINDS, "staging")}

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Held by whoever takes published folders away. Raises NotWritable, DiskFull, OSError."""
        path = self.staging / ".moving.lock"
        with disk.in_words(path):
            self.staging.mkdir(parents=True, exist_ok=True)
            lock = disk.take_lock(path)
        try:
            yield
        finally:
            disk.drop_lock(lock)

    def move_out(self, path: Path) -> Path:
        """Renames something into staging, where the next sweep removes it. Call it in `moving`."""
        away = self.staging / f"{path.parent.name}-{path.name}-{uuid4().hex[:8]}"
        with disk.in_words(path):
            os.rename(path, away)
        return away

    def _kind(self, kind: str) -> Path:
        if kind not in KINDS:
            raise ValueError(f"not a kind: {kind!r}; there are {', '.join(KINDS)}")
        return self.root / kind

    def _children(self, kind: str) -> list[Path]:
        try:
            return sorted(self._kind(kind).iterdir())
        except FileNotFoundError:
            return []

    def _existing(self, kind: str, key: str) -> Path | None:
        path = self._kind(kind) / key
        return path if _KEY.fullmatch(key) and path.is_dir() else None

    def _remembered(self, path: Path) -> str:
        return self._hashes.of(path).sha256

    def _check(self, kind: str, key: str, sha256: Callable[[Path], str]) -> Entry | Fault | None:
        """The entry, the first thing wrong with it, or None if there is (no longer) any."""
        folder = self._existing(kind, key)
        if folder is None:
            return None
        try:
            entry = Entry(kind, key, folder, manifest.read(folder, kind, key))
            fault = next(manifest.faults(folder, entry.manifest, sha256), None)
        except Damaged as error:
            fault = Fault(kind, key, manifest.NAME, error.what)
        if fault is None:
            return entry
        return fault if folder.is_dir() else None

    def _set_aside(self, kind: str, key: str) -> Entry | None:
        """Moves a damaged entry out of the way, if it still is; else gives what is there now."""
        try:
            with self.moving():
                found = self._check(kind, key, sha256_of)
                if not isinstance(found, Fault):
                    return found
                self.move_out(self.folder(kind, key))
        except (NotWritable, DiskFull):
            # Nothing can be moved here: the damaged entry stays, and still counts for nothing.
            found = self._check(kind, key, sha256_of)
            if not isinstance(found, Fault):
                return found
        log.warning("damaged, to be computed again: %s", found)
        self.damaged.append(found)
        return None

    def _faults(self, kind: str, path: Path) -> Iterator[Fault]:
        key = path.name
        try:
            if not (_KEY.fullmatch(key) and path.is_dir()):
                yield Fault(kind, key, "", "it is not an entry; nothing of Retake's")
                return
            fields = manifest.read(path, kind, key)
            faults = list(manifest.faults(path, fields, sha256_of))
            listed = {*fields["files"], manifest.NAME}
            extra = sorted(p.name for p in path.iterdir() if p.name not in listed)
        except FormatTooNew as error:
            yield Fault(kind, key, manifest.NAME, str(error))
            return
        except Damaged as error:
            faults, extra = [Fault(kind, key, manifest.NAME, error.what)], []
        except FileNotFoundError:
            faults, extra = [], []
        # An entry that was collected meanwhile is no fault.
        if path.is_dir():
            yield from faults
            for name in extra:
                if not name.startswith("."):
                    yield Fault(kind, key, name, "it is not in the manifest")

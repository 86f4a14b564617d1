"""Garbage collection: entries that no take needs any more, taken away whole."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reuse import disk, manifest
from reuse.errors import Damaged, FormatTooNew

if TYPE_CHECKING:
    from reuse.store import Store

COLLECTED_KINDS = ("inputs", "segments")


@dataclass(frozen=True)
class Collected:
    """What garbage collection took away."""

    removed: tuple[tuple[str, str], ...]
    """(kind, key) of each entry."""
    bytes: int

    @property
    def entries(self) -> int:
        return len(self.removed)


def collect(store: Store, keep: Mapping[str, Iterable[str]], older_than_s: float) -> Collected:
    """The work of `Store.collect`, which says what it does and raises."""
    for kind in keep:
        if kind not in COLLECTED_KINDS:
            raise ValueError(f"not a kind that is collected: {kind!r}")
    removed, freed = [], 0
    for kind, kept in keep.items():
        kept = set(kept)
        for key in store.keys(kind):
            if key in kept:
                continue
            path = store.folder(kind, key)
            with store.moving():
                if not _is_garbage(path, kind, key, older_than_s):
                    continue
                away = store.move_out(path)
            freed += disk.size_of(away)
            removed.append((kind, key))
            disk.remove(away)
    return Collected(tuple(removed), freed)


def _is_garbage(path: Path, kind: str, key: str, older_than_s: float) -> bool:
    with suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime < older_than_s:
            return False
        try:
            manifest.read(path, kind, key)
        except FormatTooNew:
            return False
        except Damaged:
            pass
        return path.is_dir()
    return False

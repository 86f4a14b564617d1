"""How many bytes a library takes, asked often and measured seldom."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import dataclass

from reuse import KINDS, disk
from studio.library import Library

FRESH_SECONDS = 60.0
PLACES = (*KINDS, "trash")


@dataclass(frozen=True)
class Reading:
    """In bytes."""

    bytes: dict[str, int]
    """For each of PLACES."""
    free: int
    """On the disk that holds the library."""


class DiskUse:
    """Remembers the size of every entry: a published folder never changes, so that after the first
    look only what is new is measured. Safe to use from several threads."""

    def __init__(self, library: Library) -> None:
        self._folder = library.folder
        self._known: dict[str, dict[str, int]] = {place: {} for place in PLACES}
        self._looked = -FRESH_SECONDS
        self._lock = threading.Lock()

    def reading(self) -> Reading:
        """At most a minute old, but for what is free."""
        with self._lock:
            if time.monotonic() - self._looked >= FRESH_SECONDS:
                for place in PLACES:
                    self._known[place] = self._sizes(place)
                self._looked = time.monotonic()
            sums = {place: sum(sizes.values()) for place, sizes in self._known.items()}
        return Reading(sums, shutil.disk_usage(self._folder).free)

    def look_again(self) -> None:
        """The next reading is a new one: something was removed."""
        with self._lock:
            self._looked = -FRESH_SECONDS

    def _sizes(self, place: str) -> dict[str, int]:
        known, folder = self._known[place], self._folder / place
        try:
            names = [path.name for path in folder.iterdir()]
        except FileNotFoundError:
            return {}
        return {
            name: known[name] if name in known else disk.size_of(folder / name) for name in names
        }

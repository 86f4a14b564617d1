"""What a job has finished so far as one video: the chain that ends in a segment, joined."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from reuse import Damaged
from studio import media
from studio.assemble import VIDEO
from studio.library import Library

KEPT = 24
"""Joined files that stay; the one that was asked for longest ago goes first."""


@dataclass(frozen=True)
class Link:
    """One segment of a chain."""

    id: str
    frames: tuple[int, int]
    """[first, last + 1] in the joined video."""


class Prefixes:
    """Joined chains of a library in a folder that lives as long as the server."""

    def __init__(self, library: Library, folder: Path) -> None:
        self.library, self.folder = library, folder
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def chain(self, segment_id: str) -> list[Link]:
        """The segments up to and with this one, the first one first.

        Raises NotInLibrary or Damaged for the first that cannot be read.
        """
        manifests: list[dict] = []
        ids: list[str] = []
        following: str | None = segment_id
        while following is not None:
            manifest = self.library.store.manifest("segments", following)
            if manifests and manifest["index"] != manifests[-1]["index"] - 1:
                path = self.library.store.folder("segments", following)
                raise Damaged(path, "it is not the one before the next")
            manifests.append(manifest)
            ids.append(following)
            following = manifest["previous"]
        links, first = [], 0
        for key, manifest in zip(reversed(ids), reversed(manifests), strict=True):
            links.append(Link(key, (first, first + manifest["frames"])))
            first += manifest["frames"]
        return links

    def video(self, segment_id: str) -> Path:
        """The video of the chain, at the frame rate of its segments. Several who ask for the same
        at once share one join.

        Raises NotInLibrary, Damaged, MediaError.
        """
        links = self.chain(segment_id)
        files = [self.library.store.folder("segments", link.id) / VIDEO for link in links]
        if len(files) == 1:
            return files[0]
        out = self.folder / f"{segment_id}.mp4"
        with self._locks[segment_id]:
            if out.is_file():
                out.touch()
            else:
                self.folder.mkdir(exist_ok=True)
                media.join(files, out)
                self._forget_old()
        return out

    def _forget_old(self) -> None:
        files = sorted(self.folder.glob("*.mp4"), key=lambda path: path.stat().st_mtime)
        for path in files[:-KEPT]:
            path.unlink(missing_ok=True)

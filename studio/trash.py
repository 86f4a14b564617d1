"""The trash: takes that were deleted and can come back, folder by folder, until it is emptied.

library/trash/<take_id>/    the folder as it was under takes/

A take goes and comes back by one rename, made as the last thing before the index is committed: a
process that dies leaves it here or there, and the next opening of the library sees where.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from pipelines.errors import BadInput
from reuse import Fault, ReuseError, disk, manifest
from reuse.hashes import sha256_of
from studio.errors import TakeUnknown
from studio.take import Take

if TYPE_CHECKING:
    from studio.library import Library

log = logging.getLogger(__name__)


class Contents(NamedTuple):
    """How many takes, and their bytes without the segments that they share with others."""

    takes: int
    bytes: int


class Trash:
    """The trash of a library. Any number of processes may use it at once."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.folder = library.folder / "trash"

    def ids(self) -> set[str]:
        """What is in it."""
        with suppress(FileNotFoundError):
            folders = self.folder.iterdir()
            return {path.name for path in folders if (path / manifest.NAME).is_file()}
        return set()

    def contents(self) -> Contents:
        """Looks at every folder in it."""
        ids = self.ids()
        return Contents(len(ids), sum(disk.size_of(self.folder / take) for take in ids))

    def takes(self) -> Iterator[Take]:
        """Those that can be read; the others are logged."""
        for take in sorted(self.ids()):
            try:
                yield self._read(take)
            except (ReuseError, ValidationError) as error:
                log.warning("take %s in the trash is left out: %s", take[:12], error)

    def find(self, take: str) -> Take | None:
        """A take in it; None if it is not there or cannot be read."""
        if take not in self.ids():
            return None
        try:
            return self._read(take)
        except (ReuseError, ValidationError):
            return None

    def faults(self) -> Iterator[Fault]:
        """What is in it and not as it was published; each file is read. Changes nothing."""
        for take in sorted(self.ids()):
            try:
                told = manifest.read(self.folder / take, "takes", take)
            except ReuseError as error:
                yield Fault("trash", take, manifest.NAME, str(error))
                continue
            for fault in manifest.faults(self.folder / take, told, sha256_of):
                yield replace(fault, kind="trash")

    def put(self, take: str) -> None:
        """Deletes a take, so that `restore` can bring it back. What was made from it stays.

        Raises TakeUnknown, and BadInput while a job needs it as its parent.
        """
        library = self.library
        there, here = library.takes_folder / take, self.folder / take
        with library.store.moving(), library.database.writing(), disk.in_words(here):
            library.history.row(take)
            self._refuse_while_needed(take)
            library.history.trash(take)
            if not there.exists():
                return  # It only leaves the index.
            self.folder.mkdir(exist_ok=True)
            if here.exists():
                library.store.move_out(here)
            os.rename(there, here)

    def _refuse_while_needed(self, take: str) -> None:
        for job in self.library.jobs.queue():
            if job.order.parent == take:
                fix = f"Job {job.id} is to retake it; cancel that job first, or let it finish."
                raise BadInput("take", take, fix)

    def restore(self, take: str) -> Take:
        """Brings a take back to its place in the tree, and as the baseline if it was.

        Raises TakeUnknown if it is not in the trash, Damaged if its manifest cannot be read.
        """
        library = self.library
        there, here = library.takes_folder / take, self.folder / take
        with library.store.moving(), library.database.writing(), disk.in_words(there):
            if take not in self.ids():
                raise TakeUnknown("take", take, "It is not in the trash.")
            found = self._read(take)
            if there.exists():
                # It was made again meanwhile.
                library.store.move_out(here)
            else:
                there.parent.mkdir(exist_ok=True)
                os.rename(here, there)
            library.history.record(found)
        return found

    def drop(self, take: str) -> None:
        """Removes a take that was made again meanwhile; nothing if it is not in the trash."""
        with self.library.store.moving():
            if take in self.ids() and (self.library.takes_folder / take).exists():
                self.library.store.move_out(self.folder / take)

    def empty(self) -> Contents:
        """Removes what is in it for good; returns what went. Segments stay until `clean`."""
        store, history = self.library.store, self.library.history
        freed = 0
        gone = sorted(self.ids())
        for take in gone:
            with store.moving():
                if not (self.folder / take).is_dir():
                    continue
                away = store.move_out(self.folder / take)
            freed += disk.size_of(away)
            disk.remove(away)
        history.forget_trashed(history.trashed() - self.ids())
        return Contents(len(gone), freed)

    def _read(self, take: str) -> Take:
        told = manifest.read(self.folder / take, "takes", take)
        return self.library.located(Take.model_validate(told["take"]))

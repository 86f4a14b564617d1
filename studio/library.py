"""The library: the one folder that holds everything, and the one place that knows its paths."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import platformdirs
from pydantic import ValidationError

from pipelines.errors import BadInput
from pipelines.film_kinds import film_ending
from reuse import Damaged, FileHashes, NotInLibrary, ReuseError, Store, digest, manifest, resolve
from studio.database import Database
from studio.history import History
from studio.jobs import Jobs
from studio.presets import Presets
from studio.recipe import INPUT_FILES, Recipe
from studio.take import Take
from studio.trash import Trash

log = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE = "RETAKE_LIBRARY"
DAMAGED_COPY = "The copy in the library is damaged; give the file again."


def default_folder() -> Path:
    """$RETAKE_LIBRARY, or a folder among the user's data."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_data_path("retake") / "library"


class Library:
    """Opens (or makes) a library. The disk is the truth; `history` is an index over it.

    Raises BadInput if the folder cannot be made or written, or holds no library and is not to be
    made.
    """

    def __init__(self, folder: Path | None = None, make: bool = True) -> None:
        self.folder = (folder or default_folder()).expanduser().absolute()
        known = ("history.sqlite", "takes")
        if not make and not any((self.folder / name).exists() for name in known):
            fix = "There is no library here; `generate` makes one. Check the path."
            raise BadInput("library", str(self.folder), fix)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.store = Store(self.folder)
            self.store.sweep()
            self.hashes = FileHashes(self.folder / "hashes.sqlite")
            is_new = not (self.folder / "history.sqlite").exists()
            self.database = Database(self.folder / "history.sqlite")
            self.history = History(self.database)
            self.jobs = Jobs(self.database)
            self.trash = Trash(self)
            self.presets = Presets(self.database, self.folder)
            # Held from choosing the name of a new session until it is taken.
            self.naming = threading.Lock()
            self._called: dict[Path, str] = {}
            self._catch_up()
            if is_new and (found := len(self.history.take_ids())):
                log.warning(
                    "history.sqlite was missing and is made anew from %d takes; the queue, ratings,"
                    " notes and accepted baselines are gone",
                    found,
                )
        except (OSError, sqlite3.OperationalError) as error:
            told = getattr(error, "strerror", None) or error
            fix = f"Choose a folder that can be written ({told})."
            raise BadInput("library", str(self.folder), fix) from error

    @property
    def takes_folder(self) -> Path:
        return self.folder / "takes"

    def known_take(self, take_id: str) -> Take | None:
        """The take if its manifest is on disk, its files not checked; else None."""
        try:
            return self.read_take(take_id)
        except NotInLibrary:
            return None
        except Damaged as error:
            log.warning("take %s has to be made again: %s", take_id[:12], error)
            return None

    def is_whole(self, take: Take) -> bool:
        """Whether the files of a take are what its manifest says. Changes nothing on disk: a take
        whose result is damaged can still be made again from its manifest."""
        return not self.store.faults("takes", take.id)

    def record(self, *takes: Take) -> None:
        """Puts published takes into the index. A full or read-only disk is logged and no more:
        they are on disk, and the next opening of the library records them."""
        try:
            self.history.record(*takes)
        except sqlite3.OperationalError as error:
            told = ", ".join(take.id[:12] for take in takes)
            log.warning("not yet in the index: take %s (%s)", told, error)

    def take(self, name: str) -> Take:
        """The take that goes by an id, a unique beginning of one, or `latest`.

        Raises TakeUnknown.
        """
        return self.read_take(self.history.resolve(name))

    def read_take(self, take_id: str) -> Take:
        """The manifest of a published take, its files not checked."""
        return self.located(Take.model_validate(self.store.manifest("takes", take_id)["take"]))

    def result(self, take: Take) -> Path:
        """The video of a take."""
        return take.result_in(self.takes_folder)

    def adopt(self, recipe: Recipe) -> Recipe:
        """The recipe with its files copied into the library by content, so that a take
        can be continued after the file was moved or edited.

        Raises BadInput if the library's own copy is damaged.
        """
        return recipe.with_files(
            lambda name, path: self._checked(name, path) or self.adopt_file(INPUT_FILES[name], path)
        )

    def _checked(self, name: str, path: Path) -> Path | None:
        """The path itself if it is a copy that was adopted before and is whole."""
        if path.parent.parent != self.folder / "inputs":
            return None
        if not self.has_input(path.parent.name):
            raise BadInput(name, self.called(path) or str(path), DAMAGED_COPY)
        return path

    def has_input(self, key: str) -> bool:
        """Whether an adopted file is there and whole. It is read only if it was written to since
        it was read last."""
        folder = self.store.folder("inputs", key)
        try:
            told = manifest.read(folder, "inputs", key)
            return not any(manifest.faults(folder, told, lambda path: self.hashes.of(path).sha256))
        except ReuseError:
            return False

    def adopt_file(self, kind: str, path: Path, called: str = "") -> Path:
        """The library's own copy, by content, of a file of this kind (a value of INPUT_FILES);
        `called` is the name that the person knows it by. A video ends as its content does, since it
        is served by that."""
        ending = (film_ending(path) if kind == "image" else None) or path.suffix.lower()
        with self.store.stage() as staging:
            copy = staging.file(f"{kind}{ending}")
            shutil.copyfile(path, copy)
            # The key is that of the copy: the file may be written to meanwhile.
            key = digest("file", resolve({kind: copy, "suffix": copy.suffix}, FileHashes()))
            entry = self.store.find("inputs", key)
            if entry is None:
                known = os.fsencode(called or path.name).decode("utf-8", "replace")
                entry = staging.publish("inputs", key, {"name": known})
        adopted = entry.file(copy.name)
        self._called[adopted] = called or str(path)
        return adopted

    def called(self, copy: Path) -> str | None:
        """What the person calls a file that was adopted: as it was given last, or, before this
        library was opened, first. None for any other path."""
        if copy.parent.parent != self.folder / "inputs":
            return None
        if copy not in self._called:
            with suppress(ReuseError, OSError):
                return self.store.manifest("inputs", copy.parent.name).get("name")
        return self._called.get(copy)

    def portable(self, take: Take) -> Take:
        """The take with its adopted files named from the library, as manifests keep it."""
        return take.with_recipes(
            lambda recipe: recipe.with_files(lambda _, path: path.relative_to(self.folder))
        )

    def located(self, take: Take) -> Take:
        """A take as a manifest keeps it, with its files named from the root.

        Raises Damaged for a manifest that names a file outside the library.
        """

        def locate(_: str, path: Path) -> Path:
            if path.is_absolute() or ".." in path.parts:
                raise Damaged(path, "a take may name only files of its library")
            return self.folder / path

        return take.with_recipes(lambda recipe: recipe.with_files(locate))

    def rebuild(self) -> int:
        """Builds the index anew from the manifests and returns how many takes it found. Ratings,
        notes and baselines of takes that are still there stay."""
        return self.history.rebuild(lambda: list(self.takes()))

    def _catch_up(self) -> None:
        """Brings the index in line with the disk: records takes that another process published and
        did not live to record, the oldest first; forgets those whose folder is gone, or went into
        the trash; completes those that an earlier version recorded, and leaves out those of
        them that cannot be read."""
        history = self.history
        known, here = history.take_ids(), set(self.store.keys("takes"))
        unrecorded = sorted(self._readable(here - known), key=lambda take: take.created)
        if unrecorded:
            self.record(*unrecorded)
        if known - here:
            self._forget(known - here)
        if lost := history.trashed() - self.trash.ids():
            history.forget_trashed(lost)
        if old := history.incomplete():
            history.complete(self._readable(sorted(old & here)))
            history.forget(history.incomplete())

    def _forget(self, takes: set[str]) -> None:
        with self.database.writing():
            # Another look, now that nobody can bring one back from the trash.
            takes = takes - set(self.store.keys("takes"))
            trashed = takes & self.trash.ids()
            for take in sorted(trashed):
                self.history.trash(take)
            self.history.forget(takes - trashed)

    def takes(self) -> Iterator[Take]:
        """Every take on disk whose manifest can be read; the others are logged."""
        return self._readable(self.store.keys("takes"))

    def _readable(self, keys: Iterable[str]) -> Iterator[Take]:
        for key in keys:
            try:
                yield self.read_take(key)
            except (ReuseError, ValidationError) as error:
                log.warning("take %s is left out: %s", key[:12], error)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

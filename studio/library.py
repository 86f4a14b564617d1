"""The library: the one folder that holds everything, and the one place that knows its paths."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import platformdirs
from pydantic import ValidationError

from pipelines.errors import BadInput
from reuse import FileHashes, ReuseError, Store, digest, resolve
from studio.database import Database
from studio.history import History
from studio.jobs import Jobs
from studio.recipe import INPUT_FILES, Recipe
from studio.take import Take

log = logging.getLogger(__name__)

ENVIRONMENT_VARIABLE = "RETAKE_LIBRARY"


def default_folder() -> Path:
    """$RETAKE_LIBRARY, or a folder among the user's data."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(chosen) if chosen else platformdirs.user_data_path("retake") / "library"


class Library:
    """Opens (or makes) a library. The disk is the truth; `history` is an index over it.

    Raises BadInput if the folder cannot be made or written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or default_folder()).expanduser().absolute()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.store = Store(self.folder)
            self.store.sweep()
            self.hashes = FileHashes(self.folder / "hashes.sqlite")
            self.database = Database(self.folder / "history.sqlite")
            self.history = History(self.database)
            self.jobs = Jobs(self.database)
        except OSError as error:
            fix = f"Choose a folder that can be written ({error.strerror or error})."
            raise BadInput("library", str(self.folder), fix) from error
        self._catch_up()

    @property
    def takes_folder(self) -> Path:
        return self.folder / "takes"

    def find_take(self, take_id: str) -> Take | None:
        """The take on disk, its files checked; None if it is not there or damaged."""
        entry = self.store.find("takes", take_id)
        return self.located(Take.model_validate(entry.manifest["take"])) if entry else None

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
        """The recipe with its picture and voice copied into the library by content, so that a take
        can be continued after the file was moved or edited."""
        copies = {}
        for name in INPUT_FILES:
            path: Path | None = getattr(recipe, name)
            if path is None or path.is_relative_to(self.folder):
                continue
            key = digest("file", resolve({name: path}, self.hashes))
            entry = self.store.find("inputs", key)
            if entry is None:
                with self.store.stage() as staging:
                    shutil.copyfile(path, staging.file(f"{name}{path.suffix.lower()}"))
                    entry = staging.publish("inputs", key, {"name": path.name})
            copies[name] = next(entry.path.glob(f"{name}.*"), entry.path / name)
        return recipe.model_copy(update=copies)

    def portable(self, recipe: Recipe) -> Recipe:
        """The recipe with its adopted files named from the library, as manifests keep it."""
        return self._files(recipe, lambda path: path.relative_to(self.folder))

    def located(self, take: Take) -> Take:
        """A take as a manifest keeps it, with its files named from the root."""
        recipe = self._files(take.recipe, lambda path: self.folder / path)
        return take.model_copy(update={"recipe": recipe})

    @staticmethod
    def _files(recipe: Recipe, name: Callable[[Path], Path]) -> Recipe:
        files = {field: getattr(recipe, field) for field in INPUT_FILES}
        return recipe.model_copy(update={k: name(v) for k, v in files.items() if v is not None})

    def rebuild(self) -> int:
        """Builds the index anew from the manifests and returns how many takes it found. Ratings,
        notes and baselines of takes that are still there stay."""
        takes = list(self.takes())
        self.history.rebuild(takes)
        return len(takes)

    def _catch_up(self) -> None:
        """Records takes that another process published and did not live to record."""
        known = self.history.take_ids()
        for take in self._readable(key for key in self.store.keys("takes") if key not in known):
            self.history.record(take)

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

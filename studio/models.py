"""The models that can be chosen in a library: the catalogue, and what the person added to it.

Added folders and hub ids are kept in models.json in the library, which is written whole or not.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pipelines import catalogue
from pipelines.catalogue import Model, Repository
from pipelines.errors import BadInput, ModelMissing
from reuse import disk

log = logging.getLogger(__name__)

FORMAT = 1
NAME = "models.json"


class Added(BaseModel):
    """A model that the person added."""

    model_config = ConfigDict(frozen=True)

    id: str
    """A hub id, or the absolute path of a folder."""
    licence: str = ""
    """What its card on the hub said when it was looked up."""

    @property
    def is_hub(self) -> bool:
        return not Path(self.id).is_absolute()

    def open(self) -> Model | BadInput:
        """The model, or why there is none now."""
        try:
            model = catalogue.find(self.id)
        except BadInput as error:
            return error
        if self.is_hub:
            licence = self.licence or model.licence
            model = replace(model, licence=licence, licence_url=hub_page(self.id))
        return model


class _File(BaseModel):
    format: Literal[1] = FORMAT
    models: list[Added] = []


class Models:
    """The models of one library. Any number of threads may use it."""

    def __init__(self, library: Path) -> None:
        self._path = library / NAME
        self._lock = threading.Lock()

    def added(self) -> list[Added]:
        """What was added, the oldest first. A file that cannot be read is logged and counts as
        empty."""
        try:
            return _File.model_validate_json(self._path.read_bytes()).models
        except FileNotFoundError:
            return []
        except (OSError, ValidationError) as error:
            log.warning("%s cannot be read, so added models are not listed: %s", self._path, error)
            return []

    def has(self, id: object) -> bool:
        """Whether this is a model of the catalogue or an added one, by its id or its hub id. No
        folder is looked at."""
        known = {name for model in catalogue.models() for name in (model.id, model.source)}
        return isinstance(id, str) and (id in known or any(m.id == id for m in self.added()))

    def check(self, id: str) -> None:
        """Raises ModelMissing if a model of the catalogue or an added one is not here, BadInput if
        it is damaged, or is neither: a folder that was not added is not looked at."""
        known = {model.id for model in catalogue.models()} | {added.id for added in self.added()}
        if id not in known:
            raise BadInput("model", id, "It is not among the models of this studio.")
        catalogue.check(catalogue.find(id))

    def add_folder(self, folder: str) -> Model:
        """Adds a folder in the diffusers layout. Raises BadInput, whose field is `folder`, for one
        that cannot be run."""
        given = folder.strip().strip("\"'")
        path = Path(os.path.expanduser(given))
        if not path.is_absolute() or "\0" in given:
            fix = "Give the whole path of a folder, like /home/me/models/name."
            raise BadInput("folder", folder, fix)
        try:
            if not path.is_dir():
                raise BadInput("folder", str(path), "There is no such folder.")
            model = catalogue.find(str(path))
            catalogue.check(model)
        except BadInput as error:
            raise BadInput("folder", str(path), error.fix) from None
        except OSError as error:
            raise BadInput("folder", str(path), f"It cannot be read: {error.strerror}.") from None
        if model.id == str(path.resolve()):
            self._add(Added(id=model.id))
        return model

    def add_hub(self, id: str, licence: str = "") -> None:
        """Adds a hub id. Those of the catalogue are there already."""
        if all(id not in (model.id, model.source) for model in catalogue.models()):
            self._add(Added(id=id, licence=licence))

    def forget(self, id: str) -> None:
        """Takes an added model off the list; its files stay. Raises ModelMissing if it is not on
        it."""
        with self._lock:
            models = self.added()
            rest = [model for model in models if model.id != id]
            if len(rest) == len(models):
                raise ModelMissing("model", id, "Only models that were added can be forgotten.")
            self._write(rest)

    def _add(self, model: Added) -> None:
        with self._lock:
            known = {added.id: added for added in self.added()}
            licence = model.licence or known.get(model.id, model).licence
            known[model.id] = Added(id=model.id, licence=licence)
            self._write(list(known.values()))

    def _write(self, models: list[Added]) -> None:
        staged = self._path.with_name(f".{NAME}.{uuid.uuid4().hex[:8]}")
        try:
            disk.write_file(staged, _File(models=models).model_dump_json(indent=1).encode())
            disk.flush(staged)
            os.replace(staged, self._path)
        finally:
            disk.remove(staged)
        disk.flush(self._path.parent)


def size_on_disk(model: Model) -> int:
    """Bytes that a model takes: its folder, or what of its repositories is in the hub's cache, with
    parts of a download that did not finish."""
    if not model.repositories:
        return _bytes_in(model.source)
    return sum(size_of(part) for part in model.repositories)


def size_of(part: Repository) -> int:
    """Bytes of what a model takes of a repository, in the cache. Files that are named count one by
    one: other models have other files of the same one."""
    if not part.files:
        return _bytes_in(catalogue.hub_repository(part.id) / "blobs")
    return sum(path.stat().st_size for path in part.here() or ())


def _bytes_in(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def hub_page(repo_id: str) -> str:
    """Where people read about a model of the hub."""
    return f"https://huggingface.co/{repo_id}"

"""One model that can be chosen, and where it lies on this machine.

Light on purpose: torch, diffusers and huggingface_hub are imported when a pipeline is opened or a
hub model is looked for, never with this file, and nothing here uses the network.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.base import Capabilities, Task
from pipelines.errors import BadInput, ModelMissing

FAMILIES = {
    "skyreels_v2": ("pipelines.skyreels_v2.pipeline", "SkyReelsV2"),
    "wan": ("pipelines.wan.pipeline", "Wan"),
    "qwen_image": ("pipelines.qwen_image.pipeline", "QwenImage"),
    "infinitetalk": ("pipelines.infinitetalk.pipeline", "InfiniteTalk"),
}
"""Family -> the module and class of its pipeline, which import nothing heavy either."""


@dataclass(frozen=True)
class Repository:
    """What a model takes of one repository of the hub."""

    id: str
    files: tuple[str | tuple[str, ...], ...] = ()
    """Names; of several in one, the first that there is. Without any, it is a model in the
    diffusers layout, of which the components are taken."""

    def here(self) -> tuple[Path, ...] | None:
        """The files that were named, or the snapshot of all; None while one is not here."""
        snapshot = hub_snapshot(self.id)
        if snapshot is None or not self.files:
            return snapshot and (snapshot,)
        found = [_first(snapshot, name) for name in self.files]
        return None if None in found else tuple(found)

    def how_to_fetch(self) -> str:
        """The command that brings it."""
        names = (name if isinstance(name, str) else name[-1] for name in self.files)
        return " ".join(("hf download", self.id, *names))


def _first(snapshot: Path, names: str | tuple[str, ...]) -> Path | None:
    choice = (names,) if isinstance(names, str) else names
    return next((snapshot / name for name in choice if (snapshot / name).exists()), None)


@dataclass(frozen=True)
class Model:
    """One model that can be chosen."""

    id: str
    name: str
    family: str
    source: str | Path
    """A hub id, or a folder in the diffusers layout."""
    licence: str
    licence_url: str
    download_bytes: int
    """About what a download takes; 0 for what is here."""
    tasks: tuple[Task, ...]
    defaults: Mapping[str, Any]
    """Recipe fields to start from."""
    note: str = ""
    sizes: tuple[tuple[int, int], ...] = ()
    """(width, height) in pixels that it was trained on, the usual one first."""
    needs: str = ""
    """What machine it takes, in words."""
    extras: tuple[str, ...] = ()
    """Those of `pipelines.base.OF_SOME_MODELS` that it looks at."""
    parts: tuple[Repository, ...] = ()
    """Where its weights are, if `source` is a folder that only says how they go together."""

    @property
    def repositories(self) -> tuple[Repository, ...]:
        """What of the hub it takes; nothing if it is a folder with all that it needs."""
        return (Repository(self.source),) if isinstance(self.source, str) else self.parts

    @property
    def capabilities(self) -> Capabilities:
        """Those of the family, for the tasks of this model and the fields that it looks at."""
        family = pipeline_class(self.family).capabilities
        return replace(family, tasks=self.tasks, extras=self.extras)

    def folder(self) -> Path | None:
        """Where the model lies on this machine, or None. Looks at the disk only."""
        if isinstance(self.source, Path):
            return self.source if self.source.is_dir() else None
        return hub_snapshot(self.source)

    def present(self) -> bool:
        """Whether the model is here and whole."""
        try:
            check(self)
        except BadInput:
            return False
        return True


def check(model: Model) -> Path:
    """The folder of a model, looked through without loading weights.

    Raises ModelMissing if it is not here, or is a download that did not finish, and BadInput
    naming what is damaged in a folder.
    """
    missing = [part for part in model.repositories if part.here() is None]
    if missing:
        raise ModelMissing("model", model.id, _how_to_fetch(model, missing))
    folder = model.folder()
    if folder is None:
        fix = "The folder that ships with the studio is missing: restore it from the repository."
        raise ModelMissing("model", model.id, fix)
    try:
        pipeline_class(model.family).describe(folder)
    except BadInput as error:
        if model.repositories:
            again = how_to_fetch(model.repositories[0].id)
            fix = f"Its download is not whole: {error.fix} {again}"
            raise ModelMissing("model", model.id, fix) from error
        raise
    return folder


def pipeline_class(family: str) -> Any:
    """The class that runs a family."""
    module, name = FAMILIES[family]
    return getattr(importlib.import_module(module), name)


def hub_repository(repo_id: str) -> Path:
    """Where the local cache keeps a hub repository, whether it is there or not."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{repo_id.replace('/', '--')}"


def hub_snapshot(repo_id: str) -> Path | None:
    """The newest snapshot of a hub repository in the local cache, or None. No network."""
    repository = hub_repository(repo_id)
    try:
        revision = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    snapshot = repository / "snapshots" / revision
    return snapshot if snapshot.is_dir() else None


def _how_to_fetch(model: Model, missing: list[Repository]) -> str:
    """One line for a model of one repository, and what is missing by name for one of several."""
    if len(model.repositories) == 1:
        return f"It is not on this machine. {how_to_fetch(missing[0].id)}"
    names = ", ".join(part.id for part in missing)
    commands = "; ".join(part.how_to_fetch() for part in missing)
    return f"Not on this machine: {names}. Download it in the page, or with: {commands}"


def how_to_fetch(repo_id: str) -> str:
    """What to do about a hub repository that is not here."""
    return f"Download it with: hf download {repo_id}"

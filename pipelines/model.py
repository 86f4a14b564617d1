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
    folder = model.folder()
    if folder is None:
        fix = "The folder that ships with the studio is missing: restore it from the repository."
        if isinstance(model.source, str):
            fix = f"It is not on this machine. {how_to_fetch(model.source)}"
        raise ModelMissing("model", model.id, fix)
    try:
        pipeline_class(model.family).describe(folder)
    except BadInput as error:
        if isinstance(model.source, str):
            fix = f"Its download is not whole: {error.fix} {how_to_fetch(model.source)}"
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


def how_to_fetch(repo_id: str) -> str:
    """What to do about a hub repository that is not here."""
    return f"Download it with: hf download {repo_id}"

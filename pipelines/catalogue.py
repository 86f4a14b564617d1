"""The models that the studio knows, and how a name becomes an opened pipeline.

Light on purpose: torch, diffusers and huggingface_hub are imported when a pipeline is opened or a
hub model is looked for, never with this file, and nothing here uses the network.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from pipelines.base import Capabilities, Task
from pipelines.errors import BadInput, ModelMissing

if TYPE_CHECKING:
    import torch

    from pipelines.base import Pipeline

FAMILIES = {"skyreels_v2": ("pipelines.skyreels_v2.pipeline", "SkyReelsV2")}
"""Family -> the module and class of its pipeline, which import nothing heavy either."""

STARTER = Path(__file__).resolve().parent.parent / "assets" / "starter"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


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

    @property
    def capabilities(self) -> Capabilities:
        """Those of the family, for the tasks of this model."""
        return replace(pipeline_class(self.family).capabilities, tasks=self.tasks)

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


def _skyreels(id: str, size: str, download_bytes: int, **settings: Any) -> Model:
    defaults = {
        "fps": 24,
        "overlap": 17,
        "segments": 1,
        "steps": 30,
        "guidance_scale": 6.0,
        "shift": 8.0,
        "ar_step": 0,
        "causal_block": 1,
        "condition_noise": 20,
    }
    return Model(
        id=id,
        name=f"SkyReels-V2 DF {size.replace('-', ' ')}",
        family="skyreels_v2",
        source=f"Skywork/SkyReels-V2-DF-{size}-Diffusers",
        licence="Skywork Community License",
        licence_url="https://github.com/SkyworkAI/SkyReels-V2/blob/main/LICENSE.txt",
        download_bytes=download_bytes,
        tasks=(Task.T2V, Task.I2V),
        defaults=MappingProxyType(defaults | settings),
        note="From a picture, guidance 5 and shift 5 are recommended.",
        sizes=_720P_SIZES if "720P" in size else _540P_SIZES,
        needs=_GPU_OF[size],
    )


_540P = {"width": 960, "height": 544, "frames": 97}
_720P = {"width": 1280, "height": 720, "frames": 121}
_540P_SIZES = ((960, 544), (544, 960))
_720P_SIZES = ((1280, 720), (720, 1280), *_540P_SIZES)
_GPU_OF = {
    "1.3B-540P": "An NVIDIA GPU; its authors name about 15 GB of GPU memory.",
    "14B-540P": "An NVIDIA GPU; its authors name about 51 GB of GPU memory.",
    "14B-720P": "An NVIDIA GPU with 80 GB of memory or more.",
}

_MODELS = (
    Model(
        id="starter",
        name="Starter",
        family="skyreels_v2",
        source=STARTER,
        licence="Apache-2.0",
        licence_url="https://www.apache.org/licenses/LICENSE-2.0",
        download_bytes=0,
        tasks=(Task.T2V,),
        defaults=MappingProxyType(
            {
                "width": 96,
                "height": 64,
                "fps": 12,
                "frames": 33,
                "overlap": 9,
                "segments": 4,
                "steps": 20,
                "guidance_scale": 3.0,
                "shift": 3.0,
                "ar_step": 0,
                "causal_block": 3,
                "condition_noise": 0,
            }
        ),
        note="Small storybook scenes, made for this studio.",
        sizes=((96, 64),),
        needs="Any machine: it runs on a CPU.",
    ),
    _skyreels("skyreels-v2-df-1.3b-540p", "1.3B-540P", 15_000_000_000, **_540P),
    _skyreels("skyreels-v2-df-14b-540p", "14B-540P", 41_000_000_000, **_540P),
    _skyreels("skyreels-v2-df-14b-720p", "14B-720P", 41_000_000_000, **_720P),
)


def models() -> list[Model]:
    """All that are known by name, the one that ships first."""
    return list(_MODELS)


def find(model_id: str) -> Model:
    """A model by its catalogue id, its hub id `org/name`, or a folder in the diffusers layout.

    Raises ModelMissing for a hub id that is not on this machine, and BadInput for a folder that
    cannot be run and for a name that nobody knows.
    """
    for model in _MODELS:
        if model_id in (model.id, model.source):
            return model
    path = Path(model_id).expanduser()
    if path.is_dir():
        path = path.resolve()
        known = next((m for m in _MODELS if m.source == path), None)
        return known or _derived(str(path), path, path)
    if path.is_absolute() or model_id.startswith("."):
        raise BadInput("model", model_id, "There is no such folder.")
    if HUB_ID.fullmatch(model_id):
        snapshot = hub_snapshot(model_id)
        if snapshot is None:
            raise ModelMissing("model", model_id, f"It is not on this machine. {_fetch(model_id)}")
        return _derived(model_id, model_id, snapshot)
    raise BadInput("model", model_id, f"{_suggestion(model_id)} Or give a folder or a hub id.")


def check(model: Model) -> Path:
    """The folder of a model, looked through without loading weights.

    Raises ModelMissing if it is not here, or is a download that did not finish, and BadInput
    naming what is damaged in a folder.
    """
    folder = model.folder()
    if folder is None:
        fix = "The folder that ships with the studio is missing: restore it from the repository."
        if isinstance(model.source, str):
            fix = f"It is not on this machine. {_fetch(model.source)}"
        raise ModelMissing("model", model.id, fix)
    try:
        pipeline_class(model.family).describe(folder)
    except BadInput as error:
        if isinstance(model.source, str):
            fix = f"Its download is not whole: {error.fix} {_fetch(model.source)}"
            raise ModelMissing("model", model.id, fix) from error
        raise
    return folder


def open_pipeline(
    model: Model,
    dtype: str | torch.dtype | None = None,
    device: str | None = None,
) -> Pipeline:
    """The pipeline of a model, with no weights in memory yet. Raises as `check` does."""
    return pipeline_class(model.family).open(check(model), dtype, device)


def size_multiple(model: Model) -> dict[str, int] | None:
    """Of what `width` and `height` must be multiples, in pixels; None for a model that is not here.

    Asked of the pipeline itself: the least value of each that its plan lets pass.
    """
    try:
        pipeline = open_pipeline(model)
        return {side: _least(pipeline, model, side) for side in ("width", "height")}
    except BadInput:
        return None


class _Defaults(SimpleNamespace):
    """A recipe of a model's defaults alone: what it does not name is left out."""

    def __getattr__(self, name: str) -> None:
        return None


def _least(pipeline: Pipeline, model: Model, side: str) -> int:
    recipe = _Defaults(**model.defaults)
    for value in range(1, model.defaults[side]):
        setattr(recipe, side, value)
        with suppress(BadInput):
            pipeline.plan(recipe)
            return value
    return model.defaults[side]


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


def _derived(model_id: str, source: str | Path, folder: Path) -> Model:
    """A model for a folder that is not in the catalogue, with settings from its configs."""
    family = family_of(folder)
    tasks, defaults = pipeline_class(family).describe(folder)
    size = (defaults["width"], defaults["height"])
    return Model(
        id=model_id,
        name=model_id if isinstance(source, str) else folder.name,
        family=family,
        source=source,
        licence="unknown",
        licence_url="",
        download_bytes=0,
        tasks=tasks,
        defaults=MappingProxyType(defaults),
        note="Not in the catalogue: see its own card for the licence and for good settings.",
        sizes=tuple(dict.fromkeys((size, size[::-1]))),
    )


def family_of(folder: Path) -> str:
    """The family that runs a folder, by its model_index.json alone.

    Raises BadInput if it has none, or names a pipeline that cannot be run.
    """
    import json

    try:
        index = json.loads((folder / "model_index.json").read_text(encoding="utf-8"))
        name = index["_class_name"]
    except FileNotFoundError:
        fix = "It is not a model in the diffusers layout: model_index.json is missing."
        raise BadInput("model", str(folder), fix) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput("model", str(folder), "Its model_index.json cannot be read.") from error
    for family in FAMILIES:
        if name in pipeline_class(family).pipeline_classes:
            return family
    known = [n for family in FAMILIES for n in pipeline_class(family).pipeline_classes]
    fix = f"It is a {name}; models that can be run: {', '.join(known)}."
    raise BadInput("model", str(folder), fix)


def _fetch(repo_id: str) -> str:
    return f"Download it with: hf download {repo_id}"


def _suggestion(model_id: str) -> str:
    import difflib

    ids = [model.id for model in _MODELS]
    close = difflib.get_close_matches(model_id.lower(), ids, n=3, cutoff=0.4)
    return f"Did you mean {' or '.join(close)}?" if close else f"Known: {', '.join(ids)}."

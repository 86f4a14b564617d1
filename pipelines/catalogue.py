"""The models that the studio knows, and how a name becomes an opened pipeline.

Light on purpose: torch, diffusers and huggingface_hub are imported when a pipeline is opened or a
hub model is looked for, never with this file, and nothing here uses the network.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING

from pipelines.errors import BadInput, ModelMissing
from pipelines.known import MODELS, STARTER
from pipelines.model import (
    FAMILIES,
    Model,
    Repository,
    check,
    how_to_fetch,
    hub_repository,
    hub_snapshot,
    pipeline_class,
)

if TYPE_CHECKING:
    import torch

    from pipelines.base import Pipeline

__all__ = [
    "FAMILIES",
    "HUB_ID",
    "STARTER",
    "Model",
    "Repository",
    "check",
    "family_of",
    "find",
    "hub_repository",
    "hub_snapshot",
    "models",
    "open_pipeline",
    "pipeline_class",
    "size_multiple",
]

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def models() -> list[Model]:
    """All that are known by name, the one that ships first."""
    return list(MODELS)


def find(model_id: str) -> Model:
    """A model by its catalogue id, its hub id `org/name`, or a folder in the diffusers layout.

    Raises ModelMissing for a hub id that is not on this machine, and BadInput for a folder that
    cannot be run and for a name that nobody knows.
    """
    for model in MODELS:
        if model_id in (model.id, model.source):
            return model
    path = Path(model_id).expanduser()
    if path.is_dir():
        path = path.resolve()
        known = next((m for m in MODELS if m.source == path), None)
        return known or _derived(str(path), path, path)
    if path.is_absolute() or model_id.startswith("."):
        raise BadInput("model", model_id, "There is no such folder.")
    if HUB_ID.fullmatch(model_id):
        snapshot = hub_snapshot(model_id)
        if snapshot is None:
            raise ModelMissing(
                "model", model_id, f"It is not on this machine. {how_to_fetch(model_id)}"
            )
        return _derived(model_id, model_id, snapshot)
    raise BadInput("model", model_id, f"{_suggestion(model_id)} Or give a folder or a hub id.")


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
        try:
            pipeline.plan(recipe)
        except BadInput as error:
            if error.field == side:
                continue
        # What else is missing, a picture say, has nothing to do with the size.
        return value
    return model.defaults[side]


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
        extras=pipeline_class(family).open(folder).capabilities.extras,
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


def _suggestion(model_id: str) -> str:
    import difflib

    ids = [model.id for model in MODELS]
    close = difflib.get_close_matches(model_id.lower(), ids, n=3, cutoff=0.4)
    return f"Did you mean {' or '.join(close)}?" if close else f"Known: {', '.join(ids)}."

"""FlowCache as a recipe asks for it: which of its fields count, what a pipeline makes of them, and
what came of it."""

from __future__ import annotations

from typing import Any

from pipelines.base import Pipeline
from pipelines.flowcache import FlowCacheConfig, SkipMap, check_mode, enable_flowcache
from reuse import ReuseError
from studio.library import Library
from studio.recipe import Recipe
from studio.take import Take


def config_of(recipe: Recipe) -> FlowCacheConfig:
    """Raises BadInput naming the field for a value that cannot be used."""
    return FlowCacheConfig(
        mode=recipe.flowcache,
        threshold=recipe.flowcache_threshold,
        warmup=recipe.flowcache_warmup,
        attention=recipe.flowcache_attention,
        kv_budget=recipe.kv_budget or None,
    )


def attach(pipeline: Pipeline, recipe: Recipe) -> None:
    """The next segment of `pipeline` is made as this recipe says. Raises BadInput if the model
    cannot."""
    enable_flowcache(pipeline, config_of(recipe))


def refuse_unless_able(pipeline: Pipeline, recipe: Recipe) -> None:
    """Raises BadInput as `attach` would, before anything is loaded."""
    check_mode(pipeline.capabilities, config_of(recipe))


def told(library: Library, take: Take) -> list[dict[str, Any] | None]:
    """For each segment what FlowCache did in it, the fields of a `SkipMap`; None where it was off
    or the segment's manifest cannot be read."""
    return [_of_segment(library, segment.id) for segment in take.segments]


def threshold_for(library: Library, take: Take, speedup: float) -> float:
    """The threshold at which a take like this would compute `speedup` times less than the plain
    pipeline. Raises BadInput if it was made without mode `flow`, or no threshold gives that."""
    from pipelines.flowcache.calibration import threshold_for

    maps = [SkipMap.from_json(fields) for fields in told(library, take) if fields is not None]
    return round(threshold_for(maps, take.recipe.flowcache_warmup, speedup), 4)


def _of_segment(library: Library, segment: str) -> dict[str, Any] | None:
    try:
        return library.store.manifest("segments", segment).get("flowcache")
    except ReuseError:
        return None


def key_fields(recipe: Recipe) -> dict[str, Any]:
    """What a segment depends on beside what its pipeline names; nothing while FlowCache is off,
    so that such a segment goes by the name it has had before there was FlowCache."""
    if recipe.flowcache == "off":
        return {}
    config = config_of(recipe)
    fields: dict[str, Any] = {
        "mode": config.mode,
        "attention": config.attention,
        "kv_budget": config.kv_budget,
        "generation": GENERATION,
    }
    if config.mode != "exact":
        fields |= {"threshold": config.threshold, "warmup": config.warmup}
    return {"flowcache": fields}


GENERATION = 1
"""Counts up when the same settings give another result."""

"""FlowCache as a recipe asks for it: which of its fields count, what a pipeline makes of them, and
what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.base import Pipeline
from pipelines.flowcache import FlowCacheConfig, SkipMap, check_mode, enable_flowcache
from reuse import ReuseError
from studio.recipe import Recipe

if TYPE_CHECKING:
    from studio.library import Library
    from studio.take import Take

COUNTS: Mapping[str, tuple[str, ...]] = {
    "flowcache_threshold": ("flow", "teacache"),
    "flowcache_warmup": ("flow", "teacache"),
    "flowcache_attention": ("exact", "flow", "teacache"),
    "kv_budget": ("exact", "flow", "teacache"),
}
"""Recipe field -> the modes in which it makes a difference."""


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
    return round(threshold_for(maps, _warmup_of(take), speedup), 4)


def _warmup_of(take: Take) -> int:
    """Of its first chapter in mode `flow`."""
    recipes = [chapter.recipe for chapter in take.chapters]
    return next((r for r in recipes if r.flowcache == "flow"), recipes[0]).flowcache_warmup


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
    names = [name for name, modes in COUNTS.items() if config.mode in modes]
    settings = {name: getattr(config, name) for name in map(_plain, names)}
    return {"flowcache": {"mode": config.mode, **settings, "generation": GENERATION}}


def in_words(recipe: Recipe) -> str:
    """The settings at a glance, like `flow 0.07, KV 2`; nothing while it is off."""
    if recipe.flowcache == "off":
        return ""
    mode, words = recipe.flowcache, recipe.flowcache
    if mode in COUNTS["flowcache_threshold"]:
        words = f"{mode} {recipe.flowcache_threshold:g}"
    return f"{words}, KV {recipe.kv_budget}" if recipe.kv_budget else words


def promise(recipe: Recipe) -> dict[str, Any]:
    """Whether the video will be that of the plain pipeline, and what to expect of it in words."""
    config = config_of(recipe)
    return {
        "exact": config.is_exact(recipe.causal_block),
        "words": config.promise(recipe.causal_block),
    }


def _plain(field: str) -> str:
    """The name of a recipe field in a `FlowCacheConfig`."""
    return field.removeprefix("flowcache_")


GENERATION = 1
"""Counts up when the same settings give another result."""

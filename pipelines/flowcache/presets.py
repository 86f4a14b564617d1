"""Settings by name: `slow` and `fast` are mode `flow` as the paper has it for a model family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.errors import BadInput

PRESETS: Mapping[str, Mapping[str, tuple[float, int]]] = {
    "magi1": {"slow": (0.01, 5), "fast": (0.015, 5)},
    "skyreels_v2": {"slow": (0.1, 5), "fast": (0.15, 5)},
}
"""Family -> name -> (threshold, warm-up), as arXiv 2602.10825 and its code have them."""
PRESETS_FROM = (
    "What FlowCache's authors published for this family of models. Their code measures change "
    "otherwise, so expect other savings than theirs."
)


def presets_of(family: str) -> dict[str, dict[str, Any]]:
    """Name -> the recipe fields that a preset stands for; none for a family without presets."""
    return {
        name: {"flowcache": "flow", "flowcache_threshold": threshold, "flowcache_warmup": warmup}
        for name, (threshold, warmup) in PRESETS.get(family, {}).items()
    }


def with_preset(given: Mapping[str, Any], family: str) -> dict[str, Any]:
    """Recipe fields with the name of a preset in `flowcache` replaced by what it stands for.
    Fields that are given beside it count."""
    name = given.get("flowcache")
    if name not in ("slow", "fast"):
        return dict(given)
    presets = presets_of(family)
    if name not in presets:
        raise BadInput("flowcache", name, "There is no such preset for this model.")
    return {**presets[name], **given, "flowcache": "flow"}

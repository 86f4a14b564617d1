"""Settings by name: `slow` and `fast` are mode `flow` as the paper has it for a model family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.errors import BadInput

PRESETS: Mapping[str, Mapping[str, tuple[float, int]]] = {
    "magi1": {"slow": (0.01, 5), "fast": (0.015, 5)},
    "skyreels_v2": {"slow": (0.1, 5), "fast": (0.15, 5)},
}
"""Family -> name -> (threshold, warm-up)."""


def with_preset(given: Mapping[str, Any], family: str) -> dict[str, Any]:
    """Recipe fields with the name of a preset in `flowcache` replaced by what it stands for.
    Fields that are given beside it count."""
    name = given.get("flowcache")
    if name not in ("slow", "fast"):
        return dict(given)
    if family not in PRESETS:
        raise BadInput("flowcache", name, "There is no such preset for this model.")
    threshold, warmup = PRESETS[family][name]
    preset = {"flowcache_threshold": threshold, "flowcache_warmup": warmup}
    return {**preset, **given, "flowcache": "flow"}

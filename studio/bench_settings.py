"""What the benchmark of FlowCache measures: one recipe, and every way of being faster with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pipelines import catalogue
from pipelines.flowcache import FlowCacheConfig
from studio.recipe import Recipe

CHUNKS = 4
"""Of a clip: one segment, and none of them given."""
BLOCK = 5
"""Latent frames of a chunk, for a model that was not trained in causal blocks."""
LAG = 6
"""A chunk starts a sixth of its steps after the one before, as SkyReels-V2's long videos do. All of
them are then under way at once; only in turn are there finished ones to compress."""
KV_BUDGETS = (2, 1)
STEPS = 30

KINDS = ("plain", "exact", "flow", "as published", "teacache", "fewer steps", "in turn")
MODES = ("flow", "as published", "teacache")
FLOW = (0.03, 0.05, 0.07, 0.1, 0.14)
PUBLISHED = (0.1, 0.15)
TEACACHE = (0.05, 0.1, 0.2, 0.35)
FEWER = (0.8, 0.6, 0.47, 0.33, 0.25)
"""Thresholds of the modes, and shares of the steps."""


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    kind: str
    """One of `KINDS`."""
    steps: int
    config: FlowCacheConfig | None = None
    """None is the plain pipeline: every chunk in every row."""

    @property
    def name(self) -> str:
        config = self.config
        if self.kind == "fewer steps":
            return f"exact, {self.steps} steps"
        if self.kind == "in turn":
            return f"in turn, KV {config.kv_budget}" if config.kv_budget else "exact, in turn"
        return f"{self.kind} {config.threshold:g}" if self.kind in MODES else self.kind

    @property
    def lag(self) -> int:
        """Steps that a chunk starts after the one before."""
        return self.steps if self.kind == "in turn" else max(1, round(self.steps / LAG))

    @property
    def rows(self) -> int:
        """Of the schedule of a clip."""
        return self.steps + self.lag * (CHUNKS - 1)


def recipe_of(model: str, steps: int, given: Mapping[str, Any] = MappingProxyType({})) -> Recipe:
    """One segment of `CHUNKS` causal chunks, each a sixth of its steps behind the one before."""
    entry = catalogue.find(model)
    block = entry.defaults.get("causal_block", 1)
    block = block if block > 1 else BLOCK
    # Latent frames to frames: the first holds one, the others four.
    frames = (CHUNKS * block - 1) * 4 + 1
    chosen = {
        "prompt": "-",
        "segments": 1,
        "frames": frames,
        "overlap": 0,
        "causal_block": block,
        "steps": steps,
        "ar_step": max(1, round(steps / LAG)),
    }
    return Recipe.make(model, **{**chosen, **given})


def ladder(steps: int) -> list[Setting]:
    """Exact comes first of those that are compared with it."""
    exact = FlowCacheConfig("exact")
    published = FlowCacheConfig(
        "flow", warmup=5, extrapolate="hold", weighting="none", branches="apart"
    )
    teacache = replace(published, mode="teacache")
    fewer = sorted({max(1, round(steps * share)) for share in FEWER} - {steps}, reverse=True)
    return [
        Setting("exact", steps, exact),
        Setting("plain", steps),
        *(Setting("flow", steps, FlowCacheConfig("flow", t)) for t in FLOW),
        *(Setting("as published", steps, replace(published, threshold=t)) for t in PUBLISHED),
        *(Setting("teacache", steps, replace(teacache, threshold=t)) for t in TEACACHE),
        *(Setting("fewer steps", count, exact) for count in fewer),
        Setting("in turn", steps, exact),
        *(Setting("in turn", steps, replace(exact, kv_budget=b)) for b in KV_BUDGETS),
    ]

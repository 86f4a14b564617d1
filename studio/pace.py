"""How fast models run here: seconds a segment took, remembered to say how long the next will take.

Kept in history.sqlite, in table `pace`. Losing it costs an estimate and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from pipelines.base import Plan
from studio.database import Database
from studio.recipe import Recipe

KEPT = 50
"""Rows of one setting; older ones are dropped."""
BELIEVED = 5
"""The newest rows of a setting, whose median is its pace."""


@dataclass(frozen=True)
class Setting:
    """What the speed of a model depends on."""

    width: int
    height: int
    frames: int
    """F, of one segment."""
    guided: bool
    """Guidance takes two forwards a step instead of one."""

    @classmethod
    def of(cls, recipe: Recipe) -> Setting:
        # At a scale of 1 or less classifier-free guidance has nothing to add.
        return cls(recipe.width, recipe.height, recipe.frames, recipe.guidance_scale > 1)

    @property
    def volume(self) -> int:
        """Pixels of a segment."""
        return self.width * self.height * self.frames


def pace_name(recipe: Recipe) -> str:
    """The model, with the settings of FlowCache behind it where that is on: each has its pace."""
    if recipe.flowcache == "off":
        return recipe.model
    settings = (
        recipe.flowcache,
        recipe.flowcache_threshold,
        recipe.flowcache_warmup,
        recipe.flowcache_attention,
        recipe.kv_budget,
    )
    return " ".join(map(str, (recipe.model, *settings)))


class Pace:
    """The table over an open database. Its methods raise sqlite3.Error."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def learn(
        self, recipe: Recipe, F: int, steps: int, denoise_seconds: float, other_seconds: float
    ) -> None:
        """Remembers a finished segment of F frames: its denoising steps and their seconds, and the
        seconds of what came after (decoding, writing)."""
        setting = (pace_name(recipe), recipe.width, recipe.height, F, Setting.of(recipe).guided)
        with self.database.writing():
            self.database.execute(
                "INSERT INTO pace (model, width, height, frames, guided, steps, denoise, other,"
                " created) VALUES (?,?,?,?,?,?,?,?,?)",
                *setting,
                steps,
                denoise_seconds,
                other_seconds,
                datetime.now(UTC).isoformat(timespec="seconds"),
            )
            self.database.execute(
                "DELETE FROM pace WHERE id IN (SELECT id FROM pace WHERE model = ? AND width = ?"
                " AND height = ? AND frames = ? AND guided = ? ORDER BY id DESC LIMIT -1 OFFSET ?)",
                *setting,
                KEPT,
            )

    def seconds(self, recipe: Recipe, plan: Plan, new: Sequence[int]) -> float | None:
        """How long generating these segments (from 0) will take, loading left out.

        By the newest segments of the same setting; else by the setting of this model that is
        nearest in pixels, in proportion to them. FlowCache that has not run here yet goes by the
        pace without it. None if the model has not run here yet.
        """
        by_setting = self._by_setting(pace_name(recipe)) or self._by_setting(recipe.model)
        if not by_setting:
            return None
        asked = Setting.of(recipe)
        nearest = min(
            by_setting,
            key=lambda s: (s.guided != asked.guided, abs(math.log(s.volume / asked.volume))),
        )
        rows = by_setting[nearest]
        scale = asked.volume / nearest.volume
        forwards = (1 + asked.guided) / (1 + nearest.guided)
        step = median(denoise / steps for steps, denoise, _ in rows) * scale * forwards
        other = median(other for _, _, other in rows) * scale
        return sum(plan.steps[i] * step + other for i in new)

    def _by_setting(self, model: str) -> dict[Setting, list[tuple[int, float, float]]]:
        """(steps, seconds of denoising, other seconds) of the newest segments of each setting."""
        found: dict[Setting, list[tuple[int, float, float]]] = {}
        for width, height, frames, guided, *row in self.database.rows(
            "SELECT width, height, frames, guided, steps, denoise, other FROM pace"
            " WHERE model = ? ORDER BY id DESC",
            model,
        ):
            rows = found.setdefault(Setting(width, height, frames, bool(guided)), [])
            if len(rows) < BELIEVED:
                rows.append(tuple(row))
        return found

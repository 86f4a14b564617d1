"""How fast models run here: seconds a segment took, remembered to say how long the next will take.

Kept in history.sqlite, in table `pace`. Losing it costs an estimate and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median

from pipelines.base import Plan, guided_forwards
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
    forwards: int
    """A step, of the transformer."""

    @classmethod
    def of(cls, recipe: Recipe, forwards: int | None) -> Setting:
        forwards = guided_forwards(recipe) if forwards is None else forwards
        return cls(recipe.width, recipe.height, recipe.frames, forwards)

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
        self,
        recipe: Recipe,
        F: int,
        steps: int,
        denoise_seconds: float,
        other_seconds: float,
        forwards: int | None = None,
    ) -> None:
        """Remembers a finished segment of F frames: its denoising steps and their seconds, and the
        seconds of what came after (decoding, writing). `forwards` are those of a step; None: as
        guidance takes them with most models."""
        # Column `guided` holds the forwards beyond the first.
        beyond = Setting.of(recipe, forwards).forwards - 1
        setting = (pace_name(recipe), recipe.width, recipe.height, F, beyond)
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

    def seconds(
        self, recipe: Recipe, plan: Plan, new: Sequence[int], forwards: int | None = None
    ) -> float | None:
        """How long generating these segments (from 0) will take, loading left out. `forwards` as
        for `learn`.

        By the newest segments of the same setting; else by the setting of this model that is
        nearest in pixels, in proportion to them. FlowCache that has not run here yet goes by the
        pace without it. None if the model has not run here yet.
        """
        by_setting = self._by_setting(pace_name(recipe)) or self._by_setting(recipe.model)
        if not by_setting:
            return None
        asked = Setting.of(recipe, forwards)
        nearest = min(
            by_setting,
            key=lambda s: (s.forwards != asked.forwards, abs(math.log(s.volume / asked.volume))),
        )
        rows = by_setting[nearest]
        scale = asked.volume / nearest.volume
        more = asked.forwards / nearest.forwards
        step = median(denoise / steps for steps, denoise, _ in rows) * scale * more
        other = median(other for _, _, other in rows) * scale
        return sum(plan.steps[i] * step + other for i in new)

    def _by_setting(self, model: str) -> dict[Setting, list[tuple[int, float, float]]]:
        """(steps, seconds of denoising, other seconds) of the newest segments of each setting."""
        found: dict[Setting, list[tuple[int, float, float]]] = {}
        for width, height, frames, beyond, *row in self.database.rows(
            "SELECT width, height, frames, guided, steps, denoise, other FROM pace"
            " WHERE model = ? ORDER BY id DESC",
            model,
        ):
            rows = found.setdefault(Setting(width, height, frames, beyond + 1), [])
            if len(rows) < BELIEVED:
                rows.append(tuple(row))
        return found

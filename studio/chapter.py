"""Chapters: the stretches of a take that share one recipe. Most takes have one.

From segment k on the recipe may be another one in all that the motion boundary between k - 1 and k
does not carry: the prompt and the sampling may change, the size of the latents may not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from pipelines.base import Pipeline, Plan
from studio.recipe import Recipe

CARRIED = ("model", "width", "height", "fps", "frames", "overlap", "image", "audio", "audio_2")
"""The fields of a recipe that must be the same on both sides of a boundary, and so in all chapters:
what gives the boundary its shape and meaning, and what the whole result has but once. The voices
may differ after a beginning that is the same (see `Pipeline.most_kept`)."""


class Chapter(BaseModel):
    """A recipe and the segment from which it counts."""

    model_config = ConfigDict(frozen=True)

    first: int = Field(ge=0, description="Index of its first segment, from 0.")
    recipe: Recipe


def chapters_of(recipe: Recipe, later: Iterable[Chapter] = ()) -> tuple[Chapter, ...]:
    """All chapters of what begins with `recipe`."""
    return (Chapter(first=0, recipe=recipe), *later)


def recipe_at(chapters: Sequence[Chapter], segment: int) -> Recipe:
    """The recipe of a segment (from 0); that of the last chapter for what would come after it."""
    return next(c.recipe for c in reversed(chapters) if c.first <= max(segment, 0))


def check_later(later: Sequence[Chapter], segments: int) -> None:
    """Raises ValueError unless each chapter begins after the one before and within the take."""
    firsts = [0, *(chapter.first for chapter in later), segments]
    if later and any(b <= a for a, b in itertools.pairwise(firsts)):
        raise ValueError(f"no chapters of {segments} segments: they begin at {firsts[1:-1]}")


def resized(chapters: Iterable[Chapter], segments: int) -> tuple[Chapter, ...]:
    """The same chapters of a take of so many segments; those that would begin after it go, and
    neighbours with equal recipes become one."""
    found: list[Chapter] = []
    for chapter in chapters:
        recipe = chapter.recipe.model_copy(update={"segments": segments})
        if chapter.first < segments and not (found and found[-1].recipe == recipe):
            found.append(Chapter(first=chapter.first, recipe=recipe))
    return tuple(found)


def changed_from(chapters: Iterable[Chapter], first: int, recipe: Recipe) -> list[Chapter]:
    """The chapters with `recipe` from segment `first` to the end."""
    return [c for c in chapters if c.first < first] + [Chapter(first=first, recipe=recipe)]


def plan_of(pipeline: Pipeline, chapters: Sequence[Chapter]) -> Plan:
    """What a take comes to on its model, with the steps of each segment by its own recipe.

    Raises BadInput for whatever the model cannot do in any chapter.
    """
    plans = [pipeline.plan(chapter.recipe) for chapter in chapters]
    # A voice that has another ending from the last chapter on says how long the video is.
    ends = [*(chapter.first for chapter in chapters[1:]), plans[-1].chain.segments]
    steps: list[int] = []
    for plan, end in zip(plans, ends, strict=True):
        steps += plan.steps[len(steps) : end]
    return replace(plans[-1], steps=tuple(steps))

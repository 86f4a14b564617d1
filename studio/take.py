"""A take: one finished result, as its manifest tells it. Immutable."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from studio.chapter import Chapter, chapters_of, check_later, recipe_at
from studio.recipe import Recipe


class SegmentRef(BaseModel):
    """One segment of a take."""

    model_config = ConfigDict(frozen=True)

    index: int
    """From 0."""
    id: str
    seed: int
    frames: tuple[int, int]
    """[first, last + 1] in the result of the frames that this segment adds."""


class Take(BaseModel):
    """The manifest of a take without what the store adds (format, checksums)."""

    model_config = ConfigDict(frozen=True)

    id: str
    session: str
    parent: str | None
    keep: int = Field(description="Segments shared with the parent when this take was made.")
    created: str = Field(description="UTC, ISO 8601.")
    recipe: Recipe = Field(description="Of its first chapter.")
    later: tuple[Chapter, ...] = Field((), description="The chapters after the first.")
    encoder_keys: dict[str, str] = Field(description="Part -> key under inputs/.")
    segments: tuple[SegmentRef, ...]
    result: Literal["result.mp4", "result.png"] = Field(description="File beside the manifest.")
    width: int | None = Field(None, description="Of the result in pixels; in old takes as asked.")
    height: int | None = None
    timings: dict[str, float] = Field(default_factory=dict, description="Seconds.")
    forwards: dict[str, int] = Field(default_factory=dict)
    software: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _chapters_fit(self) -> Take:
        check_later(self.later, len(self.segments))
        return self

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        """Its recipes with the segments from which they count; at least one, the first from 0."""
        return chapters_of(self.recipe, self.later)

    def recipe_of(self, segment: int) -> Recipe:
        """The recipe of a segment (from 0); beyond the end, the one to go on with."""
        return recipe_at(self.chapters, segment)

    @property
    def seeds(self) -> list[int]:
        return [segment.seed for segment in self.segments]

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the result in pixels: with some models it follows the picture."""
        return self.width or self.recipe.width, self.height or self.recipe.height

    @property
    def total_frames(self) -> int:
        return self.segments[-1].frames[1]

    def seconds(self) -> float:
        """Length of the result."""
        return self.total_frames / self.recipe.fps

    def result_in(self, takes: Path) -> Path:
        """The result file, given the folder of all takes."""
        return takes / self.id / self.result

    def with_recipes(self, change: Callable[[Recipe], Recipe]) -> Take:
        """The same take with each of its recipes replaced."""
        later = tuple(c.model_copy(update={"recipe": change(c.recipe)}) for c in self.later)
        return self.model_copy(update={"recipe": change(self.recipe), "later": later})


def now() -> str:
    """UTC, of one length, so that it sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def embedded(take: Take) -> dict[str, object]:
    """What a result file tells about itself: enough to make it again elsewhere."""
    told = take.model_dump(mode="json", include={"id", "session", "parent", "recipe", "software"})
    chapters = [chapter.model_dump(mode="json") for chapter in take.chapters]
    return {**told, "chapters": chapters, "seeds": take.seeds}

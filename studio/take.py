"""A take: one finished result, as its manifest tells it. Immutable."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

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
    recipe: Recipe
    encoder_keys: dict[str, str] = Field(description="Part -> key under inputs/.")
    segments: tuple[SegmentRef, ...]
    result: Literal["result.mp4", "result.png"] = Field(description="File beside the manifest.")
    timings: dict[str, float] = Field(default_factory=dict, description="Seconds.")
    forwards: dict[str, int] = Field(default_factory=dict)
    software: dict[str, str] = Field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        return [segment.seed for segment in self.segments]

    @property
    def total_frames(self) -> int:
        return self.segments[-1].frames[1]

    def seconds(self) -> float:
        """Length of the result."""
        return self.total_frames / self.recipe.fps

    def result_in(self, takes: Path) -> Path:
        """The result file, given the folder of all takes."""
        return takes / self.id / self.result


def now() -> str:
    """UTC, of one length, so that it sorts as text."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def embedded(take: Take) -> dict[str, object]:
    """What a result file tells about itself: enough to make it again elsewhere."""
    told = take.model_dump(mode="json", include={"id", "session", "parent", "recipe", "software"})
    return {**told, "seeds": take.seeds}

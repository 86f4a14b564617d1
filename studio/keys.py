"""The names of things on disk: what a recipe and its seeds come to as content-addressed keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.base import Pipeline
from reuse import FileHashes, digest, resolve, segment_id
from studio import media
from studio.recipe import Recipe


@dataclass(frozen=True)
class Keys:
    """Everything that one render reads or writes in the library goes by one of these."""

    encoder: dict[str, str]
    """Part (`prompt`, `image`…) -> key under inputs/."""
    segments: tuple[str, ...]
    take: str
    encoder_fields: dict[str, dict[str, Any]]
    segment_fields: dict[str, Any]
    """The whole recipe of a segment, the encoders' fields included, with files as hashes."""

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        recipe: Recipe,
        seeds: Sequence[int],
        session: str,
        hashes: FileHashes,
    ) -> Keys:
        """Raises BadInput for a field that the model refuses."""
        encoder_fields = resolve(pipeline.encoder_inputs(recipe), hashes)
        segment_fields = {
            "encoder": encoder_fields,
            "coding": media.CODING,
            **resolve(pipeline.segment_inputs(recipe), hashes),
        }
        segments: list[str] = []
        for index, seed in enumerate(seeds):
            previous = segments[-1] if segments else None
            segments.append(segment_id(segment_fields, index, seed, previous))
        take = {"session": session, "segments": segments, "audio": recipe.audio, "fps": recipe.fps}
        return cls(
            encoder={part: digest("inputs", own) for part, own in encoder_fields.items()},
            segments=tuple(segments),
            take=digest("take", resolve(take, hashes)),
            encoder_fields=encoder_fields,
            segment_fields=segment_fields,
        )

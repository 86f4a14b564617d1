"""The names of things on disk: what recipes and seeds come to as content-addressed keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.base import Pipeline
from reuse import FileHashes, digest, resolve, segment_id
from studio import flowcache, media
from studio.chapter import Chapter
from studio.recipe import Recipe


@dataclass(frozen=True)
class ChapterKeys:
    """What the segments of one chapter go by."""

    first: int
    parts: dict[str, str]
    """Part as the model calls it (`prompt`, `image`…) -> its name in `Keys.encoder`."""
    segment_fields: dict[str, Any]
    """The whole recipe of a segment, the encoders' fields included, with files as hashes."""


@dataclass(frozen=True)
class Keys:
    """Everything that one render reads or writes in the library goes by one of these."""

    encoder: dict[str, str]
    """Name of a part -> key under inputs/. The parts of the first chapter go by the name of the
    model; one that differs in the chapter from segment 2 on is called `prompt@2`."""
    encoder_fields: dict[str, dict[str, Any]]
    """Name of a part -> all that its outputs depend on."""
    chapters: tuple[ChapterKeys, ...]
    segments: tuple[str, ...]
    take: str

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        chapters: Sequence[Chapter],
        seeds: Sequence[int],
        session: str,
        hashes: FileHashes,
    ) -> Keys:
        """Raises BadInput for a field that the model refuses."""
        encoder, encoder_fields, own = _of_chapters(pipeline, chapters, hashes)
        segments: list[str] = []
        for index, seed in enumerate(seeds):
            previous = segments[-1] if segments else None
            fields = _at(own, index).segment_fields
            segments.append(segment_id(fields, index, seed, previous))
        return cls(
            encoder=encoder,
            encoder_fields=encoder_fields,
            chapters=own,
            segments=tuple(segments),
            take=take_id(session, segments, chapters[-1].recipe, hashes),
        )

    def hold(self, pipeline: Pipeline, chapters: Sequence[Chapter], hashes: FileHashes) -> bool:
        """Whether they are still those of these chapters: files of the model or of a recipe may
        have changed since. Does not depend on how many segments there are."""
        now = _of_chapters(pipeline, chapters, hashes)
        return now == (self.encoder, self.encoder_fields, self.chapters)

    def of_segment(self, index: int) -> ChapterKeys:
        """The keys of the chapter that a segment is in."""
        return _at(self.chapters, index)


def _of_chapters(
    pipeline: Pipeline, chapters: Sequence[Chapter], hashes: FileHashes
) -> tuple[dict[str, str], dict[str, dict[str, Any]], tuple[ChapterKeys, ...]]:
    """`encoder`, `encoder_fields` and `chapters` of `Keys`."""
    encoder: dict[str, str] = {}
    encoder_fields: dict[str, dict[str, Any]] = {}
    own: list[ChapterKeys] = []
    for chapter in chapters:
        parts: dict[str, str] = {}
        of_encoders = resolve(pipeline.encoder_inputs(chapter.recipe), hashes)
        for part, fields in of_encoders.items():
            key = digest("inputs", fields)
            name = parts[part] = _name(encoder, part, key, chapter.first)
            encoder[name], encoder_fields[name] = key, fields
        segment_fields = {
            "encoder": of_encoders,
            "coding": media.CODING,
            **resolve(pipeline.segment_inputs(chapter.recipe), hashes),
            **flowcache.key_fields(chapter.recipe),
        }
        own.append(ChapterKeys(chapter.first, parts, segment_fields))
    return encoder, encoder_fields, tuple(own)


def take_id(session: str, segments: Sequence[str], recipe: Recipe, hashes: FileHashes) -> str:
    """The id of the take of these segments in a session; `recipe` names the sound and the rate."""
    fields = {
        "session": session,
        "segments": list(segments),
        "audio": recipe.audio,
        **({} if recipe.audio_2 is None else {"audio_2": recipe.audio_2}),
        "fps": recipe.fps,
    }
    return digest("take", resolve(fields, hashes))


def _name(known: Mapping[str, str], part: str, key: str, first: int) -> str:
    """The name of a part whose outputs have this key: an earlier chapter's, if it has the same."""
    for name, other in known.items():
        if other == key and name.partition("@")[0] == part:
            return name
    return f"{part}@{first}" if first else part


def _at(chapters: Sequence[ChapterKeys], index: int) -> ChapterKeys:
    return next(keys for keys in reversed(chapters) if keys.first <= index)

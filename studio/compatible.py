"""What is refused before a render starts, and why, field by field."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pipelines.base import OF_SOME_MODELS, Pipeline, Task
from pipelines.errors import BadInput
from reuse import Difference, FileHashes, NotCompatible, ReuseError, differences, resolve
from studio import flowcache
from studio.chapter import CARRIED, Chapter, recipe_at
from studio.errors import OtherVoices
from studio.keys import Keys
from studio.library import Library
from studio.recipe import INPUT_FILES, SAMPLING, Recipe
from studio.take import Take

VOICES = frozenset({"audio", "audio_2"})


def refuse_unused_inputs(recipe: Recipe, pipeline: Pipeline) -> None:
    """Raises BadInput for a picture, a voice or a setting that the model would not look at."""
    tasks = pipeline.capabilities.tasks
    if recipe.image is not None and not {Task.I2V, Task.I2I, Task.S2V} & set(tasks):
        fix = f"{recipe.model} takes no picture; leave it out or choose another model."
        raise BadInput("image", str(recipe.image), fix)
    if recipe.audio is not None and Task.S2V not in tasks:
        fix = f"{recipe.model} takes no voice; leave it out or choose another model."
        raise BadInput("audio", str(recipe.audio), fix)
    for name in sorted(OF_SOME_MODELS - set(pipeline.capabilities.extras)):
        value = getattr(recipe, name)
        if value not in (None, (), "", "auto"):
            fix = f"{recipe.model} does not look at it; leave it out or choose another model."
            raise BadInput(name, value if isinstance(value, str) else str(value), fix)
    read = pipeline.segment_inputs(recipe)
    for name in SAMPLING:
        value = getattr(recipe, name)
        if name not in read and value != Recipe.model_fields[name].default:
            fix = f"{recipe.model} does not look at it; leave it out or choose another model."
            raise BadInput(name, value, fix)


def refuse_unfit(pipeline: Pipeline, chapters: Sequence[Chapter], hashes: FileHashes) -> None:
    """Raises BadInput for what the model does not look at or cannot do in any chapter, and
    NotCompatible if a later chapter cannot follow the first."""
    for chapter in chapters:
        refuse_unused_inputs(chapter.recipe, pipeline)
        flowcache.refuse_unless_able(pipeline, chapter.recipe)
    for before, chapter in itertools.pairwise(chapters):
        refuse_other_boundary(pipeline, before.recipe, chapter.recipe, chapter.first, hashes)


def refuse_keep(
    pipeline: Pipeline, parent: Take, keep: int, segments: int, asked: int | None = None
) -> None:
    """Raises BadInput if a take of so many segments cannot keep `keep` of the parent's: at least
    one has to be new, and not every model renders in segments. `asked` are the segments that were
    asked for, where a voice may end before."""
    most = min(len(parent.segments), segments - 1)
    if keep > most and asked is not None and asked > segments:
        fix = f"The voice ends with segment {segments}: there is nothing to add after it. "
        raise BadInput("keep", keep, f"{fix}Keep 0 to {most}, or give a longer voice.")
    if not 0 <= keep <= most:
        fix = f"Keep 0 to {most}: take {parent.id[:12]} has {len(parent.segments)} segments and "
        raise BadInput("keep", keep, f"{fix}the new one {segments}.")
    if keep and not pipeline.capabilities.segment_reuse:
        fix = f"{parent.recipe.model} renders in one piece; use keep 0 with it."
        raise BadInput("keep", keep, fix)


def refuse_other_boundary(
    pipeline: Pipeline, kept: Recipe, asked: Recipe, keep: int, hashes: FileHashes
) -> frozenset[str]:
    """The voices that differ, of content: they may where the first `keep` segments hear the same
    in both, as with a new ending of a speech.

    Raises NotCompatible naming each field that may not change from one segment to the next, and
    BadInput if fewer segments than `keep` hear the same. Files count by their content.
    """

    def carried(recipe: Recipe) -> dict:
        return resolve({name: getattr(recipe, name) for name in CARRIED}, hashes)

    found = differences(carried(kept), carried(asked))
    names = frozenset(difference.name.partition(".")[0] for difference in found)
    if names - VOICES:
        raise NotCompatible(found)
    if names:
        most = pipeline.most_kept(kept, asked)
        if most == 0:
            hears = Task.S2V in pipeline.capabilities.tasks
            raise OtherVoices(found) if hears else NotCompatible(found)
        if keep > most:
            fix = f"The new voice is another one after segment {most}: keep at most {most}."
            raise BadInput("keep", keep, fix)
    return names


def refuse_unless_compatible(
    library: Library,
    pipeline: Pipeline,
    parent: Take,
    keep: int,
    chapters: Sequence[Chapter],
    keys: Keys,
) -> None:
    """Raises BadInput if there are no `keep` segments to keep, and NotCompatible if the first
    `keep` segments of `parent` are not the first of what is asked for: a prefix fits exactly when
    the ids agree."""
    refuse_keep(pipeline, parent, keep, len(keys.segments))
    if found := differing(library, parent, keep, chapters, keys):
        raise NotCompatible(found)


def differing(
    library: Library, take: Take, count: int, chapters: Sequence[Chapter], keys: Keys
) -> list[Difference]:
    """Why the first `count` segments of `take` are not those of `keys`, at the first one that is
    not: every field of the recipe as the person knows it, then what lies under it (the content of
    files, weights, versions). Empty if they are the same."""
    pairs = list(zip((part.id for part in take.segments), keys.segments, strict=False))[:count]
    at = next((i for i, (kept, asked) in enumerate(pairs) if kept != asked), None)
    if at is None:
        return []
    by_content = {"segments", *INPUT_FILES}
    found = differences(
        take.recipe_of(at).model_dump(mode="json", exclude=by_content),
        recipe_at(chapters, at).model_dump(mode="json", exclude=by_content),
    )
    named = {difference.name for difference in found}
    if "prompt" in named or "negative_prompt" in named:
        named.add("text")
    try:
        stored = library.store.manifest("segments", take.segments[at].id)["fields"]
    except ReuseError:
        # Without the manifest of the segment there is nothing to compare below the recipe.
        stored = keys.of_segment(at).segment_fields
    below = differences(stored, keys.of_segment(at).segment_fields)
    found += [d for d in below if d.name.rpartition(".")[2] not in named]
    return found or [Difference("segment id", *pairs[at])]

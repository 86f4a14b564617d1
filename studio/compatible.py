"""What is refused before a render starts, and why, field by field."""

from __future__ import annotations

from pipelines.base import Pipeline, Task
from pipelines.errors import BadInput
from reuse import Difference, NotCompatible, ReuseError, differences
from studio.keys import Keys
from studio.library import Library
from studio.recipe import INPUT_FILES, Recipe
from studio.take import Take


def refuse_unused_inputs(recipe: Recipe, pipeline: Pipeline) -> None:
    """Raises BadInput for a picture or a voice that the model would not look at."""
    tasks = pipeline.capabilities.tasks
    if recipe.image is not None and not {Task.I2V, Task.I2I, Task.S2V} & set(tasks):
        fix = f"{recipe.model} takes no picture; leave it out or choose another model."
        raise BadInput("image", str(recipe.image), fix)
    if recipe.audio is not None and Task.S2V not in tasks:
        fix = f"{recipe.model} takes no voice; leave it out or choose another model."
        raise BadInput("audio", str(recipe.audio), fix)


def refuse_keep(parent: Take, keep: int, segments: int) -> None:
    """Raises BadInput if a take of so many segments cannot keep `keep` of the parent's: at least
    one has to be new."""
    most = min(len(parent.segments), segments - 1)
    if not 0 <= keep <= most:
        fix = f"Keep 0 to {most}: take {parent.id[:12]} has {len(parent.segments)} segments and "
        raise BadInput("keep", keep, f"{fix}the new one {segments}.")


def refuse_unless_compatible(
    library: Library, pipeline: Pipeline, parent: Take, keep: int, recipe: Recipe, keys: Keys
) -> None:
    """Raises BadInput if there are no `keep` segments to keep, and NotCompatible if the first
    `keep` segments of `parent` are not the first of what is asked for: a prefix fits exactly when
    the ids agree."""
    refuse_keep(parent, keep, len(keys.segments))
    if keep and not pipeline.capabilities.segment_reuse:
        fix = f"{recipe.model} renders in one piece; use keep 0 with it."
        raise BadInput("keep", keep, fix)
    kept = tuple(segment.id for segment in parent.segments[:keep])
    if kept != keys.segments[:keep]:
        raise NotCompatible(differing(library, parent, recipe, keys))


def differing(library: Library, parent: Take, recipe: Recipe, keys: Keys) -> list[Difference]:
    """Every field that differs: those of the recipe as the person knows them, then what lies under
    them (the content of files, weights, versions)."""
    by_content = {"segments", *INPUT_FILES}
    found = differences(
        parent.recipe.model_dump(mode="json", exclude=by_content),
        recipe.model_dump(mode="json", exclude=by_content),
    )
    named = {difference.name for difference in found}
    if "prompt" in named or "negative_prompt" in named:
        named.add("text")
    first = parent.segments[0].id
    try:
        stored = library.store.manifest("segments", first)["fields"]
    except ReuseError:
        # Without the manifest of the segment there is nothing to compare below the recipe.
        return found or [Difference("segment id", first, keys.segments[0])]
    below = differences(stored, keys.segment_fields)
    return found + [d for d in below if d.name.rpartition(".")[2] not in named]

"""What is refused before a render starts, and why, field by field."""

from __future__ import annotations

from pipelines.base import Pipeline, Task
from pipelines.errors import BadInput
from reuse import Difference, NotCompatible, differences
from studio.keys import Keys
from studio.library import Library
from studio.recipe import Recipe
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


def refuse_unless_compatible(
    library: Library, pipeline: Pipeline, parent: Take, keep: int, recipe: Recipe, keys: Keys
) -> None:
    """Raises BadInput if there are no `keep` segments to keep, and NotCompatible if the first
    `keep` segments of `parent` are not the first of what is asked for: a prefix fits exactly when
    the ids agree."""
    if not 0 <= keep <= min(len(parent.segments), recipe.segments):
        fix = f"Take {parent.id[:12]} has {len(parent.segments)} segments; keep 0 to all of them."
        raise BadInput("keep", keep, fix)
    if keep and not pipeline.capabilities.segment_reuse:
        fix = f"{recipe.model} renders in one piece; use keep 0 with it."
        raise BadInput("keep", keep, fix)
    kept = tuple(segment.id for segment in parent.segments[:keep])
    if kept != keys.segments[:keep]:
        raise NotCompatible(_why(library, parent, recipe, keys))


def _why(library: Library, parent: Take, recipe: Recipe, keys: Keys) -> list[Difference]:
    """The recipe fields that the person knows; else what lies under them (weights, versions)."""
    own = {"segments", "image", "audio"}
    found = differences(
        parent.recipe.model_dump(mode="json", exclude=own),
        recipe.model_dump(mode="json", exclude=own),
    )
    if found:
        return found
    first = parent.segments[0].id
    if first in set(library.store.keys("segments")):
        found = differences(
            library.store.manifest("segments", first)["fields"], keys.segment_fields
        )
    return found or [Difference("segment id", first, keys.segments[0])]

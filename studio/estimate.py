"""What an order will cost, known before it runs: which segments are there, how long the rest takes.

Reads manifests and no big file.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.base import Pipeline, Plan
from reuse import Damaged, NotInLibrary
from studio.chapter import plan_of
from studio.compatible import refuse_unfit, refuse_unless_compatible
from studio.engine import Engine
from studio.keys import Keys
from studio.library import Library
from studio.order import Order
from studio.pace import Pace


@dataclass(frozen=True)
class Estimate:
    """What will happen to the segments of an order."""

    segments: int
    new: int
    """How many have to be generated."""
    reused: int
    """How many are on disk, kept ones included."""
    seconds: float | None
    """Of generating the new ones; None if the model has not run here yet. Loading it is left
    out: see `loads`."""
    loads: bool
    """Whether something has to be generated and no weight of the model is in memory yet."""
    width: int
    height: int
    """Of the video, in pixels: with some models it follows the picture."""
    frames: int
    """Of the whole video: with some models it follows the voice."""
    take: str | None
    """Id of the take if it is there already: nothing has to be done at all."""


def estimate(library: Library, engine: Engine, order: Order) -> Estimate:
    """Raises BadInput and NotCompatible as rendering the order would."""
    pipeline, chapters = engine.pipeline(order.recipe.model), order.chapters
    refuse_unfit(pipeline, chapters, library.hashes)
    plan = plan_of(pipeline, chapters)
    keys = Keys.of(pipeline, chapters, order.seeds, order.session, library.hashes)
    if order.parent is not None:
        parent = library.read_take(order.parent)
        refuse_unless_compatible(library, pipeline, parent, order.keep, chapters, keys)
    known = library.known_take(keys.take)
    if known is not None and not library.result(known).is_file():
        known = None
    new = [i for i, key in enumerate(keys.segments) if not (known or _is_there(library, key))]
    return Estimate(
        segments=len(keys.segments),
        new=len(new),
        reused=len(keys.segments) - len(new),
        seconds=expected_seconds(Pace(library.database), pipeline, order, plan, new),
        loads=bool(new) and not pipeline.loaded,
        width=plan.width,
        height=plan.height,
        frames=plan.chain.total,
        take=known.id if known else None,
    )


def expected_seconds(
    pace: Pace, pipeline: Pipeline, order: Order, plan: Plan, new: Sequence[int]
) -> float | None:
    """`Pace.seconds` of these segments (from 0) of an order, each by the recipe of its chapter."""
    total = 0.0
    for recipe, segments in itertools.groupby(new, key=order.recipe_of):
        forwards = pipeline.forwards_per_step(recipe)
        seconds = pace.seconds(recipe, plan, list(segments), forwards)
        if seconds is None:
            return None
        total += seconds
    return total


def _is_there(library: Library, segment: str) -> bool:
    try:
        library.store.manifest("segments", segment)
    except (NotInLibrary, Damaged):
        return False
    return True

"""What a person can do. The commands and the page call these, and nothing below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.base import Plan
from pipelines.errors import BadInput
from studio import media, seeds
from studio.assemble import assemble
from studio.chapter import CARRIED, Chapter, changed_from, chapters_of, plan_of, resized
from studio.clock import Clock
from studio.compatible import refuse_keep, refuse_other_boundary, refuse_unused_inputs
from studio.engine import Engine
from studio.estimate import Estimate as Estimate
from studio.estimate import estimate as estimate
from studio.events import OnEvent, ignore
from studio.given import files_as_given
from studio.keys import take_id
from studio.library import Library
from studio.order import Order, order_copies
from studio.ranks import Ranks
from studio.recipe import INPUT_FILES, Recipe, chosen_of
from studio.render import Rendered, render
from studio.session_name import free_session as free_session
from studio.session_name import next_name, session_name, taken_names
from studio.take import Take, now

MAX_EXPORT_PIXELS = 8192
"""A side of an exported film; a reel of several takes is checked again as a whole."""


def order_take(
    library: Library,
    engine: Engine,
    model: str,
    given: Mapping[str, Any],
    chosen_seeds: Sequence[int] | None = None,
    session: str | None = None,
) -> Order:
    """The order for a new take. `given` holds recipe fields; what is left out comes from the
    model's defaults. Its files are copied into the library.

    Raises BadInput for all that can be refused before a model is loaded.
    """
    recipe = Recipe.make(model, **given)
    name = session_name(session, recipe.prompt)
    plan = _plan(library, engine, chapters_of(recipe))
    spread = seeds.spread(chosen_seeds, plan.chain.segments)
    return Order(recipe=library.adopt(recipe), seeds=tuple(spread), session=name, **_planned(plan))


def order_takes(
    library: Library,
    engine: Engine,
    model: str,
    given: Mapping[str, Any],
    chosen_seeds: Sequence[int] | None = None,
    session: str | None = None,
    copies: int = 1,
) -> list[Order]:
    """So many orders for new takes, alike but for their seeds: the first has those that were
    chosen, the others have drawn ones. Raises what `order_take` raises."""
    return order_copies(order_take(library, engine, model, given, chosen_seeds, session), copies)


def order_retake(
    library: Library,
    engine: Engine,
    take: str,
    keep: int,
    chosen_seeds: Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Order:
    """The order for a take that keeps the first `keep` segments of `take`.

    `changes` holds recipe fields to replace from the first new segment on; where the recipe of
    `take` changes later, it no longer does. `segments` in it extends or shortens the video, and
    alone changes nothing else.

    Raises BadInput, also for segments of the baseline that are locked, and NotCompatible naming
    each field that cannot change after what is kept.
    """
    parent = library.take(take)
    chosen = chosen_of(changes or {})
    old = parent.recipe_of(keep)
    recipe = old.changed(chosen)
    if keep > 0:
        pipeline = engine.pipeline(recipe.model)
        others = refuse_other_boundary(pipeline, old, recipe, keep, library.hashes)
        # The same content under another name is the same file.
        carried = [name for name in INPUT_FILES if name in CARRIED and name not in others]
        same = {name: getattr(old, name) for name in carried}
        recipe = recipe.model_copy(update=same)
    chapters = parent.chapters
    if chosen.keys() - {"segments"}:
        chapters = changed_from(chapters, max(keep, 0), recipe)
    chapters = resized(chapters, recipe.segments)
    plan = _plan(library, engine, chapters)
    segments = plan.chain.segments
    refuse_keep(engine.pipeline(recipe.model), parent, keep, segments, recipe.segments)
    _refuse_locked(library, parent, keep)
    new = list(chosen_seeds or [])
    if len(new) == segments and keep and new[:keep] == parent.seeds[:keep]:
        new = new[keep:]
    spread = parent.seeds[:keep] + seeds.spread(new, segments - keep)
    first, *later = (Chapter(first=c.first, recipe=library.adopt(c.recipe)) for c in chapters)
    return Order(
        recipe=first.recipe,
        later=tuple(later),
        seeds=tuple(spread),
        session=parent.session,
        parent=parent.id,
        keep=keep,
        **_planned(plan),
    )


def order_retakes(
    library: Library,
    engine: Engine,
    take: str,
    keep: int,
    chosen_seeds: Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    copies: int = 1,
) -> list[Order]:
    """So many orders for retakes, alike but for the seeds of their new segments: the first has
    those that were chosen, the others have drawn ones. Raises what `order_retake` raises."""
    return order_copies(order_retake(library, engine, take, keep, chosen_seeds, changes), copies)


def _refuse_locked(library: Library, parent: Take, keep: int) -> None:
    """Raises BadInput if a retake of the baseline would make locked segments anew."""
    state = library.history.session_state(parent.session)
    if state and state["baseline"] == parent.id and keep < (locked := state["locked"]):
        fix = f"Segments 1 to {locked} are locked: unlock them, keep {locked}, or fork the take."
        raise BadInput("keep", keep, fix)


def _plan(library: Library, engine: Engine, chapters: Sequence[Chapter]) -> Plan:
    """What a take comes to on its model. Raises BadInput if a recipe does not fit."""
    pipeline = engine.pipeline(chapters[0].recipe.model)
    with files_as_given(library):
        for chapter in chapters:
            refuse_unused_inputs(chapter.recipe, pipeline)
        return plan_of(pipeline, chapters)


def _planned(plan: Plan) -> dict[str, Any]:
    """What an order notes of its plan, for who looks at the queue."""
    frames = tuple(plan.chain.new_frames(i) for i in range(plan.chain.segments))
    return {"width": plan.width, "height": plan.height, "frames": frames}


def fulfil(library: Library, engine: Engine, order: Order, on_event: OnEvent = ignore) -> Rendered:
    """Renders what was ordered. Raises what `render` raises."""
    with files_as_given(library):
        return render(
            library,
            engine.turn_to(order.recipe.model),
            order.chapters,
            order.seeds,
            session=order.session,
            parent=library.read_take(order.parent) if order.parent else None,
            keep=order.keep,
            on_event=on_event,
        )


def generate(
    library: Library,
    engine: Engine,
    model: str,
    given: Mapping[str, Any],
    chosen_seeds: Sequence[int] | None = None,
    session: str | None = None,
    on_event: OnEvent = ignore,
) -> Rendered:
    """A new take, at once. Raises what `order_take` and `fulfil` raise."""
    asked = Ranks.here().agree(order_take(library, engine, model, given, chosen_seeds, session))
    return fulfil(library, engine, asked, on_event)


def retake(
    library: Library,
    engine: Engine,
    take: str,
    keep: int,
    chosen_seeds: Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    on_event: OnEvent = ignore,
) -> Rendered:
    """A retake, at once. Raises what `order_retake` and `fulfil` raise."""
    asked = order_retake(library, engine, take, keep, chosen_seeds, changes)
    asked = Ranks.here().agree(asked)
    return fulfil(library, engine, asked, on_event)


def accept(library: Library, take: str) -> tuple[Take, str | None]:
    """Makes a take the baseline of its session; returns it and the baseline before."""
    chosen = library.take(take)
    return chosen, library.history.accept(chosen.id)


def fork(library: Library, take: str, session: str | None = None) -> Take:
    """The same take as the first of a new session; its segments are shared. Without a name the
    session is called after the old one: `name 2`.

    Computes nothing. Raises BadInput if there is a session of that name, or if a file of a segment
    is damaged or gone.
    """
    with library.naming:
        return _fork(library, library.take(take), session)


def _fork(library: Library, old: Take, session: str | None) -> Take:
    taken = taken_names(library)
    name = session_name(session, "") if session is not None else next_name(old.session, taken)
    if name in taken:
        raise BadInput("session", name, "There is such a session; choose another name.")
    entries = [library.store.find("segments", part.id) for part in old.segments]
    if None in entries:
        number = entries.index(None) + 1
        fix = f"The files of its segment {number} are gone. Retake with the old seeds mends it."
        raise BadInput("take", old.id, fix)
    ids = [part.id for part in old.segments]
    new = old.model_copy(
        update={
            "id": take_id(name, ids, old.chapters[-1].recipe, library.hashes),
            "session": name,
            "parent": old.id,
            "keep": len(ids),
            "created": now(),
            "forwards": {"computed": 0, "skipped": 0},
        }
    )
    forked = assemble(library, new, entries, Clock())
    library.record(forked)
    return forked


def export(
    library: Library, takes: Sequence[str], out: Path, scale: int = 1, overwrite: bool = False
) -> Path:
    """Writes one take to a file, or several side by side with their seeds as labels.

    Raises BadInput, MediaError.
    """
    chosen = [library.take(name) for name in takes]
    kinds = {library.result(take).suffix for take in chosen}
    works = [".png"] if kinds == {".png"} else [e for e in media.EXPORTS if e != ".png"]
    if out.suffix.lower() not in works:
        raise BadInput("to", str(out), f"Use a name that ends in {', '.join(works)}.")
    if not out.absolute().parent.is_dir():
        raise BadInput("to", str(out), "There is no such folder; make it first.")
    if out.exists() and not overwrite:
        raise BadInput("to", str(out), "The file exists; choose another name or use --overwrite.")
    widest = max(max(take.size) for take in chosen)
    if not 1 <= scale * widest <= MAX_EXPORT_PIXELS:
        most = MAX_EXPORT_PIXELS // widest
        raise BadInput("scale", scale, f"Use a whole number from 1 to {most}.")
    for take in chosen:
        if not library.is_whole(take):
            fix = "Its files are damaged; `verify` names them. Retake with the old seeds mends it."
            raise BadInput("take", take.id, fix)
    labels = [f"{take.id[:8]}  seeds {_tell_seeds(take)}" for take in chosen]
    media.export(
        [library.result(take) for take in chosen],
        out,
        labels=labels if len(chosen) > 1 else None,
        scale=scale,
        overwrite=overwrite,
    )
    return out


def _tell_seeds(take: Take) -> str:
    """The seeds with runs folded: `7 x3, 12`."""
    runs: list[list[int]] = []
    for seed in take.seeds:
        if runs and runs[-1][0] == seed:
            runs[-1][1] += 1
        else:
            runs.append([seed, 1])
    return ", ".join(str(seed) if count == 1 else f"{seed} x{count}" for seed, count in runs)

"""What a person can do. The commands and the page call these, and nothing below them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import BadInput
from studio import media, seeds
from studio.compatible import refuse_keep, refuse_unused_inputs
from studio.engine import Engine
from studio.events import OnEvent, ignore
from studio.library import Library
from studio.order import Order
from studio.recipe import Recipe
from studio.render import Rendered, render
from studio.take import Take

MAX_SESSION = 80
MAX_EXPORT_PIXELS = 8192
"""A side of an exported film; a reel of several takes is checked again as a whole."""


def session_name(name: str | None, prompt: str) -> str:
    """The session that was named; else one called after the first words of the prompt.

    Raises BadInput.
    """
    if name is None:
        words = re.findall(r"\w+", unicodedata.normalize("NFKC", prompt).lower())
        return "-".join(words[:6])[:MAX_SESSION] or "untitled"
    tidy = " ".join(unicodedata.normalize("NFC", name).split())
    if not tidy or len(tidy) > MAX_SESSION or not tidy.isprintable():
        fix = f"Use 1 to {MAX_SESSION} printable characters."
        raise BadInput("session", name, fix)
    return tidy


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
    segments = _segments(engine, recipe)
    spread = seeds.spread(chosen_seeds, segments)
    return Order(recipe=library.adopt(recipe), seeds=tuple(spread), session=name)


def order_retake(
    library: Library,
    engine: Engine,
    take: str,
    keep: int,
    chosen_seeds: Sequence[int] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Order:
    """The order for a take that keeps the first `keep` segments of `take`.

    `changes` holds recipe fields to replace; `segments` in it extends or shortens the video.
    Raises BadInput.
    """
    parent = library.take(take)
    recipe = parent.recipe.changed(changes or {})
    segments = _segments(engine, recipe)
    refuse_keep(parent, keep, segments)
    new = list(chosen_seeds or [])
    if len(new) == segments and keep and new[:keep] == parent.seeds[:keep]:
        new = new[keep:]
    spread = parent.seeds[:keep] + seeds.spread(new, segments - keep)
    return Order(
        recipe=library.adopt(recipe),
        seeds=tuple(spread),
        session=parent.session,
        parent=parent.id,
        keep=keep,
    )


def _segments(engine: Engine, recipe: Recipe) -> int:
    """How many segments the recipe comes to on its model. Raises BadInput if it does not fit."""
    pipeline = engine.pipeline(recipe.model)
    refuse_unused_inputs(recipe, pipeline)
    return pipeline.plan(recipe).chain.segments


def fulfil(library: Library, engine: Engine, order: Order, on_event: OnEvent = ignore) -> Rendered:
    """Renders what was ordered. Raises what `render` raises."""
    return render(
        library,
        engine.pipeline(order.recipe.model),
        order.recipe,
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
    asked = order_take(library, engine, model, given, chosen_seeds, session)
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
    """A retake, at once. Raises what `order_retake` and `fulfil` raise; NotCompatible if a change
    would alter what is to be kept."""
    asked = order_retake(library, engine, take, keep, chosen_seeds, changes)
    return fulfil(library, engine, asked, on_event)


def accept(library: Library, take: str) -> tuple[Take, str | None]:
    """Makes a take the baseline of its session; returns it and the baseline before."""
    chosen = library.take(take)
    return chosen, library.history.accept(chosen.id)


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
    widest = max(max(take.recipe.width, take.recipe.height) for take in chosen)
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

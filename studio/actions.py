"""What a person can do. The commands and the page call these, and nothing below them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import BadInput
from studio import media, seeds
from studio.compatible import refuse_unused_inputs
from studio.engine import Engine
from studio.events import OnEvent, ignore
from studio.library import Library
from studio.order import Order
from studio.recipe import Recipe
from studio.render import Rendered, render
from studio.take import Take

MAX_SESSION = 80


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


def order(
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
    spread = seeds.spread(chosen_seeds, recipe.segments)
    return Order(recipe=_fitting(library, engine, recipe), seeds=tuple(spread), session=name)


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
    if not 0 <= keep < recipe.segments:
        fix = f"Keep 0 to {recipe.segments - 1} of the {recipe.segments} segments."
        raise BadInput("keep", keep, fix)
    if keep > len(parent.segments):
        fix = f"Take {parent.id[:12]} has {len(parent.segments)} segments."
        raise BadInput("keep", keep, fix)
    new = list(chosen_seeds or [])
    if len(new) == recipe.segments and keep and new[:keep] == parent.seeds[:keep]:
        new = new[keep:]
    spread = parent.seeds[:keep] + seeds.spread(new, recipe.segments - keep)
    return Order(
        recipe=_fitting(library, engine, recipe),
        seeds=tuple(spread),
        session=parent.session,
        parent=parent.id,
        keep=keep,
    )


def _fitting(library: Library, engine: Engine, recipe: Recipe) -> Recipe:
    """The recipe, known to fit its model, with its files in the library. Raises BadInput."""
    pipeline = engine.pipeline(recipe.model)
    refuse_unused_inputs(recipe, pipeline)
    pipeline.plan(recipe)
    return library.adopt(recipe)


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
    """A new take, at once. Raises what `order` and `fulfil` raise."""
    asked = order(library, engine, model, given, chosen_seeds, session)
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
    if out.exists() and not overwrite:
        raise BadInput("to", str(out), "The file exists; choose another name or use --overwrite.")
    if out.suffix.lower() not in media.EXPORTS:
        fix = f"Use a name that ends in {', '.join(media.EXPORTS)}."
        raise BadInput("to", str(out), fix)
    if scale < 1:
        raise BadInput("scale", scale, "Use a whole number from 1.")
    chosen = [library.take(name) for name in takes]
    for take in chosen:
        if library.find_take(take.id) is None:
            fix = "Its files are damaged or gone; run generate or retake again to make it anew."
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

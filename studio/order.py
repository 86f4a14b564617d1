"""An order: everything that one render was asked for, checked, with its seeds drawn.

It is what the queue keeps, so an order that a restart interrupts goes on as it was meant.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, model_validator

from pipelines.errors import BadInput
from studio import seeds
from studio.chapter import Chapter, chapters_of, check_later, recipe_at
from studio.recipe import Recipe

MOST_COPIES = 8


class Order(BaseModel):
    """Recipes, one seed for each segment, and the take whose beginning is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recipe: Recipe
    """Of the first chapter."""
    later: tuple[Chapter, ...] = ()
    """The chapters after the first."""
    seeds: tuple[int, ...]
    session: str
    parent: str | None = None
    """Id of the parent take."""
    keep: int = 0
    width: int | None = None
    """Of the video, as planned; None in orders of earlier versions."""
    height: int | None = None
    frames: tuple[tuple[int, int], ...] = ()
    """[first, last + 1] of the frames that each segment adds, as planned; none in orders of earlier
    versions."""

    @model_validator(mode="after")
    def _chapters_fit(self) -> Order:
        check_later(self.later, len(self.seeds))
        return self

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        """Its recipes with the segments from which they count; at least one, the first from 0."""
        return chapters_of(self.recipe, self.later)

    def recipe_of(self, segment: int) -> Recipe:
        """The recipe of a segment (from 0)."""
        return recipe_at(self.chapters, segment)


def order_copies(order: Order, copies: int) -> list[Order]:
    """The order itself, and others like it whose new segments share a freshly drawn seed each.

    Raises BadInput unless `copies` is 1 to 8.
    """
    if not 1 <= copies <= MOST_COPIES:
        raise BadInput("copies", copies, f"Ask for 1 to {MOST_COPIES} at once.")
    kept, new = order.seeds[: order.keep], order.seeds[order.keep :]
    taken, found = set(new), [order]
    while len(found) < copies:
        seed = seeds.draw()
        if seed not in taken:
            taken.add(seed)
            found.append(order.model_copy(update={"seeds": kept + (seed,) * len(new)}))
    return found

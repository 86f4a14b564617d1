"""An order: everything that one render was asked for, checked, with its seeds drawn.

It is what the queue keeps, so an order that a restart interrupts goes on as it was meant.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from studio.recipe import Recipe


class Order(BaseModel):
    """A recipe, one seed for each segment, and the take whose beginning is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recipe: Recipe
    seeds: tuple[int, ...]
    session: str
    parent: str | None = None
    """Id of the parent take."""
    keep: int = 0

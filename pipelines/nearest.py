"""Refusals that name the nearest values that fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from pipelines.base import Request
from pipelines.errors import BadInput


def within(field: str, value: int, low: int, high: int | None) -> None:
    """Raises BadInput unless `low` <= value <= `high`."""
    if value < low:
        raise BadInput(field, value, f"The least is {low}.")
    if high is not None and value > high:
        raise BadInput(field, value, f"The most is {high}.")


def check_fits(
    field: str,
    value: int,
    fits: Callable[[int], bool],
    rule: str,
    most: int | None = None,
) -> None:
    """Raises BadInput, with `rule` and the nearest values that fit, unless `value` fits and is at
    most `most`."""
    too_much = most is not None and value > most
    if fits(value) and not too_much:
        return
    below = next(downwards(most if too_much else value, fits), None)
    above = None if too_much else next((n for n in _upwards(value, most) if fits(n)), None)
    nearest = " and ".join(str(n) for n in (below, above) if n is not None)
    limit = f" and at most {most}" if too_much else ""
    raise BadInput(field, value, f"{rule}{limit}; the nearest: {nearest}.")


def downwards(value: int, fits: Callable[[int], bool]) -> Iterator[int]:
    """The values from `value` down to 1 that fit."""
    return (n for n in range(value, 0, -1) if fits(n))


def _upwards(value: int, most: int | None) -> Iterator[int]:
    start = max(value, 1)
    return iter(range(start, (most or start + 100_000) + 1))


def positive(field: str, value: float, or_zero: bool = False) -> None:
    """Raises BadInput unless `value` is a positive number."""
    if not math.isfinite(value) or value < 0 or (value == 0 and not or_zero):
        raise BadInput(field, value, "Use a positive number.")


def in_one_piece(recipe: Request) -> None:
    """Raises BadInput for a chain: the model makes its result in one segment."""
    if recipe.segments != 1:
        fix = "This model makes its result in one piece, and no segment can be kept: use 1."
        raise BadInput("segments", recipe.segments, fix)
    if recipe.overlap:
        raise BadInput("overlap", recipe.overlap, "Nothing follows the one segment: use 0.")

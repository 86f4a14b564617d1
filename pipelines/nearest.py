"""Refusals that name the nearest values that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

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

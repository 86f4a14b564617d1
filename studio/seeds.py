"""Seeds: all randomness of a segment comes from (its seed, its index) and from nothing else."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.errors import BadInput
from studio.recipe import MAX_SEED

if TYPE_CHECKING:
    import torch


def draw() -> int:
    """A fresh seed, short enough to read out."""
    return secrets.randbelow(2**32)


def spread(seeds: Sequence[int] | None, count: int, field: str = "seeds") -> list[int]:
    """One seed for each of `count` segments: none given draws one for all, one given serves all.

    Raises BadInput if the number does not fit or a seed is out of range.
    """
    chosen = list(seeds) if seeds else [draw()]
    for seed in chosen:
        if not 0 <= seed <= MAX_SEED:
            raise BadInput(field, seed, f"A seed is a whole number from 0 to {MAX_SEED}.")
    if len(chosen) == 1:
        return chosen * count
    if len(chosen) != count:
        raise BadInput(field, chosen, f"Give one for all new segments, or {count}, one for each.")
    return chosen


def generator(seed: int, index: int) -> torch.Generator:
    """The CPU generator of segment `index`. A retake with the old seed gets the old noise,
    whatever ran before it."""
    import torch

    mixed = hashlib.sha256(f"retake segment {index} seed {seed}".encode()).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(mixed[:8], "big") >> 1)

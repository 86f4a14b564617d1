"""What a running render tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


class Stage(StrEnum):
    """Where a render is."""

    LOAD = "load"
    ENCODE = "encode"
    DENOISE = "denoise"
    REUSED = "reused"
    GENERATED = "generated"
    JOIN = "join"


@dataclass(frozen=True)
class Event:
    """One moment of a render. `segment` counts from 0; `step` from 1, 0 outside denoising."""

    stage: Stage
    segment: int
    segments: int
    step: int = 0
    steps: int = 0
    preview: Callable[[], np.ndarray | None] | None = None
    id: str | None = None
    """Of the segment, once it is there: told with `REUSED` and `GENERATED`."""


OnEvent = Callable[[Event], None]
"""Called in every step. Raising `Cancelled` from it stops the render; finished segments stay."""


def ignore(event: Event) -> None:
    """Watches nothing."""

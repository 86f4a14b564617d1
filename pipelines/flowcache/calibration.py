"""The threshold for a wanted speed-up, from the changes that one run recorded."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.errors import BadInput
from pipelines.flowcache.decision import reuse_step
from pipelines.flowcache.skipmap import SkipMap

MOST = 10.0
ROUNDS = 40


def threshold_for(segments: Sequence[SkipMap], warmup: int, speedup: float) -> float:
    """The least threshold at which these segments would have taken 1 / `speedup` of the passes of
    the plain pipeline or fewer.

    How much a step changes a chunk depends little on what was reused before it, so that one run
    of mode `flow` at any threshold tells for all of them. Raises BadInput if no run recorded
    changes, or for a speed-up that no threshold gives.
    """
    segments = [segment for segment in segments if segment.changes]
    if not segments:
        raise BadInput("speedup", speedup, "Render it with flowcache flow first.")
    plain = sum(segment.steps * segment.chunks for segment in segments)

    def gained(threshold: float) -> float:
        return plain / sum(_passes(segment, warmup, threshold) for segment in segments)

    least, most = 0.0, MOST
    if not 1 <= speedup <= gained(most):
        fix = f"Use 1 to {gained(most):.2f}; with fewer warm-up steps it can be more."
        raise BadInput("speedup", speedup, fix)
    for _ in range(ROUNDS):
        middle = (least + most) / 2
        least, most = (least, middle) if gained(middle) >= speedup else (middle, most)
    return most


def _passes(segment: SkipMap, warmup: int, threshold: float) -> int:
    """Passes of one branch: computed steps, and those for keys and values only."""
    total = sum(
        computed and not moved
        for rows in zip(segment.computed, segment.moved, strict=True)
        for computed, moved in zip(*rows, strict=True)
    )
    for changes in segment.changes:
        accumulated = 0.0
        for step in range(len(changes)):
            again, accumulated = reuse_step(
                step, len(changes), warmup, accumulated, changes, threshold
            )
            total += not again
    return total

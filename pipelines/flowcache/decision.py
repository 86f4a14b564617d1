"""Compute or reuse: the arithmetic of FlowCache's and TeaCache's decisions, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


def relative_change(velocity: torch.Tensor, dt: float, latents: torch.Tensor) -> torch.Tensor:
    """||v dt||_1 / ||x||_1, how far a step moves a chunk (FlowCache's L1rel): a scalar."""
    return velocity.float().abs().sum() * abs(dt) / latents.float().abs().sum()


def relative_distance(now: torch.Tensor, before: torch.Tensor) -> float:
    """||now - before||_1 / ||before||_1 (TeaCache, arXiv 2411.19108, equation 4)."""
    return ((now - before).abs().sum() / before.abs().sum()).item()


def reuse(accumulated: float, change: float, threshold: float) -> tuple[bool, float]:
    """Whether to reuse, and the sum to go on with: 0 after a computed step.

    `change` is what has changed since the step before. Both papers compute again once the sum
    since the last computed step reaches the threshold.
    """
    accumulated += change
    if accumulated < threshold:
        return True, accumulated
    return False, 0.0


def reuse_step(
    step: int,
    steps: int,
    warmup: int,
    accumulated: float,
    changes: Sequence[float],
    threshold: float,
) -> tuple[bool, float]:
    """`reuse` for a step (from 0) of a chunk that has `steps`, with the changes of those before
    it, and the steps that are `always_computed`."""
    if always_computed(step, steps, warmup):
        return False, 0.0
    return reuse(accumulated, changes[step - 1], threshold)


def always_computed(step: int, steps: int, warmup: int) -> bool:
    """The first step, which has nothing to reuse; the warm-up; and the last step, which fixes the
    details."""
    return step < max(warmup, 1) or step == steps - 1


def signal_weight(sigma: float) -> float:
    """What a change at noise level `sigma` counts, 1 on average over all levels.

    log((1 - sigma) / sigma), the log of signal to noise, moves by 1 / (sigma (1 - sigma)) times
    the step: a step that is short in sigma can be long in this, near either end. Errors made
    there show in the picture as much as any, but ||v dt|| hardly counts them.
    """
    return WEIGHT / (sigma * (1 - sigma) + SOFT)


SOFT = 0.005
"""Keeps the weight finite at the ends."""
WEIGHT = 1 / (4 / math.sqrt(1 + 4 * SOFT) * math.atanh(1 / math.sqrt(1 + 4 * SOFT)))


def line_on(
    earlier: tuple[float, torch.Tensor], later: tuple[float, torch.Tensor], sigma: float
) -> torch.Tensor:
    """The velocity at noise level `sigma`, on the line through two (sigma, velocity), but no
    further beyond the later one than `REACH` of the way between them: then it holds. What two
    velocities differ by is partly noise, and grows with the way."""
    (s0, v0), (s1, v1) = earlier, later
    return torch.lerp(v1, v0, -min((sigma - s1) / (s1 - s0), REACH))


REACH = 0.7

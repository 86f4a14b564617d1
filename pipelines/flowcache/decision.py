"""Compute or reuse: the arithmetic of FlowCache's and TeaCache's decisions, as pure functions."""

from __future__ import annotations

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


def always_computed(step: int, steps: int, warmup: int) -> bool:
    """The first step, which has nothing to reuse; the warm-up; and the last step, which fixes the
    details."""
    return step < max(warmup, 1) or step == steps - 1


def line_through(
    earlier: tuple[float, torch.Tensor], later: tuple[float, torch.Tensor], sigma: float
) -> torch.Tensor:
    """The velocity at noise level `sigma`, on the line through two (sigma, velocity)."""
    (s0, v0), (s1, v1) = earlier, later
    return torch.lerp(v0, v1, (sigma - s0) / (s1 - s0))

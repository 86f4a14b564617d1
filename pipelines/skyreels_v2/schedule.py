"""Before the loop: noise, given frames, and which latent frame is at which timestep in each row."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Group:
    """Latent frames [start, stop) that are always at the same step, with their scheduler."""

    start: int
    stop: int
    scheduler: Any


@dataclass(frozen=True)
class Schedule:
    """The way of one segment from noise to clean latents, T rows over Fo latent frames."""

    timesteps: torch.Tensor
    """int64 `[T, Fo]`; 0 where a frame is given or done, 999 where it has not begun."""
    updates: torch.Tensor
    """bool `[T, Fo]`: the frames that row t moves."""
    groups: tuple[Group, ...]
    prefix: int
    """Latent frames at the start that are given and never moved."""

    def __len__(self) -> int:
        return len(self.timesteps)


def make_schedule(
    scheduler: Any, steps: int, latent_frames: int, prefix: int, ar_step: int, causal_block: int
) -> Schedule:
    """The timestep matrix is diffusers' own (SkyReels-V2, arXiv 2504.13074, section 3.3).

    diffusers keeps a scheduler for each latent frame. Frames that share every update share one
    here: the arithmetic is the same for each element, in fewer and larger calls.
    """
    from diffusers import SkyReelsV2DiffusionForcingPipeline

    scheduler.set_timesteps(steps)
    timesteps, _, updates, _ = SkyReelsV2DiffusionForcingPipeline.generate_timestep_matrix(
        None, latent_frames, scheduler.timesteps, latent_frames, ar_step, prefix, causal_block
    )
    groups = []
    start = prefix
    for frame in range(prefix + 1, latent_frames + 1):
        if frame < latent_frames and torch.equal(updates[:, frame], updates[:, start]):
            continue
        own = copy.deepcopy(scheduler)
        # Shifted timesteps are rounded to integers, and the first two can be the same one: told
        # where to begin, the scheduler need not guess it from the value.
        own.set_begin_index(0)
        groups.append(Group(start, frame, own))
        start = frame
    return Schedule(timesteps, updates, tuple(groups), prefix)


def starting_latents(
    shape: tuple[int, ...], given: torch.Tensor | None, generator: torch.Generator
) -> torch.Tensor:
    """Noise `[1, C, Fo, h, w]`, fp32 on the CPU, its first frames replaced by `given`.

    The noise is drawn for every frame, given or not: one order of draws for all segments.
    """
    latents = torch.randn(shape, generator=generator, dtype=torch.float32)
    if given is not None:
        latents[:, :, : given.shape[2]] = given
    return latents

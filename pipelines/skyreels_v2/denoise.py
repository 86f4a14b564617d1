"""The denoising loop of one segment, equal to diffusers' pipelines on the same noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from pipelines.skyreels_v2.schedule import Schedule


@dataclass(frozen=True)
class Condition:
    """What the transformer is told beside the latents; on its device and in its dtype."""

    prompt_embeds: torch.Tensor
    """`[1, L, dim]`"""
    negative_prompt_embeds: torch.Tensor | None
    """`[1, L, dim]`; None without guidance."""
    guidance_scale: float
    fps: int


Estimate = Callable[[int, torch.Tensor], None]
"""Called after row t (counted from 1) with the clean estimate `[1, C, n, h, w]` of the frames that
are furthest on their way."""


def denoise(
    transformer: Any,
    schedule: Schedule,
    latents: torch.Tensor,
    condition: Condition,
    condition_noise: int,
    generator: torch.Generator,
    on_row: Estimate,
) -> tuple[torch.Tensor, int]:
    """Clean latents `[1, C, Fo, h, w]` and the number of transformer forwards.

    `latents` are changed in place, and each scheduler is given a view of them. That matters:
    UniPC keeps the sample of its first step for its first correction, and diffusers moves that
    view on before it is read. A copy would be the textbook's corrector, and another video.
    """
    device, dtype = latents.device, transformer.dtype
    timesteps = schedule.timesteps.to(device)
    forwards = 0
    for row in range(len(schedule)):
        model_input, timestep = latents.to(dtype).clone(), timesteps[row : row + 1].clone()
        if condition_noise and schedule.prefix:
            add_noise(model_input, timestep, schedule.prefix, condition_noise, generator)
        velocity, calls = guided_velocity(transformer, model_input, timestep, condition)
        forwards += calls
        estimate = None
        for group in schedule.groups:
            if schedule.updates[row, group.start]:
                frames = slice(group.start, group.stop)
                latents[:, :, frames] = group.scheduler.step(
                    velocity[:, :, frames],
                    schedule.timesteps[row, group.start],
                    latents[:, :, frames],
                    return_dict=False,
                )[0]
                if estimate is None:
                    estimate = group.scheduler.model_outputs[-1]
        on_row(row + 1, estimate)
    return latents, forwards


def add_noise(
    model_input: torch.Tensor,
    timestep: torch.Tensor,
    prefix: int,
    condition_noise: int,
    generator: torch.Generator,
) -> None:
    """Blurs the given frames with noise of timestep `condition_noise` (of 1000), in place.

    It keeps small faults of the overlap from growing along the chain. New noise in every row, from
    the segment's generator.
    """
    given = model_input[:, :, :prefix]
    noise = torch.randn(given.shape, generator=generator, dtype=torch.float32).to(given)
    factor = 0.001 * condition_noise
    model_input[:, :, :prefix] = given * (1.0 - factor) + noise * factor
    timestep[:, :prefix] = condition_noise


def guided_velocity(
    transformer: Any, model_input: torch.Tensor, timestep: torch.Tensor, condition: Condition
) -> tuple[torch.Tensor, int]:
    """Velocity `[1, C, Fo, h, w]` with classifier-free guidance, and the forwards it took.

    Two forwards, not one batch of two: a batch sums in another order. The names of the contexts
    are those by which diffusers' caches keep the branches apart.
    """

    def velocity(branch: str, prompt_embeds: torch.Tensor) -> torch.Tensor:
        with transformer.cache_context(branch):
            return transformer(
                hidden_states=model_input,
                timestep=timestep,
                encoder_hidden_states=prompt_embeds,
                enable_diffusion_forcing=True,
                # The model knows two rates only: 16 frames a second, and the others.
                fps=[0 if condition.fps == 16 else 1],
                return_dict=False,
            )[0]

    with_prompt = velocity("cond", condition.prompt_embeds)
    if condition.negative_prompt_embeds is None:
        return with_prompt, 1
    without = velocity("uncond", condition.negative_prompt_embeds)
    return without + condition.guidance_scale * (with_prompt - without), 2

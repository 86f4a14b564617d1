"""The denoising loop of one segment, equal to diffusers' pipelines on the same noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch

from pipelines.skyreels_v2.schedule import Schedule

if TYPE_CHECKING:
    from pipelines.flowcache import SkipMap


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


@dataclass(frozen=True)
class Segment:
    """All that the velocities of one segment depend on beside its latents."""

    transformer: Any
    schedule: Schedule
    condition: Condition
    condition_noise: int
    causal_block: int

    @property
    def branches(self) -> dict[str, torch.Tensor]:
        """Prompt embeds of each guidance branch. The names are those by which diffusers' caches
        keep them apart."""
        condition = self.condition
        if condition.negative_prompt_embeds is None:
            return {"cond": condition.prompt_embeds}
        return {"cond": condition.prompt_embeds, "uncond": condition.negative_prompt_embeds}

    def forward(
        self, branch: str, model_input: torch.Tensor, timestep: torch.Tensor
    ) -> torch.Tensor:
        """Velocity `[1, C, n, h, w]` of the frames given, `[1, C, n, h, w]` at `[1, n]`."""
        with self.transformer.cache_context(branch):
            return self.transformer(
                hidden_states=model_input,
                timestep=timestep,
                encoder_hidden_states=self.branches[branch],
                enable_diffusion_forcing=True,
                # The model knows two rates only: 16 frames a second, and the others.
                fps=[0 if self.condition.fps == 16 else 1],
                return_dict=False,
            )[0]

    def guided(self, velocities: dict[str, torch.Tensor]) -> torch.Tensor:
        """Classifier-free guidance, where there are two branches."""
        with_prompt, without = velocities["cond"], velocities.get("uncond")
        if without is None:
            return with_prompt
        return without + self.condition.guidance_scale * (with_prompt - without)


class Velocity(Protocol):
    """Where the loop has its velocities from. Lives for one segment."""

    forwards: int
    """Transformer forwards so far."""
    forwards_skipped: int
    """Forwards that `PlainVelocity` would have made beside these."""
    skip_map: SkipMap | None
    """Which chunks were computed, where that is not all of them in every row."""

    def __call__(self, row: int, model_input: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        """Guided velocity `[1, C, Fo, h, w]` of the frames that row `row` (from 0) moves, from
        `[1, C, Fo, h, w]` and `[1, Fo]`; whatever it likes for the others."""
        ...


VelocityOf = Callable[[Segment], AbstractContextManager[Velocity]]
"""Opens the velocities of a segment; leaves nothing behind on the transformer when it closes."""


def denoise(
    velocity_of_row: Velocity,
    segment: Segment,
    latents: torch.Tensor,
    generator: torch.Generator,
    on_row: Estimate,
) -> torch.Tensor:
    """Clean latents `[1, C, Fo, h, w]`.

    `latents` are changed in place, and each scheduler is given a view of them. That matters:
    UniPC keeps the sample of its first step for its first correction, and diffusers moves that
    view on before it is read. A copy would be the textbook's corrector, and another video.
    """
    schedule, dtype = segment.schedule, segment.transformer.dtype
    timesteps = schedule.timesteps.to(latents.device)
    for row in range(len(schedule)):
        model_input, timestep = latents.to(dtype).clone(), timesteps[row : row + 1].clone()
        if segment.condition_noise and schedule.prefix:
            add_noise(model_input, timestep, schedule.prefix, segment.condition_noise, generator)
        velocity = velocity_of_row(row, model_input, timestep)
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
    return latents


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


class PlainVelocity:
    """Every frame in every row, as diffusers does."""

    forwards_skipped = 0
    skip_map = None

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.forwards = 0

    def __call__(self, row: int, model_input: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        """Two forwards under guidance, not one batch of two: a batch sums in another order."""
        segment = self.segment
        velocities = {
            branch: segment.forward(branch, model_input, timestep) for branch in segment.branches
        }
        self.forwards += len(velocities)
        return segment.guided(velocities)


@contextmanager
def plain_velocity(segment: Segment) -> Iterator[PlainVelocity]:
    # The block size stays in the transformer's config from one segment to the next.
    segment.transformer._set_ar_attention(segment.causal_block)
    yield PlainVelocity(segment)

"""The denoising loop of one segment, and what follows it: frames and the next motion boundary."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from pipelines.infinitetalk.colours import match_colours
from pipelines.infinitetalk.guidance import Guidance

TRAIN_TIMESTEPS = 1000


class Codec(Protocol):
    """Pixels `[1, 3, 1 + 4k, H, W]` in -1..1 to normalised latents `[1, C, 1 + k, h, w]`, fp32 on
    the device, and back."""

    def encode(self, video: torch.Tensor) -> torch.Tensor: ...

    def decode(self, latents: torch.Tensor) -> torch.Tensor: ...


@dataclass(frozen=True)
class Condition:
    """What the transformer is told beside the latents."""

    prompt_embeds: torch.Tensor
    """`[1, L, dim]`, unpadded."""
    negative_prompt_embeds: torch.Tensor
    """`[1, L', dim]`"""
    image_embeds: torch.Tensor | None
    """`[1, 257, image_dim]` of CLIP; None for a model without."""
    image_condition: torch.Tensor
    """`[1, C, T, h, w]`: the picture and gray frames after it, as latents."""
    audio: torch.Tensor
    """`[1, P, F, 5, blocks, channels]`"""
    masks: torch.Tensor | None
    """`[P + 1, h, w]` for two persons."""


def timesteps_of(steps: int, shift: float) -> torch.Tensor:
    """float32 `[steps + 1]` from 1000 down to 0: even from 1000 to 1, then bent by `shift`."""
    even = np.append(np.linspace(TRAIN_TIMESTEPS, 1, steps, dtype=np.float32), np.float32(0))
    t = torch.from_numpy(even) / TRAIN_TIMESTEPS
    return shift * t / (1 + (shift - 1) * t) * TRAIN_TIMESTEPS


def condition_mask(like: torch.Tensor) -> torch.Tensor:
    """`[1, 4, T, h, w]` beside `[1, C, T, h, w]`: 1 in the latent frame of the picture."""
    mask = like.new_zeros(1, 4, *like.shape[2:])
    mask[:, :, 0] = 1
    return mask


OnStep = Callable[[int, torch.Tensor], None]
"""Called after step n (from 1) with the clean estimate `[1, C, T, h, w]`."""


class Denoiser:
    """Velocities of one segment; counts its forwards."""

    def __init__(self, transformer: Any, condition: Condition, guidance: Guidance) -> None:
        self.transformer, self.guidance = transformer, guidance
        self.forwards = 0
        given = condition.image_condition
        self._tail = torch.cat((condition_mask(given), given), dim=1)
        self._branches = {
            "cond": (condition.prompt_embeds, True),
            "drop_text": (condition.negative_prompt_embeds, True),
            "drop_audio": (condition.prompt_embeds, False),
            "uncond": (condition.negative_prompt_embeds, False),
        }
        self._condition = condition

    def __call__(self, latents: torch.Tensor, timestep: torch.Tensor) -> torch.Tensor:
        """Guided velocity, fp32 `[1, C, T, h, w]`, at `timestep` `[1]`."""
        model_input = torch.cat((latents, self._tail), dim=1).to(self.transformer.dtype)
        velocities = {
            name: self._forward(name, model_input, timestep).float()
            for name in self.guidance.branches
        }
        return self.guidance.combined(velocities)

    def _forward(
        self, branch: str, model_input: torch.Tensor, timestep: torch.Tensor
    ) -> torch.Tensor:
        given, dtype = self._condition, self.transformer.dtype
        text, heard = self._branches[branch]
        # Silence is one person of zeros, however many speak: as the model was trained.
        audio = given.audio if heard else torch.zeros_like(given.audio[:, :1])
        image = None if given.image_embeds is None else given.image_embeds.to(dtype)
        self.forwards += 1
        with self.transformer.cache_context(branch):
            return self.transformer(
                hidden_states=model_input,
                timestep=timestep,
                encoder_hidden_states=text.to(dtype),
                encoder_hidden_states_image=image,
                audio_embeds=audio.to(dtype),
                ref_target_masks=given.masks if heard else None,
                return_dict=False,
            )[0]


def denoise(
    velocity: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    noise: torch.Tensor,
    motion: torch.Tensor,
    timesteps: torch.Tensor,
    on_step: OnStep,
) -> torch.Tensor:
    """Clean latents fp32 `[1, C, T, h, w]` by Euler's method.

    `motion` `[1, C, k, h, w]` stands clean in the first latent frames before every forward and
    after the last step. What the velocity says of them is never used: noise that the published
    code mixes in there changes nothing but the state of its global generator.
    """
    latents, given = noise.clone(), motion.shape[2]
    latents[:, :, :given] = motion
    for step, (now, then) in enumerate(itertools.pairwise(timesteps), start=1):
        v = velocity(latents, now[None].to(latents.device))
        estimate = latents - v * (now / TRAIN_TIMESTEPS).item()
        latents = latents - v * ((now - then) / TRAIN_TIMESTEPS).item()
        latents[:, :, :given] = motion
        on_step(step, estimate)
    return latents


def finish(
    codec: Codec, latents: torch.Tensor, reference: torch.Tensor, overlap: int, colours: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """All frames of a segment `[1, 3, F, H, W]` in -1..1, and the motion boundary
    `[1, C, k, h, w]` of the segment after it: its last `overlap` frames, encoded as a video of
    their own, after their colours were corrected toward `reference` `[1, 3, 1, H, W]`.

    The last latents of the segment would not do: they go on from those before them, and a segment
    begins anew.
    """
    video = match_colours(codec.decode(latents), reference, colours)
    return video, codec.encode(video[:, :, -overlap:].float())


def pixels_of(video: torch.Tensor) -> np.ndarray:
    """`[1, 3, F, H, W]` in -1..1 as uint8 `[F, H, W, 3]`."""
    pixels = (video[0].float() / 2 + 0.5).clamp(0, 1).mul(255).round().to(torch.uint8)
    return pixels.permute(1, 2, 3, 0).cpu().numpy()

"""The segment loop in its plainest form, to look at a transformer while it trains.

What people run is pipelines/infinitetalk/, which does the same with all its options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .batches import condition_of, shifted
from .parts import embed_images
from .shards import MOTION, SEGMENT

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sampling:
    """Euler steps, and how much stronger than silence the voice is taken (1: one forward a step)."""

    steps: int = 8
    audio_scale: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Model:
    """The parts of a checkpoint that the loop needs, and the statistics of its codec."""

    transformer: Any
    codec: Any
    image_encoder: Any
    constants: Any


def generate(
    model: Model, picture: np.ndarray, features: torch.Tensor, masks: torch.Tensor | None,
    text: torch.Tensor, frames: int, sampling: Sampling,
) -> np.ndarray:  # fmt: skip
    """uint8 frames [frames, H, W, 3] of `picture` [H, W, 3].

    features [P, T, layers, channels] of each voice; masks [P + 1, h, w] for two people; text
    [L, D], one embedding.
    """
    import torch

    from .hearing import feature_windows

    mean, std = model.constants.mean, model.constants.std
    reference = torch.from_numpy(picture).permute(2, 0, 1)[None, :, None].float() / 127.5 - 1
    video, start = reference, 0
    with torch.inference_mode():
        encoded = (model.codec.encode(reference).latent_dist.mode() - mean) / std
        image = embed_images(model.image_encoder, reference[:, :, 0])
        latent_frames = 1 + (SEGMENT - 1) // 4
        condition = condition_of(encoded, model.constants.empty, latent_frames)
        while True:
            known = model.codec.encode(video[:, :, -(MOTION if start else 1) :]).latent_dist.mode()
            windows = torch.stack([feature_windows(f, start, SEGMENT) for f in features])
            generator = torch.Generator().manual_seed(sampling.seed * 1000 + start)
            latents = _denoise(
                model, (known - mean) / std, condition, windows[None], masks, text[None], image,
                sampling, generator,
            )  # fmt: skip
            new = model.codec.decode(latents * std + mean).sample
            video = torch.cat([video, new[:, :, MOTION:]], 2) if start else new
            start += SEGMENT - MOTION
            if video.shape[2] >= frames:
                break
    video = video[0, :, :frames].permute(1, 2, 3, 0)
    return ((video + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).numpy()


def _denoise(model, known, condition, audio, masks, text, image, sampling, generator):
    import torch

    count = known.shape[2]
    shape = (1, known.shape[1], condition.shape[2], *known.shape[-2:])
    latents = torch.randn(shape, generator=generator)
    sigmas = shifted(torch.linspace(1, 0, sampling.steps + 1))
    for now, following in zip(sigmas[:-1], sigmas[1:], strict=True):
        latents[:, :, :count] = known

        def velocity(windows, masks, now=now):
            return model.transformer(
                torch.cat([latents, condition], 1), now[None] * 1000, text, image, windows, masks,
                return_dict=False,
            )[0]  # fmt: skip

        v = velocity(audio, masks)
        if sampling.audio_scale != 1:
            silent = velocity(torch.zeros_like(audio[:, :1]), None)
            v = silent + sampling.audio_scale * (v - silent)
        latents = latents + (following - now) * v
    latents[:, :, :count] = known
    return latents

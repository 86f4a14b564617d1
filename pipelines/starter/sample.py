"""A small batched sampler for quick looks and for the judge: many clips at once on a CPU.

People's takes are made by pipelines/skyreels_v2/; this one uses the same windows, noise levels and
guidance, but draws the noise of all clips from one generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .forcing import CHUNK, shifted
from .text import encode_prompts

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class SampleSettings:
    """Latent frames of a segment and of its repeated start; steps and guidance of the sampler.

    `chunkwise` finishes one chunk before the next begins; otherwise all new chunks of a segment
    are denoised together.
    """

    segments: int = 4
    segment_latents: int = 9
    history_latents: int = 3
    steps: int = 20
    guidance_scale: float = 3.0
    chunkwise: bool = False


@dataclass(frozen=True)
class Starter:
    """The components of a checkpoint, in fp32 on one device."""

    transformer: Any
    text_encoder: Any
    tokenizer: Any
    codec: Any
    device: str = "cpu"


def load_starter(folder: Path, device: str = "cpu") -> Starter:
    """Load a checkpoint folder; raises OSError when a part is missing."""
    import torch
    from diffusers import SkyReelsV2Transformer3DModel
    from transformers import AutoTokenizer, UMT5EncoderModel

    from .codec import FrameStackCodec

    def load(cls, name):
        model = cls.from_pretrained(folder / name, torch_dtype=torch.float32)
        return model.eval().requires_grad_(False).to(device)

    return Starter(
        transformer=load(SkyReelsV2Transformer3DModel, "transformer"),
        text_encoder=load(UMT5EncoderModel, "text_encoder"),
        tokenizer=AutoTokenizer.from_pretrained(folder / "tokenizer"),
        codec=load(FrameStackCodec, "vae"),
        device=device,
    )


def sample_clips(
    starter: Starter, prompts: list[str], settings: SampleSettings, seed: int = 0
) -> np.ndarray:
    """Prompts -> uint8 clips [B, F + (S - 1) stride, H, W, 3]."""
    return decode_clips(starter, sample_latents(starter, prompts, settings, seed))


def sample_latents(
    starter: Starter, prompts: list[str], settings: SampleSettings, seed: int = 0
) -> torch.Tensor:
    """Prompts -> normalised latents [B, C, T, h, w] of the whole chain of segments."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        embeds = encode_prompts(starter.tokenizer, starter.text_encoder, prompts)
        nothing = encode_prompts(starter.tokenizer, starter.text_encoder, [""] * len(prompts))
        channels = starter.transformer.config.in_channels
        latents = torch.zeros(len(prompts), channels, 0, 8, 12)
        for _ in range(settings.segments):
            history = latents[:, :, max(0, latents.shape[2] - settings.history_latents) :]
            new = settings.segment_latents - history.shape[2]
            for count in [CHUNK] * (new // CHUNK) if settings.chunkwise else [new]:
                # earlier chunks of this segment are clean history for the next ones
                noise = torch.randn(len(prompts), channels, count, 8, 12, generator=generator)
                fresh = _denoise(starter, history, noise, embeds, nothing, settings)
                history = torch.cat([history, fresh], 2)
                latents = torch.cat([latents, fresh], 2)
    return latents


def _denoise(starter, history, noise, embeds, nothing, settings):
    """Integrate the velocity from sigma 1 to 0 with Euler steps; history stays clean."""
    import torch

    sigmas = shifted(torch.linspace(1, 0, settings.steps + 1))
    batch, known, x = len(noise), history.shape[2], noise
    conditions = torch.cat([embeds, nothing]) if settings.guidance_scale != 1 else embeds
    copies = len(conditions) // batch
    for sigma, following in pairwise(sigmas.tolist()):
        window = torch.cat([history, x], 2)
        timestep = torch.zeros(batch, window.shape[2])
        timestep[:, known:] = sigma * 1000
        velocity = starter.transformer(
            torch.cat([window] * copies).to(starter.device),
            torch.cat([timestep] * copies).to(starter.device),
            conditions,
            enable_diffusion_forcing=True,
            return_dict=False,
        )[0].cpu()[:, :, known:]
        if copies == 2:
            asked, free = velocity.chunk(2)
            velocity = free + settings.guidance_scale * (asked - free)
        x = x + (following - sigma) * velocity
    return x


def decode_clips(starter: Starter, latents: torch.Tensor) -> np.ndarray:
    """Normalised latents [B, C, T, h, w] -> uint8 [B, 1 + 4 (T - 1), H, W, 3]."""
    import torch

    config = starter.codec.config
    mean = torch.tensor(config.latents_mean).view(1, -1, 1, 1, 1)
    std = torch.tensor(config.latents_std).view(1, -1, 1, 1, 1)
    clips = []
    with torch.no_grad():
        for z in latents.split(1):
            video = starter.codec.decode((z * std + mean).to(starter.device)).sample
            clips.append(((video[0] + 1) * 127.5).round().byte().permute(1, 2, 3, 0).cpu().numpy())
    return np.stack(clips)


def contact_sheet(clips: np.ndarray, columns: int = 9) -> np.ndarray:
    """Clips [B, T, H, W, 3] -> one picture, a row for each clip, frames evenly spaced."""
    picks = np.linspace(0, clips.shape[1] - 1, columns).round().astype(int)
    return np.concatenate([np.concatenate(list(clip[picks]), axis=1) for clip in clips])

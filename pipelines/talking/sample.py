"""The segment loop in its plainest form, to look at a transformer while it trains.

What people run is pipelines/infinitetalk/, which does the same with all its options.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .batches import FLOW_SHIFT, condition_of
from .parts import embed_images
from .shards import MOTION, SEGMENT

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sampling:
    """Euler steps, and how far from silence the voice is taken (1: one forward a step)."""

    steps: int = 8
    audio_scale: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Model:
    """The parts of a checkpoint that the loop needs, and the statistics of its codec."""

    transformer: Any
    codec: Any
    image_encoder: Any
    ear: Any
    constants: Any


def load_model(folder: Path) -> Model:
    """The parts of a checkpoint folder in fp32."""
    import torch
    from transformers import AutoTokenizer, CLIPVisionModel, UMT5EncoderModel, Wav2Vec2Model

    from pipelines.infinitetalk.transformer import InfiniteTalkTransformer3DModel

    from .codec import PatchCodec
    from .trainer import constants_of

    codec = PatchCodec.from_pretrained(folder / "vae", torch_dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    transformer = InfiniteTalkTransformer3DModel.from_pretrained(
        folder / "transformer", torch_dtype=torch.float32
    )
    text_encoder, image_encoder, ear = (
        kind.from_pretrained(folder / name, dtype=torch.float32).eval()
        for kind, name in (
            (UMT5EncoderModel, "text_encoder"),
            (CLIPVisionModel, "image_encoder"),
            (Wav2Vec2Model, "audio_encoder"),
        )
    )
    constants = constants_of(codec, tokenizer, text_encoder)
    return Model(transformer.eval(), codec, image_encoder, ear, constants)


def through_codec(codec: Any, frames: np.ndarray) -> np.ndarray:
    """uint8 frames [1 + 4k, H, W, 3] as the codec returns them: the best that can be generated."""
    import torch

    video = torch.from_numpy(frames).permute(3, 0, 1, 2)[None].float() / 127.5 - 1
    with torch.inference_mode():
        return _to_uint8(codec.decode(codec.encode(video).latent_dist.mode()).sample)


def _to_uint8(video: torch.Tensor) -> np.ndarray:
    frames = video[0].permute(1, 2, 3, 0)
    return ((frames + 1) * 127.5).round().clamp(0, 255).byte().numpy()


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
    return _to_uint8(video[:, :, :frames])


def _denoise(model, known, condition, audio, masks, text, image, sampling, generator):
    import torch

    from pipelines.infinitetalk.denoise import timesteps_of

    count = known.shape[2]
    shape = (1, known.shape[1], condition.shape[2], *known.shape[-2:])
    latents = torch.randn(shape, generator=generator)
    timesteps = timesteps_of(sampling.steps, FLOW_SHIFT)
    for now, following in itertools.pairwise(timesteps):
        latents[:, :, :count] = known
        inputs = (torch.cat([latents, condition], 1), now[None], text, image)
        velocity = model.transformer(*inputs, audio, masks, return_dict=False)[0]
        if sampling.audio_scale != 1:
            silent = model.transformer(*inputs, torch.zeros_like(audio[:, :1]), return_dict=False)
            velocity = silent[0] + sampling.audio_scale * (velocity - silent[0])
        latents = latents + (following - now) / 1000 * velocity
    latents[:, :, :count] = known
    return latents

"""What a segment sees of the reference: the picture, or that of a video when the segment begins."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pipelines.base import Tensors
from pipelines.infinitetalk.codec import VaeCodec
from pipelines.infinitetalk.encoders import condition_of, latents_of


@dataclass(frozen=True)
class Seen:
    """Of segment i."""

    first_pixels: torch.Tensor
    """uint8 `[H, W, 3]` of the first segment: its colours are held throughout, as published."""
    latents: torch.Tensor | None
    """`[1, C, 1, h, w]` that the first segment starts from."""
    condition: torch.Tensor
    """`[1, C, T, h, w]`"""
    clip: torch.Tensor | None
    """`[1, tokens, dim]`"""


def is_film(inputs: Tensors) -> bool:
    """Whether there is a picture for each segment, which is still to be encoded."""
    return inputs["image_pixels"].dim() == 4


def seen_in(inputs: Tensors, i: int, frames: int, codec: VaeCodec) -> Seen:
    """From encoder outputs: those of a picture as they are; of a video the picture of segment i,
    which the codec encodes now."""
    pixels, clip = inputs["image_pixels"], inputs.get("image_clip")
    if not is_film(inputs):
        return Seen(pixels, inputs["image_latents"], inputs["image_condition"], clip)
    return Seen(
        pixels[0],
        latents_of(pixels[0], codec) if i == 0 else None,
        condition_of(pixels[i], frames, codec),
        None if clip is None else clip[i : i + 1],
    )

"""Encode: the picture for CLIP and for the codec, a voice, and where persons are. Prompts are
encoded as for SkyReels-V2."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipelines.base import Request, Tensors
from pipelines.images import read_whole_image
from pipelines.infinitetalk.codec import VaeCodec
from pipelines.infinitetalk.persons import check_masks, halves, parse_faces, person_masks
from pipelines.infinitetalk.sizes import Size, fit_picture, picture_size
from pipelines.infinitetalk.sound import read_voice
from pipelines.infinitetalk.speech import embed_voice

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
CLIP_SIZE = 224
"""For a checkpoint that has no image_processor."""


def encode_picture(
    path: Path,
    size: Size,
    frames: int,
    codec: VaeCodec,
    image_encoder: torch.nn.Module | None,
    processor: Mapping[str, Any],
) -> Tensors:
    """On the CPU: `pixels` uint8 `[H, W, 3]`; `latents` `[1, C, 1, h, w]` of the picture alone;
    `condition` `[1, C, T, h, w]` of a video that begins with it and goes on in gray; and `clip`
    `[1, tokens, dim]` where there is an `image_encoder`."""
    pixels = fit_picture(read_whole_image(path), size)
    picture = as_video(pixels)
    gray = torch.zeros(1, 3, frames - 1, *size)
    outputs = {
        "pixels": pixels,
        "latents": codec.encode(picture).cpu(),
        "condition": codec.encode(torch.cat((picture, gray), dim=2)).cpu(),
    }
    if image_encoder is not None:
        outputs["clip"] = see_picture(image_encoder, picture[:, :, 0], processor).cpu()
    return outputs


def as_video(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 `[H, W, 3]` as fp32 `[1, 3, 1, H, W]` in -1..1."""
    return (pixels.permute(2, 0, 1)[None, :, None].float() / 255 - 0.5) * 2


def see_picture(
    image_encoder: torch.nn.Module, picture: torch.Tensor, processor: Mapping[str, Any]
) -> torch.Tensor:
    """fp32 `[1, tokens, dim]`: the last layer but one of CLIP. `picture` `[1, 3, H, W]` in -1..1 is
    pressed into the square that CLIP takes, as in the published code, not cropped to it."""
    parameter = next(image_encoder.parameters())
    side = _side(processor)
    shape = (1, 3, 1, 1)
    mean = torch.tensor(processor.get("image_mean", CLIP_MEAN)).view(shape)
    std = torch.tensor(processor.get("image_std", CLIP_STD)).view(shape)
    square = torch.nn.functional.interpolate(
        picture, size=(side, side), mode="bicubic", align_corners=False
    )
    pixels = ((square / 2 + 0.5) - mean) / std
    pixels = pixels.to(parameter.device, parameter.dtype)
    return image_encoder(pixels, output_hidden_states=True).hidden_states[-2].float()


def encode_voice(
    path: Path, field: str, samples: int, fps: int, encoder: torch.nn.Module, do_normalize: bool
) -> Tensors:
    """`embeds` fp32 `[T, layers, hidden]` of a voice, silent from its end up to `samples`."""
    voice = read_voice(path, field)
    voice = np.pad(voice, (0, samples - len(voice)))
    return {"embeds": embed_voice(encoder, voice, fps, do_normalize)}


def encode_faces(recipe: Request, size: Size, spatial_factor: int) -> Tensors:
    """`masks` uint8 `[3, h, w]` of two persons and the rest; without boxes, the halves of the
    picture."""
    picture = picture_size(Path(recipe.image))
    boxes = parse_faces(recipe.faces, picture, 2) or halves(picture)
    masks = person_masks(boxes, picture, size, spatial_factor)
    check_masks(masks, recipe.faces)
    return {"masks": masks}


def _side(processor: Mapping[str, Any]) -> int:
    for name in ("crop_size", "size"):
        value = processor.get(name)
        if isinstance(value, Mapping):
            value = value.get("height", value.get("shortest_edge"))
        if value:
            return int(value)
    return CLIP_SIZE

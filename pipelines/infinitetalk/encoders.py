"""Encode: the picture for CLIP and for the codec, a voice, and where persons are. Prompts are
encoded as for SkyReels-V2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipelines.base import Request, Tensors
from pipelines.images import read_whole_image
from pipelines.infinitetalk.codec import VaeCodec
from pipelines.infinitetalk.persons import check_tokens, person_masks, where_persons_are
from pipelines.infinitetalk.reference import read_references, reference_size
from pipelines.infinitetalk.sizes import Size, fit_picture
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
    """On the CPU: `pixels` uint8 `[H, W, 3]`; `latents` and `condition` as they begin a segment
    (see `latents_of` and `condition_of`); and `clip` `[1, tokens, dim]` where there is an
    `image_encoder`."""
    pixels = fit_picture(read_whole_image(path), size)
    outputs = {
        "pixels": pixels,
        "latents": latents_of(pixels, codec).cpu(),
        "condition": condition_of(pixels, frames, codec).cpu(),
    }
    if image_encoder is not None:
        outputs["clip"] = see_picture(image_encoder, as_video(pixels)[:, :, 0], processor).cpu()
    return outputs


def encode_film(
    path: Path,
    size: Size,
    times: Sequence[Fraction],
    image_encoder: torch.nn.Module | None,
    processor: Mapping[str, Any],
) -> Tensors:
    """Of a video, on the CPU, for each of S segments what is seen when it begins (`times`, in
    seconds): `pixels` uint8 `[S, H, W, 3]`, and `clip` `[S, tokens, dim]` where there is an
    `image_encoder`. What the codec makes of them is as large as a segment, and left to it."""
    outputs = {"pixels": torch.empty(len(times), *size, 3, dtype=torch.uint8)}
    for i, picture in enumerate(read_references(path, times)):
        outputs["pixels"][i] = fit_picture(picture, size)
        if image_encoder is None:
            continue
        clip = see_picture(image_encoder, as_video(outputs["pixels"][i])[:, :, 0], processor)
        if i == 0:
            outputs["clip"] = torch.empty(len(times), *clip.shape[1:])
        outputs["clip"][i] = clip[0].cpu()
    return outputs


def latents_of(pixels: torch.Tensor, codec: VaeCodec) -> torch.Tensor:
    """`[1, C, 1, h, w]` of a picture `[H, W, 3]` alone: what the first segment starts from."""
    return codec.encode(as_video(pixels))


def condition_of(pixels: torch.Tensor, frames: int, codec: VaeCodec) -> torch.Tensor:
    """`[1, C, T, h, w]` of a video that begins with a picture `[H, W, 3]` and goes on in gray."""
    gray = torch.zeros(1, 3, frames - 1, *pixels.shape[:2])
    return codec.encode(torch.cat((as_video(pixels), gray), dim=2))


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
    """`masks` uint8 `[3, h, w]` of two persons and the rest."""
    planes = where_persons_are(recipe, reference_size(Path(recipe.image)))
    masks = person_masks(planes, size, spatial_factor)
    check_tokens(masks, recipe)
    return {"masks": masks}


def _side(processor: Mapping[str, Any]) -> int:
    for name in ("crop_size", "size"):
        value = processor.get(name)
        if isinstance(value, Mapping):
            value = value.get("height", value.get("shortest_edge"))
        if value:
            return int(value)
    return CLIP_SIZE

"""Teaches the starter's codec faces: what CodecTrainer needs to know of them, and a measure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from pipelines.starter.codec import FRAMES_PER_LATENT, FrameStackCodec, stack_frames
from pipelines.starter.codec_training import Stacks, to_float

from .scenes import random_scene

CLIP = 33  # frames


def draw_face_stacks(clips: int, frames: int, seed: int) -> Stacks:
    """Stacks of random scenes; the box of each is the mouth of one of its people."""
    rng = np.random.default_rng(seed)
    pixels, boxes = [], []
    for k in range(clips):
        scene = random_scene(rng, (frames + 1) / 25, people=1 + k % 2)
        video = torch.from_numpy(scene.draw(np.arange(frames))).permute(3, 0, 1, 2)[None]
        stacks = stack_frames(video)
        choice = rng.integers(len(scene.faces), size=len(stacks))
        pixels.append(stacks)
        boxes.append(np.array([scene.faces[i].mouth_box for i in choice], np.float32))
    return Stacks(torch.cat(pixels), np.concatenate(boxes))


@dataclass(frozen=True)
class Fidelity:
    """Decibels of new scenes after the codec: of whole frames, and inside the mouths' boxes."""

    whole: float
    mouth: float


def fidelity(codec: FrameStackCodec, clips: int, seed: int) -> Fidelity:
    """Measure the codec on newly drawn clips of 33 frames."""
    rng = np.random.default_rng(seed)
    whole, mouths = [], []
    for k in range(clips):
        scene = random_scene(rng, 2.0, people=1 + k % 2)
        frames = torch.from_numpy(scene.draw(np.arange(CLIP)))
        true = to_float(frames).permute(3, 0, 1, 2)[None]
        with torch.inference_mode():
            decoded = codec.decode(codec.encode(true).latent_dist.mode()).sample
        square = (decoded - true).pow(2)[0].mean(0)
        whole.append(square.mean().item())
        for face in scene.faces:
            x0, y0, x1, y1 = (int(edge) for edge in face.mouth_box)
            mouths.append(square[:, y0:y1, x0:x1].mean().item())
    return Fidelity(*(10 * math.log10(4 / np.mean(errors)) for errors in (whole, mouths)))


def new_codec() -> FrameStackCodec:
    """An untrained codec; the four frames of a stack are as the network gives them, since mouths
    move faster than once a stack."""
    return FrameStackCodec(detail_width=256, motion_gain=0.0)


__all__ = ["FRAMES_PER_LATENT", "Fidelity", "draw_face_stacks", "fidelity", "new_codec"]

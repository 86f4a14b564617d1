"""Training clips on disk: drawn and encoded once, kept as shards of latents.

A shard is a safetensors file; more may appear while training runs, and training picks them up.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .codec import FRAMES_PER_LATENT
from .dataset import (
    ACTORS,
    COLOURS,
    DIRECTIONS,
    LANDS,
    TIMES,
    Scene,
    draw_clip,
    random_scene,
)

if TYPE_CHECKING:
    from .codec import FrameStackCodec

ATTRIBUTES = {
    "land": LANDS,
    "time": TIMES,
    "actor": ACTORS,
    "colour": tuple(COLOURS),
    "direction": DIRECTIONS,
}
CELL = 8


def scene_to_row(scene: Scene) -> list[int]:
    """Five indices, in the order of ATTRIBUTES."""
    return [values.index(getattr(scene, name)) for name, values in ATTRIBUTES.items()]


def row_to_scene(row) -> Scene:
    """The inverse of scene_to_row."""
    return Scene(*(values[int(i)] for i, values in zip(row, ATTRIBUTES.values(), strict=True)))


def actor_cells(boxes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Boxes [1 + 4k, 4] in pixels -> uint8 [1 + k, height / 8, width / 8], 1 where the actor is."""
    boxes = np.concatenate([boxes[:1].repeat(FRAMES_PER_LATENT - 1, 0), boxes])
    groups = boxes.reshape(-1, FRAMES_PER_LATENT, 4)
    lows, highs = groups[:, :, :2].min(1) / CELL, groups[:, :, 2:].max(1) / CELL
    y, x = np.mgrid[: height // CELL, : width // CELL] + 0.5
    margin = 0.35  # a cell counts when the box reaches a good way into it
    inside = (x > lows[:, 0, None, None] - margin) & (x < highs[:, 0, None, None] + margin)
    inside &= (y > lows[:, 1, None, None] - margin) & (y < highs[:, 1, None, None] + margin)
    return inside.astype(np.uint8)


def write_shard(path: Path, codec: FrameStackCodec, clips: int, frames: int, seed: int) -> None:
    """Draw `clips` clips of `frames` frames, encode them, and write the shard by rename."""
    import torch
    from safetensors.torch import save_file

    rng = np.random.default_rng(seed)
    latents, cells, rows = [], [], []
    for _ in range(clips):
        clip = draw_clip(random_scene(rng), frames, rng)
        video = torch.from_numpy(clip.frames).permute(3, 0, 1, 2)[None].float() / 127.5 - 1
        with torch.inference_mode():
            latents.append(codec.encode(video).latent_dist.mode()[0].half())
        cells.append(torch.from_numpy(actor_cells(clip.boxes, *clip.frames.shape[1:3])))
        rows.append(torch.tensor(scene_to_row(clip.scene), dtype=torch.int8))
    tensors = {"latents": latents, "cells": cells, "scenes": rows}
    partial = path.with_suffix(".partial")
    save_file({k: torch.stack(v).contiguous() for k, v in tensors.items()}, partial)
    partial.rename(path)


def load_shards(folder: Path, frames: int) -> dict:
    """All shards of clips of `frames` frames: latents [N, C, T, h, w], cells, scenes."""
    import torch
    from safetensors.torch import load_file

    parts = [load_file(path) for path in sorted(folder.glob(f"clips_{frames:03d}_*.safetensors"))]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}

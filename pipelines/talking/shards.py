"""Training samples on disk: a segment of a drawn scene, all that it is conditioned on, encoded.

A shard is a safetensors file; more may appear while training runs, and training picks them up.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .faces import FPS, HEIGHT, WIDTH
from .hearing import hear
from .scenes import LIVELINESS, Scene, random_scene
from .voices import normalised

if TYPE_CHECKING:
    import torch
    from transformers import Wav2Vec2Model

    from .codec import PatchCodec

SEGMENT, MOTION = 33, 9  # frames of a segment, and how many of them repeat the one before
CELL = 8
MARGIN = 2  # features kept before and after the segment
MOODS = tuple(LIVELINESS)


def write_shard(
    path: Path, codec: PatchCodec, ear: Wav2Vec2Model, scenes: int, people: int, seed: int
) -> None:
    """Draw `scenes` of `people`, encode two segments of each, write the shard by rename."""
    import torch
    from safetensors.torch import save_file

    rng = np.random.default_rng([people, seed])
    samples = [s for _ in range(scenes) for s in _samples(codec, ear, people, rng)]
    tensors = {k: torch.stack([sample[k] for sample in samples]) for k in samples[0]}
    partial = path.with_suffix(".partial")
    save_file({k: v.contiguous() for k, v in tensors.items()}, partial)
    partial.rename(path)


def load_shards(folder: Path, people: int) -> dict[str, torch.Tensor]:
    """All shards of `people`, joined: the tensors of `_samples` with N in front; {} if none."""
    import torch
    from safetensors.torch import load_file

    parts = [load_file(path) for path in sorted(folder.glob(f"people_{people}_*.safetensors"))]
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _samples(codec, ear, people: int, rng) -> list[dict[str, torch.Tensor]]:
    """Two segments of one video, its first and a later one.

    Each: latents [C, 9, h, w]; reference [C, 1, h, w], the video's first frame; features [P, 37,
    layers, channels]; mouths and eyes [h, w]; boxes [P, 4] of the faces in pixels; first and mood,
    scalars.
    """
    import torch

    start = int(rng.integers(8, 90))
    tail = int(rng.integers(0, 40))  # the voice goes on, since the ear hears all of it
    scene = random_scene(rng, (start + SEGMENT + tail) / FPS, people)
    starts = (0, start)
    frames = scene.draw(np.concatenate([np.arange(k, k + SEGMENT) for k in starts]))
    video = torch.from_numpy(frames).unflatten(0, (2, SEGMENT)).permute(0, 4, 1, 2, 3)
    with torch.inference_mode():
        latents = codec.encode(video.float() / 127.5 - 1).latent_dist.mode().half()
        heard = [_hear(ear, scene, wave) for wave in scene.waves]
    features = torch.stack([torch.stack([_cut(part, k) for part in heard]) for k in starts])
    shared = {
        "reference": latents[0, :, :1],
        "mouths": share_of_cells(face.mouth_box for face in scene.faces),
        "eyes": share_of_cells(face.eyes_box for face in scene.faces),
        "boxes": torch.tensor([_face_box(face) for face in scene.faces]),
        "mood": torch.tensor(MOODS.index(scene.mood)),
    }
    return [
        {**shared, "latents": z, "features": f.half(), "first": torch.tensor(first)}
        for z, f, first in zip(latents, features, (True, False), strict=True)
    ]


def _hear(ear, scene: Scene, wave: np.ndarray) -> torch.Tensor:
    import torch

    sound = torch.from_numpy(normalised(wave)).float()[None]
    return hear(ear, sound, scene.num_frames)[0]


def _cut(features: torch.Tensor, start: int) -> torch.Tensor:
    import torch

    wanted = torch.arange(start - MARGIN, start + SEGMENT + MARGIN)
    return features[wanted.clamp(0, len(features) - 1)]


def share_of_cells(boxes: Iterable[tuple[float, float, float, float]]) -> torch.Tensor:
    """float16 [h, w]: how much of each cell lies in one of the boxes, x0, y0, x1, y1 in pixels."""
    import torch

    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    inside = np.zeros((HEIGHT, WIDTH), np.float32)
    for x0, y0, x1, y1 in boxes:
        inside[(x > x0) & (x < x1) & (y > y0) & (y < y1)] = 1
    cells = inside.reshape(HEIGHT // CELL, CELL, WIDTH // CELL, CELL).mean((1, 3))
    return torch.from_numpy(cells).half()


def _face_box(face) -> tuple[float, float, float, float]:
    reach, above, below = 20 * face.scale, 24 * face.scale, 27 * face.scale
    return (
        max(0.0, face.x - reach),
        max(0.0, face.y - above),
        min(float(WIDTH), face.x + reach),
        min(float(HEIGHT), face.y + below),
    )

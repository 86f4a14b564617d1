"""Settings to start from with a checkpoint that the catalogue does not know, from its configs."""

from __future__ import annotations

from typing import Any

from pipelines.base import Task
from pipelines.skyreels_v2.checkpoint import Checkpoint
from pipelines.skyreels_v2.plan import frames_fit

WIDTH, HEIGHT, FRAMES, OVERLAP = 960, 544, 97, 17
"""Of the released 540P models; made smaller until the checkpoint can hold them."""


def tasks(checkpoint: Checkpoint) -> tuple[Task, ...]:
    """A model trained in causal blocks cannot keep a picture: it is less than a block."""
    causal = checkpoint.config("transformer").get("num_frame_per_block", 1) > 1
    return (Task.T2V,) if causal else (Task.T2V, Task.I2V)


def defaults(checkpoint: Checkpoint) -> dict[str, Any]:
    """Recipe fields. What model_index.json holds under `defaults` comes before what is derived."""
    config = checkpoint.config("transformer")
    block, factor = config.get("num_frame_per_block", 1), checkpoint.temporal_factor
    patch, longest = config.get("patch_size", (1, 2, 2)), config.get("rope_max_seq_len", 1024)
    most_frames = min(FRAMES, (longest * patch[0] - 1) * factor + 1)
    frames = _largest(most_frames, factor, block)
    settings = {
        "width": _side(WIDTH, checkpoint.spatial_factor * patch[2], longest),
        "height": _side(HEIGHT, checkpoint.spatial_factor * patch[1], longest),
        "fps": 24,
        "frames": frames,
        "overlap": _largest(min(OVERLAP, frames - 1), factor, block),
        "segments": 1,
        "steps": 30,
        "guidance_scale": 6.0,
        "shift": float(checkpoint.config("scheduler").get("flow_shift") or 8.0),
        "ar_step": 0,
        "causal_block": block,
        "condition_noise": 20,
    }
    return settings | {k: v for k, v in checkpoint.index.get("defaults", {}).items()}


def _side(wanted: int, unit: int, longest: int) -> int:
    return min(wanted // unit, longest) * unit


def _largest(most: int, factor: int, block: int) -> int:
    """The most frames that fill their blocks, at most `most` where that is possible."""
    least = (block - 1) * factor + 1
    return next((n for n in range(most, 0, -1) if frames_fit(n, factor, block)), least)

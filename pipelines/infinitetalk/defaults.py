"""Settings to start from: those of the published command line, made to fit small checkpoints."""

from __future__ import annotations

from typing import Any

from pipelines.infinitetalk.checkpoint import Checkpoint
from pipelines.infinitetalk.plan import APG, AUDIO_SCALE, COLOURS, TEXT_SCALE

FRAMES, OVERLAP, FPS = 81, 9, 25
AS_LONG_AS_THE_VOICE = 1000
"""Segments at most."""

EXTRAS = (
    *("audio_2", "faces", "masks", "audio_scale", "color_correction", "apg"),
    *("loras", "weights", "offload", "tiling"),
)
"""Recipe fields that other models do not look at."""

NEGATIVE_PROMPT = (
    "bright tones, overexposed, static, blurred details, subtitles, style, works, paintings, "
    "images, overall gray, worst quality, low quality, JPEG compression residue, ugly, "
    "incomplete, extra fingers, poorly drawn hands, poorly drawn faces, deformed, disfigured, "
    "misshapen limbs, fused fingers, still picture, messy background, three legs, many people in "
    "the background, walking backwards"
)
"""What the published weights are told to avoid where nobody says anything else."""

PUBLISHED = {
    "width": 640,
    "height": 640,
    "fps": FPS,
    "frames": FRAMES,
    "overlap": OVERLAP,
    "segments": AS_LONG_AS_THE_VOICE,
    "steps": 40,
    "guidance_scale": TEXT_SCALE,
    "audio_scale": AUDIO_SCALE,
    "shift": 7.0,
    "color_correction": COLOURS,
    "apg": APG,
    "audio_2": None,
    "faces": "",
    "weights": "auto",
    "offload": "auto",
    "tiling": "auto",
}


def defaults(checkpoint: Checkpoint) -> dict[str, Any]:
    """Recipe fields. What model_index.json holds under `defaults` comes before what is derived."""
    longest = checkpoint.config("transformer").get("rope_max_seq_len", 1024)
    frames = min(FRAMES, (longest - 1) * checkpoint.temporal_factor + 1)
    settings = {**PUBLISHED, "frames": frames, "overlap": min(OVERLAP, frames - 4)}
    return settings | dict(checkpoint.index.get("defaults", {}))

"""What results depend on: all that has to go into a key, and nothing that must not.

Files stand as paths: whoever makes a key hashes their content. Imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path

from pipelines import images
from pipelines.base import Fields, Request
from pipelines.skyreels_v2.checkpoint import Checkpoint
from pipelines.text import clean_prompt
from pipelines.versions import versions

VAE_DTYPE = "float32"
"""On any device: the codec is small, and half precision shows in smooth gradients."""

ENCODING = 1
GENERATION = 1
"""Count up when the same inputs give other numbers because this package changed."""

SEGMENT_FIELDS = (
    "width",
    "height",
    "fps",
    "frames",
    "overlap",
    "steps",
    "guidance_scale",
    "shift",
    "ar_step",
    "causal_block",
    "condition_noise",
)
"""The fields of a recipe that every segment depends on. The number of segments is none of them."""


def encoder_inputs(
    recipe: Request, checkpoint: Checkpoint, dtype: str, device: str
) -> dict[str, Fields]:
    """The negative prompt is always encoded, so the strength of the guidance is no part of it. The
    size of the video is part of it only where a picture is cut to it."""
    folder = checkpoint.folder
    common: Fields = {"family": "skyreels_v2", "encoding": ENCODING}
    text: Fields = {
        **common,
        "max_sequence_length": checkpoint.max_sequence_length,
        "tokenizer": folder / "tokenizer",
        "text_encoder": folder / "text_encoder",
        "text_dtype": dtype,
        **versions(device, "torch", "transformers"),
    }
    # Both prompts go by one name in the key: the same words are encoded once.
    parts = {
        name: {**text, "text": clean_prompt(getattr(recipe, name))}
        for name in ("prompt", "negative_prompt")
    }
    if recipe.image is not None:
        parts["image"] = {
            **common,
            "image": Path(recipe.image),
            "image_width": recipe.width,
            "image_height": recipe.height,
            "image_fit": images.FIT,
            "vae": folder / "vae",
            "vae_dtype": VAE_DTYPE,
            **versions(device, "torch", "diffusers", "pillow"),
        }
    return parts


def segment_inputs(recipe: Request, checkpoint: Checkpoint, dtype: str, device: str) -> Fields:
    folder = checkpoint.folder
    return {
        "family": "skyreels_v2",
        "generation": GENERATION,
        **{name: getattr(recipe, name) for name in SEGMENT_FIELDS},
        "transformer": folder / "transformer",
        "scheduler": folder / "scheduler",
        "vae": folder / "vae",
        "dtype": dtype,
        "vae_dtype": VAE_DTYPE,
        **versions(device, "torch", "diffusers"),
    }

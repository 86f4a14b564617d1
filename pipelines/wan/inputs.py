"""What results depend on: all that has to go into a key, and nothing that must not.

Files stand as paths: whoever makes a key hashes their content. Imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path

from pipelines import images
from pipelines.base import Fields, Request
from pipelines.text import clean_prompt
from pipelines.versions import image_backend, versions
from pipelines.wan.checkpoint import Checkpoint

FAMILY = "wan"
ENCODING = 1
GENERATION = 1
"""Count up when the same inputs give other numbers because this package changed."""

MAX_SEQUENCE_LENGTH = 512
"""Tokens that prompts are padded to, as `__call__` of diffusers does by default; `encode_prompt`
has another default."""
SMALL_DTYPE = "float32"
"""Of the codec and the CLIP encoder on any device: they are small, and half precision shows."""

PICTURES = ("image", "last_image")
CONDITION = "condition"

SEGMENT_FIELDS = ("width", "height", "fps", "frames", "steps", "guidance_scale", "shift")


def encoder_inputs(
    recipe: Request, checkpoint: Checkpoint, dtype: str, device: str, tiled: bool
) -> dict[str, Fields]:
    """The prompts; each picture as CLIP sees it; and the pictures as the codec does, all in one,
    since it encodes them as one video."""
    folder = checkpoint.folder
    common: Fields = {"family": FAMILY, "encoding": ENCODING}
    text: Fields = {
        **common,
        "max_sequence_length": MAX_SEQUENCE_LENGTH,
        "tokenizer": folder / "tokenizer",
        "text_encoder": folder / "text_encoder",
        "text_dtype": dtype,
        "text_weights": "full",
        **versions(device, "torch", "diffusers", "transformers", "tokenizers", "ftfy"),
    }
    # Both prompts go by one name in the key: the same words are encoded once.
    parts = {
        name: {**text, "text": clean_prompt(getattr(recipe, name))}
        for name in ("prompt", "negative_prompt")
    }
    given = [name for name in PICTURES if getattr(recipe, name) is not None]
    if not given:
        return parts
    fitted: Fields = {
        "image_width": recipe.width,
        "image_height": recipe.height,
        "image_fit": images.FIT,
    }
    if checkpoint.looks_at_image:
        for name in given:
            parts[name] = {
                **common,
                **fitted,
                "picture": Path(getattr(recipe, name)),
                "image_encoder": folder / "image_encoder",
                "image_processor": folder / "image_processor",
                "image_backend": image_backend(),
                "image_dtype": SMALL_DTYPE,
                **versions(device, "torch", "diffusers", "transformers", "pillow"),
            }
    parts[CONDITION] = {
        **common,
        **fitted,
        **{name: Path(getattr(recipe, name)) for name in given},
        # The frames between the pictures are encoded with them, as grey ones.
        "frames": 1 if checkpoint.two_in_one else recipe.frames,
        "vae": folder / "vae",
        "vae_dtype": SMALL_DTYPE,
        "tiling": tiled,
        **versions(device, "torch", "diffusers", "pillow"),
    }
    return parts


def segment_inputs(
    recipe: Request, checkpoint: Checkpoint, dtype: str, device: str, tiled: bool
) -> Fields:
    folder = checkpoint.folder
    fields: Fields = {
        "family": FAMILY,
        "generation": GENERATION,
        **{name: getattr(recipe, name) for name in SEGMENT_FIELDS},
        "scheduler": folder / "scheduler",
        "vae": folder / "vae",
        "dtype": dtype,
        "vae_dtype": SMALL_DTYPE,
        "tiling": tiled,
        "expand_timesteps": checkpoint.two_in_one,
        **versions(device, "torch", "diffusers"),
    }
    if checkpoint.boundary is not None:
        second = recipe.guidance_scale_2
        fields |= {
            "boundary_ratio": checkpoint.boundary,
            "guidance_scale_2": recipe.guidance_scale if second is None else second,
        }
    return fields

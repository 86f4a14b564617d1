"""What results depend on: all that has to go into a key, and nothing that must not.

Files stand as paths: whoever makes a key hashes their content. Imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path

from pipelines import images
from pipelines.base import Fields, Request
from pipelines.qwen_image.checkpoint import Checkpoint
from pipelines.versions import image_backend, versions

FAMILY = "qwen_image"
ENCODING = 1
GENERATION = 1
"""Count up when the same inputs give other numbers because this package changed."""

MROPE = "positions of pictures told to the text encoder"
"""Names the mend in `encoder.tell_positions`: without it a picture gives other embeddings."""

SEGMENT_FIELDS = ("width", "height", "fps", "frames", "steps", "guidance_scale")


def pictures(recipe: Request) -> dict[str, Path]:
    """Part -> picture, in the order in which the model sees them."""
    if recipe.image is None:
        return {}
    further = {f"reference_{n}": Path(p) for n, p in enumerate(recipe.references or (), 1)}
    return {"image": Path(recipe.image), **further}


def negative_prompt(recipe: Request) -> str:
    """Empty, it is the one space that the model's authors use."""
    return recipe.negative_prompt or " "


def encoder_inputs(
    recipe: Request, checkpoint: Checkpoint, dtype: str, device: str, tiled: bool
) -> dict[str, Fields]:
    """The prompts, which an editing model reads together with its pictures; and the latents of
    each picture. The size of the result is no part of any: pictures are scaled to an area of
    their own."""
    folder = checkpoint.folder
    common: Fields = {"family": FAMILY, "encoding": ENCODING}
    text: Fields = {
        **common,
        "pipeline": checkpoint.index["_class_name"],
        "tokenizer": folder / "tokenizer",
        "text_encoder": folder / "text_encoder",
        "text_dtype": dtype,
        "text_weights": "full",
        **versions(device, "torch", "diffusers", "transformers", "tokenizers"),
    }
    seen = pictures(recipe)
    if seen:
        text |= {
            "pictures": list(seen.values()),
            "picture_fit": images.PLAIN,
            "processor": folder / "processor",
            "image_backend": image_backend(),
            "mrope": MROPE,
            **versions(device, "pillow"),
        }
    parts = {
        "prompt": {**text, "text": recipe.prompt},
        "negative_prompt": {**text, "text": negative_prompt(recipe)},
    }
    for part, path in seen.items():
        parts[part] = {
            **common,
            "picture": path,
            "picture_fit": images.PLAIN,
            "pipeline": checkpoint.index["_class_name"],
            "vae": folder / "vae",
            "vae_dtype": dtype,
            "tiling": tiled,
            **versions(device, "torch", "diffusers", "pillow"),
        }
    return parts


def segment_inputs(
    recipe: Request, checkpoint: Checkpoint, dtype: str, device: str, tiled: bool
) -> Fields:
    folder = checkpoint.folder
    return {
        "family": FAMILY,
        "generation": GENERATION,
        "pipeline": checkpoint.index["_class_name"],
        **{name: getattr(recipe, name) for name in SEGMENT_FIELDS},
        "scheduler": folder / "scheduler",
        "vae": folder / "vae",
        "dtype": dtype,
        "tiling": tiled,
        **versions(device, "torch", "diffusers"),
    }

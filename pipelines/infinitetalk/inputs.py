"""What results depend on: all that has to go into a key, and nothing that must not.

Files stand as paths: whoever makes a key hashes their content. Imports nothing heavy.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.base import Fields, Request
from pipelines.infinitetalk.checkpoint import PICTURE, Checkpoint
from pipelines.infinitetalk.masks import PAINTED
from pipelines.infinitetalk.plan import longest, segment_times, strengths, video_size, voices_of
from pipelines.infinitetalk.reference import SEEN, moves
from pipelines.infinitetalk.sound import TARGET_LUFS
from pipelines.text import clean_prompt
from pipelines.versions import versions

FAMILY = "infinitetalk"
ENCODING = 1
GENERATION = 1
"""Count up when the same inputs give other numbers because this package changed."""

SMALL_DTYPE = "float32"
"""Of the codec, the CLIP and the audio encoder on any device: they are small, and half precision
shows."""

SEGMENT_FIELDS = ("fps", "frames", "overlap", "steps", "shift")
"""The fields of a recipe that every segment depends on. The size is that of the encoded picture;
the number of segments is none of them."""

FIT = "upright, on white, covered and centre-cropped, bilinear"


def encoder_inputs(
    recipe: Request, checkpoint: Checkpoint, dtype: str, device: str, tiled: bool
) -> dict[str, Fields]:
    """The prompts; the picture, for CLIP and for the codec; each voice; and, of two persons, where
    they are. Each but the last two is of use under any seed, voice or prompt."""
    common: Fields = {"family": FAMILY, "encoding": ENCODING}
    text: Fields = {
        **common,
        "text_len": checkpoint.text_len,
        "tokenizer": checkpoint.content("tokenizer"),
        "text_encoder": checkpoint.content("text_encoder"),
        "text_dtype": dtype,
        **versions(device, "torch", "transformers", "ftfy"),
    }
    # Both prompts go by one name in the key: the same words are encoded once.
    parts = {
        name: {**text, "text": clean_prompt(getattr(recipe, name))}
        for name in ("prompt", "negative_prompt")
    }
    height, width = video_size(recipe)
    fitted: Fields = {
        "image": Path(recipe.image),
        "image_width": width,
        "image_height": height,
        "image_fit": FIT,
    }
    eyes = [name for name in PICTURE if checkpoint.has(name) and _is_used(name, checkpoint)]
    seen: Fields = {**common, **fitted, "frames": recipe.frames, "image_dtype": SMALL_DTYPE}
    if moves(Path(recipe.image)):
        # A picture for each segment that the voice needs, which the codec sees later.
        parts["image"] = {
            **seen,
            "overlap": recipe.overlap,
            "fps": recipe.fps,
            "image_seen": SEEN,
            "image_pictures": len(segment_times(recipe)),
            **{name: checkpoint.content(name) for name in eyes if name != "vae"},
            **versions(device, "torch", "transformers", "pillow", "imageio-ffmpeg"),
        }
    else:
        parts["image"] = {
            **seen,
            **{name: checkpoint.content(name) for name in eyes},
            "image_tiled": tiled,
            **versions(device, "torch", "diffusers", "transformers", "pillow"),
        }
    voices = voices_of(recipe)
    if len(voices) > 1:
        parts["faces"] = {
            **common,
            **fitted,
            "faces": recipe.faces,
            "spatial_factor": checkpoint.spatial_factor,
            **versions(device, "torch"),
        }
        if recipe.masks:
            parts["faces"] |= {
                "masks": [Path(path) for path in recipe.masks],
                "masks_painted": PAINTED,
                **versions(device, "pillow"),
            }
    samples = longest(recipe)
    for field, path in voices.items():
        parts[field] = {
            **common,
            "voice": path,
            "voice_samples": samples,
            "voice_lufs": TARGET_LUFS,
            "fps": recipe.fps,
            "audio_encoder": checkpoint.content("audio_encoder"),
            "audio_dtype": SMALL_DTYPE,
            **versions(device, "torch", "transformers", "numpy", "imageio-ffmpeg"),
        }
    return parts


def segment_inputs(
    recipe: Request, checkpoint: Checkpoint, dtype: str, device: str, tiled: bool
) -> Fields:
    given = strengths(recipe)
    return {
        "family": FAMILY,
        "generation": GENERATION,
        **{name: getattr(recipe, name) for name in SEGMENT_FIELDS},
        "guidance_scale": given.text,
        "audio_scale": given.audio,
        "color_correction": given.colours,
        "apg": given.apg,
        "transformer": checkpoint.content("transformer"),
        "vae": checkpoint.content("vae"),
        "dtype": dtype,
        "vae_dtype": SMALL_DTYPE,
        "vae_tiled": tiled,
        **versions(device, "torch", "diffusers"),
    }


def _is_used(component: str, checkpoint: Checkpoint) -> bool:
    return component == "vae" or checkpoint.sees_picture

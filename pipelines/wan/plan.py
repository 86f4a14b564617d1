"""What a recipe comes to on a Wan checkpoint, or why it cannot be run. Plain arithmetic.

diffusers rounds sizes and frame counts with a warning; here they are refused with the nearest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.base import Plan, Request, Task
from pipelines.errors import BadInput
from pipelines.images import check_image
from pipelines.nearest import check_fits, in_one_piece, positive, within
from pipelines.wan.checkpoint import Checkpoint

MAX_STEPS = 1000


def make_plan(recipe: Request, checkpoint: Checkpoint) -> Plan:
    """Raises BadInput for the first field that does not fit, with the nearest values that do."""
    from pipelines.frames import Chain

    check_recipe(recipe, checkpoint)
    for field in ("image", "last_image"):
        if getattr(recipe, field) is not None:
            check_image(Path(getattr(recipe, field)), field)
    chain = Chain(1, recipe.frames, 0)
    return Plan(chain, recipe.width, recipe.height, recipe.fps, (recipe.steps,))


def check_recipe(recipe: Request, checkpoint: Checkpoint) -> None:
    """Raises BadInput as `make_plan` does, but leaves files alone: once encoded they may go."""
    in_one_piece(recipe)
    within("steps", recipe.steps, 1, MAX_STEPS)
    within("fps", recipe.fps, 1, None)
    positive("guidance_scale", recipe.guidance_scale, or_zero=True)
    positive("shift", recipe.shift)
    if recipe.guidance_scale_2 is not None:
        if checkpoint.boundary is None:
            fix = "This model has one transformer: leave it out."
            raise BadInput("guidance_scale_2", recipe.guidance_scale_2, fix)
        positive("guidance_scale_2", recipe.guidance_scale_2, or_zero=True)
        if recipe.guidance_scale_2 > 1 >= recipe.guidance_scale:
            fix = "With guidance_scale 1 or less neither transformer is guided: leave it out."
            raise BadInput("guidance_scale_2", recipe.guidance_scale_2, fix)
    _check_size(recipe, checkpoint)
    _check_pictures(recipe, checkpoint)


def _check_size(recipe: Request, checkpoint: Checkpoint) -> None:
    config = checkpoint.config("transformer")
    patch, longest = config.get("patch_size", (1, 2, 2)), config.get("rope_max_seq_len", 1024)
    for field, side in (("height", 1), ("width", 2)):
        unit = checkpoint.spatial_factor * patch[side]
        check_fits(
            field,
            getattr(recipe, field),
            lambda value, unit=unit: value > 0 and value % unit == 0,
            f"It must be a multiple of {unit}",
            most=longest * unit,
        )
    factor = checkpoint.temporal_factor
    check_fits(
        "frames",
        recipe.frames,
        lambda frames: frames > 0 and (frames - 1) % factor == 0,
        f"It must be 1 more than a multiple of {factor}",
        most=(longest * patch[0] - 1) * factor + 1,
    )


def _check_pictures(recipe: Request, checkpoint: Checkpoint) -> None:
    if recipe.image is None and checkpoint.needs_image:
        raise BadInput("image", None, "This model makes a video from a picture: give one.")
    if recipe.image is not None and not checkpoint.takes_image:
        fix = "This model takes no picture: leave it out or choose an I2V model."
        raise BadInput("image", str(recipe.image), fix)
    if recipe.last_image is None:
        if checkpoint.config("transformer").get("pos_embed_seq_len"):
            fix = "This model makes a video between two pictures: give the last one too."
            raise BadInput("last_image", None, fix)
        return
    if not checkpoint.takes_last_image:
        fix = "This model cannot end with a given picture: leave it out or choose the FLF2V model."
        raise BadInput("last_image", str(recipe.last_image), fix)
    least = 1 + checkpoint.temporal_factor
    if recipe.frames < least:
        raise BadInput("frames", recipe.frames, f"Between two pictures the least is {least}.")


def tasks(checkpoint: Checkpoint) -> tuple[Task, ...]:
    if checkpoint.needs_image:
        return (Task.I2V,)
    return (Task.T2V, Task.I2V) if checkpoint.takes_image else (Task.T2V,)


def defaults(checkpoint: Checkpoint) -> dict[str, Any]:
    """Recipe fields to start from with a checkpoint that the catalogue does not know; what
    model_index.json holds under `defaults` comes before what is derived."""
    config = checkpoint.config("transformer")
    patch, longest = config.get("patch_size", (1, 2, 2)), config.get("rope_max_seq_len", 1024)
    factor = checkpoint.temporal_factor
    width, height, frames, fps = (1280, 704, 121, 24) if checkpoint.two_in_one else _SMALL
    settings: dict[str, Any] = {
        "width": _side(width, checkpoint.spatial_factor * patch[2], longest),
        "height": _side(height, checkpoint.spatial_factor * patch[1], longest),
        "fps": fps,
        "frames": min(frames, (longest * patch[0] - 1) * factor + 1),
        "overlap": 0,
        "segments": 1,
        "steps": 50 if checkpoint.boundary is None else 40,
        "guidance_scale": 5.0,
        "shift": float(checkpoint.config("scheduler").get("flow_shift") or 5.0),
    }
    if checkpoint.boundary is not None:
        low = 3.5 if checkpoint.needs_image else 3.0
        high = 3.5 if checkpoint.needs_image else 4.0
        settings |= {"guidance_scale": high, "guidance_scale_2": low}
    return settings | dict(checkpoint.index.get("defaults", {}))


_SMALL = (832, 480, 81, 16)


def _side(wanted: int, unit: int, longest: int) -> int:
    return min(wanted // unit, longest) * unit

"""What a recipe comes to on a Qwen-Image checkpoint, or why it cannot be run. Plain arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.base import Plan, Request, Task
from pipelines.errors import BadInput
from pipelines.frames import Chain
from pipelines.images import check_image
from pipelines.nearest import check_fits, in_one_piece, positive, within
from pipelines.qwen_image.checkpoint import Checkpoint

MAX_STEPS = 1000
MAX_SIDE = 4096
PATCH = 2
"""Latent pixels along the side of a patch; diffusers has it built in."""


def make_plan(recipe: Request, checkpoint: Checkpoint) -> Plan:
    """Raises BadInput for the first field that does not fit, with the nearest values that do."""
    check_recipe(recipe, checkpoint)
    if recipe.image is not None:
        check_image(Path(recipe.image))
    for path in recipe.references or ():
        check_image(Path(path), "references")
    return Plan(Chain(1, 1, 0), recipe.width, recipe.height, recipe.fps, (recipe.steps,))


def check_recipe(recipe: Request, checkpoint: Checkpoint) -> None:
    """Raises BadInput as `make_plan` does, but leaves files alone: once encoded they may go."""
    in_one_piece(recipe)
    if recipe.frames != 1:
        raise BadInput("frames", recipe.frames, "This model makes a single picture: use 1.")
    within("steps", recipe.steps, 1, MAX_STEPS)
    within("fps", recipe.fps, 1, None)
    positive("guidance_scale", recipe.guidance_scale, or_zero=True)
    unit = checkpoint.spatial_factor * PATCH
    for field in ("height", "width"):
        check_fits(
            field,
            getattr(recipe, field),
            lambda value: value > 0 and value % unit == 0,
            f"It must be a multiple of {unit}",
            most=MAX_SIDE,
        )
    if checkpoint.config("transformer").get("guidance_embeds"):
        fix = "It is distilled for built-in guidance, which is not supported."
        raise BadInput("model", str(checkpoint.folder), fix)
    if recipe.image is None and checkpoint.edits:
        raise BadInput("image", None, "This model edits a picture: give one.")
    if recipe.image is not None and not checkpoint.edits:
        fix = "This model takes no picture: leave it out or choose an Edit model."
        raise BadInput("image", str(recipe.image), fix)
    if recipe.references and not checkpoint.takes_several:
        fix = (
            "This model looks at one picture at most: leave them out, or choose Edit 2509 or 2511."
        )
        raise BadInput("references", [str(path) for path in recipe.references], fix)


def tasks(checkpoint: Checkpoint) -> tuple[Task, ...]:
    return (Task.I2I,) if checkpoint.edits else (Task.T2I,)


def defaults(checkpoint: Checkpoint) -> dict[str, Any]:
    """Recipe fields to start from with a checkpoint that the catalogue does not know; what
    model_index.json holds under `defaults` comes before what is derived."""
    settings = {
        "width": 1024 if checkpoint.edits else 1328,
        "height": 1024 if checkpoint.edits else 1328,
        "fps": 1,
        "frames": 1,
        "overlap": 0,
        "segments": 1,
        "steps": 40 if checkpoint.takes_several else 50,
        "guidance_scale": 4.0,
    }
    return settings | dict(checkpoint.index.get("defaults", {}))

"""What a recipe comes to on a SkyReels-V2 checkpoint, or why it cannot be run. Plain arithmetic.

diffusers accepts most of what is refused here and makes noise of it: latent frames that do not
fill a causal block are never denoised, and frame counts are rounded with a warning.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.base import Plan, Request
from pipelines.errors import BadInput
from pipelines.frames import Chain
from pipelines.images import check_image
from pipelines.nearest import check_fits, downwards, positive, within
from pipelines.skyreels_v2.checkpoint import Checkpoint

MAX_STEPS = 1000
MAX_CONDITION_NOISE = 60


def make_plan(recipe: Request, checkpoint: Checkpoint) -> Plan:
    """Raises BadInput for the first field that does not fit, with the nearest values that do."""
    check_recipe(recipe, checkpoint)
    if recipe.image is not None:
        check_image(Path(recipe.image))
    chain = Chain(recipe.segments, recipe.frames, recipe.overlap)
    steps = tuple(segment_steps(recipe, checkpoint, i) for i in range(recipe.segments))
    return Plan(chain, recipe.width, recipe.height, recipe.fps, steps)


def check_recipe(recipe: Request, checkpoint: Checkpoint) -> None:
    """Raises BadInput as `make_plan` does, but leaves files alone: once encoded they may go."""
    _check_numbers(recipe)
    _check_size(recipe, checkpoint)
    _check_frames(recipe, checkpoint)
    if recipe.image is not None:
        _check_from_picture(recipe, checkpoint)


def latent_frames(frames: int, temporal_factor: int) -> int:
    """The first latent frame holds one frame, each later one `temporal_factor`."""
    return (frames - 1) // temporal_factor + 1 if frames else 0


def latent_shape(recipe: Request, checkpoint: Checkpoint) -> tuple[int, int, int, int, int]:
    """`[1, C, Fo, h, w]` of a segment."""
    return (
        1,
        checkpoint.config("transformer").get("in_channels", 16),
        latent_frames(recipe.frames, checkpoint.temporal_factor),
        recipe.height // checkpoint.spatial_factor,
        recipe.width // checkpoint.spatial_factor,
    )


def frames_fit(frames: int, temporal_factor: int, causal_block: int) -> bool:
    """Whether `frames` fill their latent frames, and those their causal blocks."""
    whole = frames > 0 and (frames - 1) % temporal_factor == 0
    return whole and latent_frames(frames, temporal_factor) % causal_block == 0


def prefix_frames(recipe: Request, checkpoint: Checkpoint, i: int) -> int:
    """Latent frames of segment i that are given: the overlap, or the picture of the first one."""
    if i > 0:
        return latent_frames(recipe.overlap, checkpoint.temporal_factor)
    return 0 if recipe.image is None else 1


def segment_steps(recipe: Request, checkpoint: Checkpoint, i: int) -> int:
    """Rows of the timestep matrix of segment i.

    Each causal block that has to be denoised starts `ar_step` rows after the one before, at the
    latest when that one is done.
    """
    latents = latent_frames(recipe.frames, checkpoint.temporal_factor)
    blocks = (latents - prefix_frames(recipe, checkpoint, i)) // recipe.causal_block
    return recipe.steps + min(recipe.ar_step, recipe.steps) * (blocks - 1)


def _check_numbers(recipe: Request) -> None:
    for field, low, high in (
        ("segments", 1, None),
        ("steps", 1, MAX_STEPS),
        ("fps", 1, None),
        ("causal_block", 1, None),
        ("ar_step", 0, None),
        ("condition_noise", 0, MAX_CONDITION_NOISE),
    ):
        within(field, getattr(recipe, field), low, high)
    positive("guidance_scale", recipe.guidance_scale, or_zero=True)
    positive("shift", recipe.shift)
    if recipe.ar_step and recipe.causal_block == 1:
        raise BadInput(
            "ar_step",
            recipe.ar_step,
            "Staggered denoising needs causal_block > 1; use 0 to denoise all frames together.",
        )
    if recipe.ar_step > recipe.steps:
        raise BadInput(
            "ar_step",
            recipe.ar_step,
            f"At {recipe.steps} steps it is at most {recipe.steps}: one block after another.",
        )


def _check_size(recipe: Request, checkpoint: Checkpoint) -> None:
    config = checkpoint.config("transformer")
    longest = config.get("rope_max_seq_len", 1024)
    patch = config.get("patch_size", (1, 2, 2))
    for field, side in (("height", 1), ("width", 2)):
        unit = checkpoint.spatial_factor * patch[side]
        check_fits(
            field,
            getattr(recipe, field),
            lambda value, unit=unit: value > 0 and value % unit == 0,
            f"It must be a multiple of {unit}",
            most=longest * unit,
        )


def _check_frames(recipe: Request, checkpoint: Checkpoint) -> None:
    factor, block = checkpoint.temporal_factor, recipe.causal_block
    config = checkpoint.config("transformer")
    most = config.get("rope_max_seq_len", 1024) * config.get("patch_size", (1, 2, 2))[0]

    def fits(frames: int) -> bool:
        return frames_fit(frames, factor, block)

    rule = f"It must be 1 more than a multiple of {factor}"
    if block > 1:
        rule = f"With causal blocks of {block} it must be {_series(factor, block)}"
    check_fits("frames", recipe.frames, fits, rule, most=(most - 1) * factor + 1)
    if recipe.overlap == 0 and recipe.segments == 1:
        return  # nothing follows, and nothing can be appended later
    check_fits("overlap", recipe.overlap, fits, rule)
    if recipe.overlap >= recipe.frames:
        nearest = next(downwards(recipe.frames - 1, fits), None)
        fix = f"It must be less than frames ({recipe.frames})"
        if nearest is None:
            raise BadInput("overlap", recipe.overlap, f"{fix}: use more frames.")
        raise BadInput("overlap", recipe.overlap, f"{fix}; the nearest is {nearest}.")


def _series(factor: int, block: int) -> str:
    first = [(block * k - 1) * factor + 1 for k in (1, 2, 3)]
    return ", ".join(map(str, first)) + "…"


def _check_from_picture(recipe: Request, checkpoint: Checkpoint) -> None:
    trained = checkpoint.config("transformer").get("num_frame_per_block", 1)
    if trained > 1:
        raise BadInput(
            "image",
            str(recipe.image),
            f"This model makes video in causal blocks of {trained} latent frames and cannot start "
            "from a picture: leave the image out.",
        )
    if recipe.causal_block > 1:
        # A picture is one latent frame and would have to be kept inside a block that is denoised
        # as one: diffusers denoises it away.
        raise BadInput(
            "causal_block",
            recipe.causal_block,
            "A video from a picture needs causal_block = 1 (and ar_step = 0).",
        )
    if recipe.frames == 1:
        raise BadInput("frames", 1, "A video from a picture needs more than one frame.")

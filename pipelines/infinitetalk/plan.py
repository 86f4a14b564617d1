"""What a recipe comes to on an InfiniteTalk checkpoint, or why it cannot be run. Arithmetic, the
header of the picture, and the length of the voices."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from pipelines.base import Plan, Request
from pipelines.errors import BadInput
from pipelines.frames import Chain
from pipelines.infinitetalk.checkpoint import Checkpoint
from pipelines.infinitetalk.persons import check_persons
from pipelines.infinitetalk.reference import moves, reference_size
from pipelines.infinitetalk.sizes import Size, bucket
from pipelines.infinitetalk.sound import samples_in
from pipelines.infinitetalk.windows import SAMPLE_RATE, chain_of, frames_of, segments_needed
from pipelines.nearest import check_fits, downwards, positive, within

MAX_STEPS = 1000
MOST_SEEN = 2_000_000_000
"""Bytes of what is seen of a video: all of it stays in main memory while segments are made."""
LEAST_FRAMES = 2
"""Of a video: one frame would be a picture, which has no sound."""
TEXT_SCALE, AUDIO_SCALE, COLOURS, APG = 5.0, 4.0, 1.0, 0.0
"""Of the published command line; for a recipe that leaves them open."""


@dataclass(frozen=True)
class Strengths:
    """The settings of a recipe that may be left open, filled in."""

    text: float
    audio: float
    colours: float
    apg: float


def strengths(recipe: Request) -> Strengths:
    def given(value: float | None, default: float) -> float:
        return default if value is None else float(value)

    return Strengths(
        float(recipe.guidance_scale),
        given(recipe.audio_scale, AUDIO_SCALE),
        given(recipe.color_correction, COLOURS),
        given(recipe.apg, APG),
    )


def make_plan(recipe: Request, checkpoint: Checkpoint) -> Plan:
    """Raises BadInput for the first field that does not fit, with the nearest values that do.

    There are as many segments as the voice needs, and at most as many as the recipe says; the last
    one ends with the voice.
    """
    check_recipe(recipe, checkpoint)
    size = video_size(recipe)
    picture = reference_size(Path(recipe.image))
    voices = voices_of(recipe)
    check_persons(recipe, picture, len(voices))
    _check_seen(recipe, checkpoint, size)
    frames = frames_of(longest(recipe), recipe.fps)
    if frames < LEAST_FRAMES:
        field = max(voices, key=lambda name: samples_in(voices[name], name))
        seconds = longest(recipe) / SAMPLE_RATE
        fix = f"It lasts {seconds:.2f} s, which is less than {LEAST_FRAMES} frames at "
        fix += f"{recipe.fps} fps; choose a longer one or more frames a second."
        raise BadInput(field, str(voices[field]), fix)
    chain = chain_of(frames, recipe.segments, recipe.frames, recipe.overlap)
    return Plan(chain, size[1], size[0], recipe.fps, (recipe.steps,) * chain.segments)


def check_recipe(recipe: Request, checkpoint: Checkpoint) -> None:
    """Raises BadInput as `make_plan` does, but leaves files alone: once encoded they may go."""
    _check_size(recipe, checkpoint)
    _check_frames(recipe, checkpoint)
    within("segments", recipe.segments, 1, None)
    within("steps", recipe.steps, 1, MAX_STEPS)
    within("fps", recipe.fps, 1, None)
    positive("shift", recipe.shift)
    for field in ("guidance_scale", "audio_scale", "apg"):
        value = getattr(recipe, field)
        if value is not None:
            positive(field, value, or_zero=True)
    if not 0 <= strengths(recipe).colours <= 1:
        raise BadInput("color_correction", recipe.color_correction, "Use 0 to 1.")
    if recipe.image is None:
        raise BadInput("image", None, "Give a picture of who speaks.")
    if recipe.audio is None:
        raise BadInput("audio", None, "Give a file with the voice.")


def voices_of(recipe: Request) -> dict[str, Path]:
    """Field -> file of each voice."""
    given = {"audio": recipe.audio, "audio_2": recipe.audio_2}
    return {field: Path(path) for field, path in given.items() if path is not None}


def longest(recipe: Request) -> int:
    """Samples of the longest voice; the other is silent after its end. Raises BadInput."""
    return max(samples_in(path, field) for field, path in voices_of(recipe).items())


def video_size(recipe: Request) -> Size:
    """(height, width) of the video. Raises BadInput if the picture cannot be used."""
    return bucket((recipe.height, recipe.width), reference_size(Path(recipe.image)))


def segment_times(recipe: Request) -> list[Fraction]:
    """Seconds at which each segment begins that the voice needs, whatever the recipe says of them:
    what is seen then in a video is what the segment is to look like. Raises BadInput."""
    frames = frames_of(longest(recipe), recipe.fps)
    count = segments_needed(frames, recipe.frames, recipe.overlap)
    chain = Chain(count, recipe.frames, recipe.overlap)
    return [Fraction(chain.start(i), recipe.fps) for i in range(count)]


def latent_frames(frames: int, temporal_factor: int) -> int:
    return (frames - 1) // temporal_factor + 1


def _check_seen(recipe: Request, checkpoint: Checkpoint, size: Size) -> None:
    """Of a video each segment has a picture, uint8, and the tokens of CLIP, fp32."""
    if not moves(Path(recipe.image)):
        return
    each = size[0] * size[1] * 3
    if checkpoint.sees_picture and checkpoint.has("image_encoder"):
        eye = checkpoint.config("image_encoder")
        tokens = (eye.get("image_size", 224) // eye.get("patch_size", 32)) ** 2 + 1
        each += tokens * eye.get("hidden_size", 768) * 4
    count = len(segment_times(recipe))
    if each * count > MOST_SEEN:
        fix = f"A video takes {each / 1e6:.1f} MB of memory for each of the {count} segments of "
        fix += f"this voice, and at most {MOST_SEEN / 1e9:g} GB in all: use a picture, a shorter "
        fix += "voice, more frames a segment or a smaller size."
        raise BadInput("image", str(recipe.image), fix)


def _check_size(recipe: Request, checkpoint: Checkpoint) -> None:
    config = checkpoint.config("transformer")
    patch = config.get("patch_size", (1, 2, 2))
    longest_side = config.get("rope_max_seq_len", 1024)
    for field, side in (("height", 1), ("width", 2)):
        unit = checkpoint.spatial_factor * patch[side]
        check_fits(
            field,
            getattr(recipe, field),
            lambda value, unit=unit: value > 0 and value % unit == 0,
            f"It must be a multiple of {unit}",
            most=longest_side * unit,
        )


def _check_frames(recipe: Request, checkpoint: Checkpoint) -> None:
    factor = checkpoint.temporal_factor
    most = checkpoint.config("transformer").get("rope_max_seq_len", 1024)

    def fits(frames: int) -> bool:
        return frames > 0 and (frames - 1) % factor == 0

    rule = f"It must be 1 more than a multiple of {factor}"
    check_fits(
        "frames", recipe.frames, lambda n: n > 1 and fits(n), rule, most=(most - 1) * factor + 1
    )
    check_fits("overlap", recipe.overlap, fits, rule)
    if recipe.overlap >= recipe.frames:
        nearest = next(downwards(recipe.frames - 1, fits))
        fix = f"It must be less than frames ({recipe.frames}); the nearest is {nearest}."
        raise BadInput("overlap", recipe.overlap, fix)

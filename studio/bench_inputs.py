"""What a benchmark renders from: the sample that a model comes with, or pictures and a hum that are
made for it; and the segment files of a larger video, to measure a join."""

from __future__ import annotations

import wave
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipelines import catalogue
from pipelines.base import Pipeline, Task
from pipelines.frames import Chain
from studio import media
from studio.samples import samples_of

PROMPT = "a red boat drifting left over the sea at sunset"
SEGMENTS = 4
"""Where nothing else says how long a video is."""
BIG_WIDTH, BIG_HEIGHT, BIG_SEGMENTS = 832, 480, (81, 72, 72, 33)
VOICE_RATE = 16_000


def fields_for(
    model: str, pipeline: Pipeline, folder: Path, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The recipe fields to measure with: those that are given, and what the model makes nothing
    without. Where a voice is given, or comes with the model, the video is as long as that is.
    Files that are made lie in `folder`. Raises BadInput for a model that is not here."""
    tasks = set(pipeline.capabilities.tasks)
    needed = set() if {Task.T2I, Task.T2V} & tasks else {"image"}
    if needed and "last_image" in pipeline.capabilities.extras:
        needed.add("last_image")
    if Task.S2V in tasks:
        needed.add("audio")
    known = catalogue.find(model)
    sample = (
        next((s for s in samples_of(known) if set(s.files) == needed), None) if needed else None
    )
    found: dict[str, Any] = {"prompt": PROMPT}
    if sample is not None:
        found |= sample.written
        found |= {field: known.folder() / name for field, name in sample.files.items()}
    found |= given
    if "segments" not in given and found.get("audio") is None:
        found["segments"] = SEGMENTS if pipeline.capabilities.segment_reuse else 1
    settings = {**known.defaults, **found}
    for field in sorted(needed - found.keys()):
        if field == "audio":
            chain = Chain(settings["segments"], settings["frames"], settings["overlap"])
            found[field] = _hum(folder / "voice.wav", chain.total / settings["fps"])
        else:
            found[field] = folder / f"{field}.png"
            media.write_image(_picture(0 if field == "image" else 60), found[field])
    return found


def big_segments(folder: Path) -> list[Path]:
    """A moving picture of a common size, 258 frames, as segment files."""
    files, at = [], 0
    for number, count in enumerate(BIG_SEGMENTS):
        frames = np.stack([_picture(at + k) for k in range(count)])
        files.append(folder / f"big-{number}.mp4")
        media.write_segment(frames, files[-1], 16)
        at += count
    return files


def _hum(path: Path, seconds: float) -> Path:
    """A hum that swells twice a second."""
    time = np.arange(round(seconds * VOICE_RATE)) / VOICE_RATE
    hum = np.sin(2 * np.pi * 180 * time) * (0.6 + 0.4 * np.sin(4 * np.pi * time))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(VOICE_RATE)
        file.writeframes((hum * 10_000).astype("<i2").tobytes())
    return path


def _picture(number: int) -> np.ndarray:
    """One of a row of pictures that move, uint8 `[H, W, 3]`."""
    y, x = np.mgrid[0:BIG_HEIGHT, 0:BIG_WIDTH].astype(np.float32)
    noise = np.random.default_rng(0).normal(0, 6, (BIG_HEIGHT, BIG_WIDTH, 3)).astype(np.float32)
    ripples = 110 + 90 * np.sin((x + 3 * number) / 40) * np.cos((y - number) / 30)
    return np.clip(ripples[..., None] + np.roll(noise, number, axis=1), 0, 255).astype(np.uint8)

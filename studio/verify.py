"""Verification: are the files what their manifests say, and does a take come out again the same?"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from studio import media, seeds
from studio.engine import Engine
from studio.events import Event, OnEvent, Stage, ignore
from studio.library import Library
from studio.render import BOUNDARY, ENCODED, VIDEO, frames_digest
from studio.take import SegmentRef, Take


@dataclass(frozen=True)
class Recomputed:
    """One segment generated anew beside the one on disk."""

    index: int
    """From 0."""
    differs: tuple[str, ...]
    """What does not agree: "file", "frames", "boundary", "video"; empty if all is the same."""


def recompute(
    library: Library, engine: Engine, take: Take, on_event: OnEvent = ignore
) -> list[Recomputed]:
    """Generates each segment of a take anew from its stored boundary and compares it with the disk:
    the raw frames, the boundary it leaves, and the decoded video. Changes nothing on disk.
    """
    pipeline = engine.pipeline(take.recipe.model)
    pipeline.plan(take.recipe)
    stored = library.store.find("inputs", take.encoder_key)
    if stored is not None:
        inputs = stored.tensors(ENCODED)
    else:
        pipeline.load_encoders()
        inputs = pipeline.encode(take.recipe)
        pipeline.free_encoders()
    pipeline.load_denoiser()

    found: list[Recomputed] = []
    boundary = None
    for segment in take.segments:
        on_event(Event(Stage.DENOISE, segment.index, len(take.segments)))
        output = pipeline.generate(
            take.recipe,
            inputs,
            segment.index,
            boundary,
            seeds.generator(segment.seed, segment.index),
        )
        differs, boundary = _compare(library, segment, output.frames, output.boundary, take)
        found.append(Recomputed(segment.index, differs))
    return found


def _compare(
    library: Library, segment: SegmentRef, frames: np.ndarray, boundary: dict, take: Take
) -> tuple[tuple[str, ...], dict]:
    """What differs, and the stored boundary for the next segment (the new one if it is gone)."""
    import torch

    entry = library.store.peek("segments", segment.id)
    if entry is None:
        return ("file",), boundary
    faults = list(library.store.check(entry))
    differs = ["file"] if faults else []
    if entry.manifest["frames_sha256"] != frames_digest(frames):
        differs.append("frames")
    try:
        kept = entry.tensors(BOUNDARY)
    except Exception:
        return (*differs, "boundary"), boundary
    same = kept.keys() == boundary.keys() and all(
        torch.equal(kept[name], boundary[name]) for name in kept
    )
    if not same:
        differs.append("boundary")
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / VIDEO
        media.write_segment(frames, again, take.recipe.fps)
        try:
            if not np.array_equal(media.decode(again), media.decode(entry.file(VIDEO))):
                differs.append("video")
        except media.MediaError:
            differs.append("video")
    return tuple(differs), kept

"""Verification: are the files what their manifests say, and does a take come out again the same?"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipelines.base import Tensors
from reuse import Entry, ReuseError
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
    if not library.store.faults("inputs", take.encoder_key):
        inputs = library.store.find("inputs", take.encoder_key).tensors(ENCODED)
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
    library: Library, segment: SegmentRef, frames: np.ndarray, boundary: Tensors, take: Take
) -> tuple[tuple[str, ...], Tensors]:
    """What differs, and the boundary for the next segment: the stored one, so that segments are
    judged apart; the new one if what is stored is damaged."""
    store = library.store
    damaged = bool(store.faults("segments", segment.id))
    differs = ["file"] if damaged else []
    try:
        manifest = store.manifest("segments", segment.id)
        entry = Entry("segments", segment.id, store.folder("segments", segment.id), manifest)
        kept = entry.tensors(BOUNDARY)
    except ReuseError:
        return (*differs, "boundary"), boundary
    if manifest["frames_sha256"] != frames_digest(frames):
        differs.append("frames")
    if not _equal(kept, boundary):
        differs.append("boundary")
    if not _same_video(frames, entry.file(VIDEO), take.recipe.fps):
        differs.append("video")
    return tuple(differs), boundary if damaged else kept


def _equal(one: Tensors, other: Tensors) -> bool:
    import torch

    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def _same_video(frames: np.ndarray, stored: Path, fps: int) -> bool:
    """Whether `frames`, coded again, decode to what the stored file decodes to."""
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / VIDEO
        media.write_segment(frames, again, fps)
        try:
            return np.array_equal(media.decode(again), media.decode(stored))
        except media.MediaError:
            return False

"""Verification: are the files what their manifests say, and does a take come out again the same?"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipelines.base import Pipeline, Step, Tensors, joined
from reuse import Entry, Fault, NotCompatible, ReuseError
from studio import flowcache, media, seeds
from studio.assemble import IMAGE, VIDEO, pictures_of
from studio.chapter import plan_of
from studio.compatible import differing
from studio.encoded import ENCODED, encode, origins
from studio.engine import Engine
from studio.events import Event, OnEvent, Stage, ignore
from studio.keys import Keys
from studio.library import Library
from studio.render import BOUNDARY, frames_digest
from studio.take import SegmentRef, Take


@dataclass(frozen=True)
class Recomputed:
    """One segment generated anew beside the one on disk."""

    index: int
    """From 0."""
    differs: tuple[str, ...]
    """What does not agree: "file", "frames", "boundary", "video"; empty if all is the same."""


def missing(library: Library) -> Iterator[Fault]:
    """Segments and inputs that a take is made of and that are not in the library; and what is
    damaged in the trash, whose takes need theirs as well."""
    here = {kind: set(library.store.keys(kind)) for kind in ("segments", "inputs")}
    for take in (*library.takes(), *library.trash.takes()):
        needs = [("segments", part.id) for part in take.segments]
        needs += [("inputs", key) for key in take.encoder_keys.values()]
        for kind, key in needs:
            if key not in here[kind]:
                yield Fault(kind, key, "", f"it is missing, and take {take.id[:12]} is made of it")
    yield from library.trash.faults()


def recompute(
    library: Library, engine: Engine, take: Take, on_event: OnEvent = ignore
) -> list[Recomputed]:
    """Generates each segment of a take anew from its stored boundary and compares it with the disk:
    the raw frames, the boundary it leaves, and the decoded video. Changes nothing on disk.

    Raises NotCompatible if the model or the libraries are no longer those that made the take: then
    a difference would say nothing about the disk.
    """
    pipeline = engine.pipeline(take.recipe.model)
    plan_of(pipeline, take.chapters)
    keys = Keys.of(pipeline, take.chapters, take.seeds, take.session, library.hashes)
    if found := differing(library, take, len(take.segments), take.chapters, keys):
        raise NotCompatible(found)
    encoded = _encoded(library, pipeline, take, keys)
    pipeline.load_denoiser(take.recipe)

    found: list[Recomputed] = []
    boundary = None
    for part in take.segments:

        def on_step(step: Step, index: int = part.index) -> None:
            on_event(Event(Stage.DENOISE, index, len(take.segments), step.step, step.steps))

        noise = seeds.generator(part.seed, part.index)
        parts = keys.of_segment(part.index).parts
        inputs = joined({name: encoded[stored] for name, stored in parts.items()})
        recipe = take.recipe_of(part.index)
        flowcache.attach(pipeline, recipe)
        output = pipeline.generate(recipe, inputs, part.index, boundary, noise, on_step)
        differs, boundary = _compare(library, part, output.frames, output.boundary, take)
        found.append(Recomputed(part.index, differs))
    return found


def _encoded(library: Library, pipeline: Pipeline, take: Take, keys: Keys) -> dict[str, Tensors]:
    """The stored encoder outputs by their names in `keys.encoder`; those that are damaged or gone
    are computed for this once."""
    store = library.store
    damaged = [name for name, key in keys.encoder.items() if store.faults("inputs", key)]
    encoded: dict[str, Tensors] = {}
    if damaged:
        try:
            encoded = encode(pipeline, origins(take.chapters, keys), damaged)
        finally:
            pipeline.free_encoders()
    for name, key in keys.encoder.items():
        if name not in encoded:
            encoded[name] = store.find("inputs", key).tensors(ENCODED)
    return encoded


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
    if not _same_video(frames, entry.file(pictures_of(entry)), take.recipe.fps):
        differs.append("video")
    return tuple(differs), boundary if damaged else kept


def _equal(one: Tensors, other: Tensors) -> bool:
    import torch

    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def _same_video(frames: np.ndarray, stored: Path, fps: int) -> bool:
    """Whether `frames`, coded again, decode to what the stored file decodes to."""
    try:
        if stored.name == IMAGE:
            return np.array_equal(frames[0], media.read_image(stored))
    except media.MediaError:
        return False
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / VIDEO
        media.write_segment(frames, again, fps)
        try:
            return np.array_equal(media.decode(again), media.decode(stored))
        except media.MediaError:
            return False

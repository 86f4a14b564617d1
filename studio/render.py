"""The story of a take, from a recipe and its seeds to a published folder.

`render` reads top to bottom; `_Run` is what one render has in its hands on the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.base import Pipeline, Plan, Step, Tensors, joined
from pipelines.errors import BadInput
from reuse import DiskFull, Entry
from studio import media, seeds, software
from studio.clock import Clock
from studio.compatible import refuse_unless_compatible, refuse_unused_inputs
from studio.errors import Cancelled, RenderFailed
from studio.events import Event, OnEvent, Stage, ignore
from studio.keys import Keys
from studio.library import Library
from studio.recipe import Recipe
from studio.take import SegmentRef, Take, embedded, now

if TYPE_CHECKING:
    import numpy as np

VIDEO, POSTER, RESULT = "video.mp4", "poster.webp", "result.mp4"
ENCODED, BOUNDARY = "", "boundary"


@dataclass
class Rendered:
    """A take, and what it cost this time."""

    take: Take
    parent: str | None
    """Id of the take that was asked to be retaken. The take itself keeps its first parent: with
    the old seeds a retake gives its parent back."""
    sources: list[str]
    """One a segment: "generated" or "reused"."""
    segment_seconds: list[float]
    encoders: dict[str, str]
    """Part (`prompt`, `image`…) -> "computed" or "reused"."""
    timings: dict[str, float]
    forwards: dict[str, int]

    @property
    def encoder_source(self) -> str:
        """ "computed" if any part was, else "reused"."""
        return "computed" if "computed" in self.encoders.values() else "reused"


def render(
    library: Library,
    pipeline: Pipeline,
    recipe: Recipe,
    chosen_seeds: Sequence[int],
    *,
    session: str,
    parent: Take | None = None,
    keep: int = 0,
    on_event: OnEvent = ignore,
) -> Rendered:
    """Makes the take of `recipe` under `chosen_seeds`, one a segment; computes only what no disk
    entry holds yet.

    The files of the recipe are copies in the library (see `Library.adopt`).

    With a `parent`, its first `keep` segments must be the first `keep` of this take.

    Raises BadInput before any model is loaded, NotCompatible naming each field that keeps the
    prefix from being reused, Cancelled from `on_event`, DiskFull, and RenderFailed for whatever
    else stops it. In every case what was published before stays as it was.
    """
    clock = Clock()
    refuse_unused_inputs(recipe, pipeline)
    plan = pipeline.plan(recipe)
    keys = Keys.of(pipeline, recipe, chosen_seeds, session, library.hashes)
    if parent is not None:
        refuse_unless_compatible(library, pipeline, parent, keep, recipe, keys)

    run = _Run(library, pipeline, recipe, plan, keys, chosen_seeds, session, on_event, clock)
    known = library.known_take(keys.take)
    take = known if known and library.is_whole(known) else None
    if take is None:
        with run.naming_what_failed():
            entries: list[Entry] = []
            for i in range(plan.chain.segments):
                run.current = i
                entry = library.store.find("segments", keys.segments[i])
                if entry is None:
                    inputs = run.encoder_outputs()
                    boundary = entries[-1].tensors(BOUNDARY) if entries else None
                    entry = run.generate(i, inputs, boundary)
                else:
                    run.tell(Stage.REUSED)
                entries.append(entry)
            take = run.publish(entries, parent, keep, known)
    library.record(take)
    return run.report(take, parent)


class _Run:
    """One render under way: what it works with, and what it has cost so far."""

    def __init__(
        self,
        library: Library,
        pipeline: Pipeline,
        recipe: Recipe,
        plan: Plan,
        keys: Keys,
        chosen_seeds: Sequence[int],
        session: str,
        on_event: OnEvent,
        clock: Clock,
    ) -> None:
        self.library, self.pipeline, self.recipe = library, pipeline, recipe
        self.plan, self.keys, self.seeds, self.session = plan, keys, chosen_seeds, session
        self.on_event, self.clock = on_event, clock
        self.current = 0
        self.inputs: Tensors | None = None
        self.encoded: list[str] = []
        self.sources = ["reused"] * plan.chain.segments
        self.segment_seconds = [0.0] * plan.chain.segments
        self.forwards = {"computed": 0, "skipped": 0}

    def encoder_outputs(self) -> Tensors:
        """The encoder outputs, from disk if they are there; only else are encoders loaded."""
        if self.inputs is None:
            store = self.library.store
            found = {part: store.find("inputs", key) for part, key in self.keys.encoder.items()}
            missing = [part for part, entry in found.items() if entry is None]
            if missing:
                found |= self._encode(missing)
            self.inputs = joined({part: entry.tensors(ENCODED) for part, entry in found.items()})
        return self.inputs

    def _encode(self, parts: list[str]) -> dict[str, Entry]:
        """Encodes the parts that no disk entry holds, and publishes each."""
        try:
            self.tell(Stage.LOAD)
            with self.clock.measure("load"):
                self.pipeline.load_encoders(parts)
            self.tell(Stage.ENCODE)
            with self.clock.measure("encode"):
                encoded = self.pipeline.encode(self.recipe, parts)
        finally:
            self.pipeline.free_encoders()
        self.encoded = parts
        entries: dict[str, Entry] = {}
        for part, tensors in encoded.items():
            with self.clock.measure("write"), self.library.store.stage() as staging:
                staging.write_tensors(ENCODED, tensors)
                self.refuse_changed_files()
                fields = {"fields": self.keys.encoder_fields[part]}
                entries[part] = staging.publish("inputs", self.keys.encoder[part], fields)
        return entries

    def refuse_changed_files(self) -> None:
        """Raises RuntimeError if what the keys were made of is no longer what is on disk: the
        result could be that of other weights. Costs a look at the files' times."""
        recipe, session = self.recipe, self.session
        now = Keys.of(self.pipeline, recipe, self.seeds, session, self.library.hashes)
        if now != self.keys:
            raise RuntimeError("files of the model or the recipe changed while it ran")

    def generate(self, i: int, inputs: Tensors, boundary: Tensors | None) -> Entry:
        """Generates segment i, writes it and publishes it."""
        before = self.clock.spent()
        self.tell(Stage.LOAD)
        with self.clock.measure("load"):
            self.pipeline.load_denoiser()

        def on_step(step: Step) -> None:
            last = step.step == step.steps
            self.clock.stage = "decode" if last else "denoise"
            self.tell(Stage.DENOISE, step)

        self.clock.stage = "denoise"
        noise = seeds.generator(self.seeds[i], i)
        output = self.pipeline.generate(self.recipe, inputs, i, boundary, noise, on_step)
        first, end = self.plan.chain.new_frames(i)
        if len(output.frames) != end - first:
            raise RuntimeError(f"{len(output.frames)} frames came out instead of {end - first}")
        self.clock.add(output.seconds)
        self.forwards["computed"] += output.forwards
        self.forwards["skipped"] += output.forwards_skipped

        with self.clock.measure("write"), self.library.store.stage() as staging:
            media.write_segment(output.frames, staging.file(VIDEO), self.plan.fps)
            media.write_poster(output.frames, staging.file(POSTER))
            staging.write_tensors(BOUNDARY, output.boundary)
            manifest = {
                "fields": self.keys.segment_fields,
                "index": i,
                "seed": self.seeds[i],
                "previous": self.keys.segments[i - 1] if i else None,
                "frames": len(output.frames),
                "frames_sha256": frames_digest(output.frames),
                "seconds": dict(output.seconds),
                "forwards": {"computed": output.forwards, "skipped": output.forwards_skipped},
                "software": software.versions(),
            }
            self.refuse_changed_files()
            entry = staging.publish("segments", self.keys.segments[i], manifest)
        self.sources[i] = "generated"
        self.segment_seconds[i] = round(self.clock.spent() - before, 4)
        self.tell(Stage.GENERATED)
        return entry

    def publish(
        self,
        entries: list[Entry],
        parent: Take | None,
        keep: int,
        known: Take | None,
    ) -> Take:
        """Joins the segments and publishes the take. The rename at its end is the commit.

        A take that is `known`, and only lost its files, keeps its place in the tree.
        """
        self.tell(Stage.JOIN)
        with self.library.store.stage() as staging:
            take = Take(
                id=self.keys.take,
                session=self.session,
                parent=known.parent if known else parent.id if parent else None,
                keep=known.keep if known else keep,
                created=known.created if known else now(),
                recipe=self.library.portable(self.recipe),
                encoder_keys=self.keys.encoder,
                segments=tuple(
                    SegmentRef(index=i, id=key, seed=seed, frames=self.plan.chain.new_frames(i))
                    for i, (key, seed) in enumerate(
                        zip(self.keys.segments, self.seeds, strict=True)
                    )
                ),
                result=RESULT,
                software=software.versions(),
            )
            with self.clock.measure("join"):
                media.join(
                    [entry.file(VIDEO) for entry in entries],
                    staging.file(RESULT),
                    audio=self.recipe.audio,
                    metadata=embedded(take),
                )
            self.clock.stage = "publish"
            take = take.model_copy(
                update={"timings": self.clock.reading(), "forwards": self.forwards}
            )
            entry = staging.publish("takes", take.id, {"take": take.model_dump(mode="json")})
        return self.library.located(Take.model_validate(entry.manifest["take"]))

    def tell(self, stage: Stage, step: Step | None = None) -> None:
        where = {"segment": self.current, "segments": self.plan.chain.segments}
        if step is None:
            self.on_event(Event(stage, **where))
        else:
            self.on_event(
                Event(stage, **where, step=step.step, steps=step.steps, preview=step.preview)
            )

    @contextmanager
    def naming_what_failed(self) -> Iterator[None]:
        """Turns an unexpected error into one that says where it happened and what is kept."""
        try:
            yield
        except (BadInput, Cancelled, DiskFull):
            raise
        except Exception as error:
            segments = self.plan.chain.segments
            raise RenderFailed(self.clock.stage, self.current, segments, error) from error

    def report(self, take: Take, parent: Take | None) -> Rendered:
        return Rendered(
            take=take,
            parent=parent.id if parent else take.parent,
            sources=self.sources,
            segment_seconds=self.segment_seconds,
            encoders={
                part: "computed" if part in self.encoded else "reused" for part in self.keys.encoder
            },
            timings=self.clock.reading(),
            forwards=self.forwards,
        )


def frames_digest(frames: np.ndarray) -> str:
    """SHA-256 over the size and the pixels of uint8 `[n, H, W, 3]`, before any video coding."""
    digest = hashlib.sha256(repr(frames.shape).encode())
    digest.update(frames.tobytes())
    return digest.hexdigest()

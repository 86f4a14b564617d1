"""The story of a take, from a recipe and its seeds to a published folder.

`render` reads top to bottom; `_Run` is what one render has in its hands on the way.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.base import Pipeline, Plan, SegmentOutput, Step, Tensors
from pipelines.errors import BadInput
from reuse import DiskFull, Entry
from studio import flowcache, media, seeds, software
from studio.assemble import assemble, result_of, write_pictures
from studio.chapter import Chapter, plan_of, recipe_at
from studio.clock import Clock
from studio.compatible import refuse_unfit, refuse_unless_compatible
from studio.encoded import EncoderOutputs
from studio.errors import Cancelled, RenderFailed
from studio.events import Event, OnEvent, Stage, ignore
from studio.keys import Keys
from studio.library import Library
from studio.pace import Pace
from studio.ranks import Ranks
from studio.take import SegmentRef, Take, now

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger(__name__)

POSTER, BOUNDARY = "poster.webp", "boundary"


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
    """Part (`prompt`, `image`, `prompt@2`…) -> "computed" or "reused"."""
    timings: dict[str, float]
    forwards: dict[str, int]

    @property
    def encoder_source(self) -> str:
        """ "computed" if any part was, else "reused"."""
        return "computed" if "computed" in self.encoders.values() else "reused"


def render(
    library: Library,
    pipeline: Pipeline,
    chapters: Sequence[Chapter],
    chosen_seeds: Sequence[int],
    *,
    session: str,
    parent: Take | None = None,
    keep: int = 0,
    on_event: OnEvent = ignore,
) -> Rendered:
    """Makes the take of `chapters` (of one recipe, mostly) under `chosen_seeds`, one a segment;
    computes only what no disk entry holds yet.

    The files of the recipes are copies in the library (see `Library.adopt`).

    With a `parent`, its first `keep` segments must be the first `keep` of this take.

    Raises BadInput before any model is loaded, NotCompatible naming each field that keeps the
    prefix from being reused, Cancelled from `on_event`, DiskFull, and RenderFailed for whatever
    else stops it. In every case what was published before stays as it was.
    """
    clock = Clock()
    refuse_unfit(pipeline, chapters, library.hashes)
    plan = plan_of(pipeline, chapters)
    keys = Keys.of(pipeline, chapters, chosen_seeds, session, library.hashes)
    if parent is not None:
        refuse_unless_compatible(library, pipeline, parent, keep, chapters, keys)

    run = _Run(library, pipeline, chapters, plan, keys, chosen_seeds, session, on_event, clock)
    ranks = run.ranks
    known = library.known_take(keys.take)
    take = ranks.agree(known if known and library.is_whole(known) else None)
    if take is None:
        with run.naming_what_failed():
            entries: list[Entry] = []
            for i in range(plan.chain.segments):
                run.current = i
                entry = ranks.find(library.store, "segments", keys.segments[i])
                if entry is None:
                    inputs = run.encoder_outputs.of(i)
                    boundary = ranks.tensors(entries[-1], BOUNDARY) if entries else None
                    entry = run.generate(i, inputs, boundary)
                else:
                    run.tell(Stage.REUSED, id=entry.key)
                entries.append(entry)
            if ranks.main:
                take = run.publish(entries, parent, keep, known)
            take = ranks.agree(take)
    if ranks.main:
        library.record(take)
    return run.report(take, parent)


class _Run:
    """One render under way: what it works with, and what it has cost so far."""

    def __init__(
        self,
        library: Library,
        pipeline: Pipeline,
        chapters: Sequence[Chapter],
        plan: Plan,
        keys: Keys,
        chosen_seeds: Sequence[int],
        session: str,
        on_event: OnEvent,
        clock: Clock,
    ) -> None:
        self.library, self.pipeline, self.chapters = library, pipeline, chapters
        self.plan, self.keys, self.seeds, self.session = plan, keys, chosen_seeds, session
        self.on_event, self.clock = on_event, clock
        self.current = 0
        self.ranks = Ranks.here()
        self.encoder_outputs = EncoderOutputs(
            library,
            pipeline,
            chapters,
            keys,
            clock,
            self.ranks,
            self.tell,
            self.refuse_changed_files,
        )
        self.sources = ["reused"] * plan.chain.segments
        self.segment_seconds = [0.0] * plan.chain.segments
        self.forwards = {"computed": 0, "skipped": 0}

    def refuse_changed_files(self) -> None:
        """Raises RuntimeError if what the keys were made of is no longer what is on disk: the
        result could be that of other weights. Costs a look at the files' times."""
        if not self.keys.hold(self.pipeline, self.chapters, self.library.hashes):
            raise RuntimeError("files of the model or the recipe changed while it ran")

    def generate(self, i: int, inputs: Tensors, boundary: Tensors | None) -> Entry:
        """Generates segment i, writes it and publishes it."""
        recipe = recipe_at(self.chapters, i)
        before = self.clock.spent()
        self.tell(Stage.LOAD)
        with self.clock.measure("load"):
            self.pipeline.load_denoiser(recipe)
        loaded = self.clock.spent()

        def on_step(step: Step) -> None:
            last = step.step == step.steps
            self.clock.stage = "decode" if last else "denoise"
            self.tell(Stage.DENOISE, step=step)

        self.clock.stage = "denoise"
        noise = seeds.generator(self.seeds[i], i)
        flowcache.attach(self.pipeline, recipe)
        output = self.pipeline.generate(recipe, inputs, i, boundary, noise, on_step)
        first, end = self.plan.chain.new_frames(i)
        if len(output.frames) != end - first:
            raise RuntimeError(f"{len(output.frames)} frames came out instead of {end - first}")
        self.clock.add(output.seconds)
        self.forwards["computed"] += output.forwards
        self.forwards["skipped"] += output.forwards_skipped

        store = self.library.store
        with self.clock.measure("write"), self.ranks.stage(store) as staging:
            if self.ranks.main:
                write_pictures(staging, self.plan.chain, output.frames, self.plan.fps)
                media.write_poster(output.frames, staging.file(POSTER))
            staging.write_tensors(BOUNDARY, output.boundary, self.ranks.rank)
            manifest = {
                "fields": self.keys.of_segment(i).segment_fields,
                "index": i,
                "seed": self.seeds[i],
                "previous": self.keys.segments[i - 1] if i else None,
                "frames": len(output.frames),
                "frames_sha256": frames_digest(output.frames),
                "seconds": dict(output.seconds),
                "forwards": {"computed": output.forwards, "skipped": output.forwards_skipped},
                "software": software.versions(),
            }
            if output.skip_map is not None:
                manifest["flowcache"] = output.skip_map.to_json()
            self.refuse_changed_files()
            key = self.keys.segments[i]
            entry = self.ranks.publish(staging, store, "segments", key, manifest)
        self.sources[i] = "generated"
        self.segment_seconds[i] = round(self.clock.spent() - before, 4)
        self._learn_pace(i, output, self.clock.spent() - loaded)
        self.tell(Stage.GENERATED, id=entry.key)
        return entry

    def _learn_pace(self, i: int, output: SegmentOutput, seconds: float) -> None:
        """Remembers how long a segment took, for the next estimate; a render goes on without."""
        denoise = output.seconds.get("denoise")
        if not denoise or not self.ranks.main:
            return
        recipe, steps = recipe_at(self.chapters, i), self.plan.steps[i]
        try:
            pace = Pace(self.library.database)
            other, forwards = max(seconds - denoise, 0.0), self.pipeline.forwards_per_step(recipe)
            pace.learn(recipe, recipe.frames, steps, denoise, other, forwards)
        except sqlite3.Error as error:
            log.warning("how long segment %d took is not remembered: %s", i + 1, error)

    def publish(
        self, entries: list[Entry], parent: Take | None, keep: int, known: Take | None
    ) -> Take:
        """Joins the segments and publishes the take. The rename at its end is the commit.

        A take that is `known`, and only lost its files or lies in the trash, keeps its place in
        the tree. None comes from what was made from itself.
        """
        trashed = self.library.trash.find(self.keys.take)
        known = known or trashed
        if parent is not None and self._comes_from_this(parent):
            parent, keep = None, 0
        self.tell(Stage.JOIN)
        segments = zip(self.keys.segments, self.seeds, strict=True)
        take = Take(
            id=self.keys.take,
            session=self.session,
            parent=known.parent if known else parent.id if parent else None,
            keep=known.keep if known else keep,
            created=known.created if known else now(),
            recipe=self.chapters[0].recipe,
            later=tuple(self.chapters[1:]),
            encoder_keys=self.keys.encoder,
            segments=tuple(
                SegmentRef(index=i, id=key, seed=seed, frames=self.plan.chain.new_frames(i))
                for i, (key, seed) in enumerate(segments)
            ),
            result=result_of(self.plan.chain),
            width=self.plan.width,
            height=self.plan.height,
            forwards=self.forwards,
            software=software.versions(),
        )
        take = assemble(self.library, take, entries, self.clock)
        if trashed is not None:
            self.library.trash.drop(take.id)
        return take

    def _comes_from_this(self, parent: Take) -> bool:
        """Whether the take that is being made is among the parents of `parent`."""
        seen: set[str] = set()
        above: Take | None = parent
        while above is not None and above.parent not in seen:
            if self.keys.take in (above.id, above.parent):
                return True
            if above.parent is None:
                return False
            seen.add(above.parent)
            above = self.library.known_take(above.parent) or self.library.trash.find(above.parent)
        return False

    def tell(self, stage: Stage, step: Step | None = None, id: str | None = None) -> None:
        where = {"segment": self.current, "segments": self.plan.chain.segments}
        if step is None:
            self.on_event(Event(stage, **where, id=id))
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
            encoders=self.encoder_outputs.sources,
            timings=self.clock.reading(),
            forwards=self.forwards,
        )


def frames_digest(frames: np.ndarray) -> str:
    """SHA-256 over the size and the pixels of uint8 `[n, H, W, 3]`, before any video coding."""
    digest = hashlib.sha256(repr(frames.shape).encode())
    digest.update(frames.tobytes())
    return digest.hexdigest()

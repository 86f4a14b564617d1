"""The benchmark of reuse: what a retake costs beside a full take, measured in one run.

All takes of a round run with the weights already in memory, one after the other, so that what is
compared is the work and not the start of the program. A full take also loads the text encoder and
encodes the prompt, which no retake does: so each is shown beside the encoder-reuse take too.
What that saves a program that has just started is measured apart: loading against encoding.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from studio import actions, media, software
from studio.assemble import pictures_of
from studio.bench_inputs import big_segments, fields_for
from studio.engine import Engine
from studio.events import Event, OnEvent, ignore
from studio.library import Library
from studio.recipe import Recipe
from studio.render import Rendered

ROUNDS = 3


def reuse(
    model: str,
    segments: int | None = None,
    steps: int | None = None,
    on_event: OnEvent = ignore,
    given: Mapping[str, Any] = MappingProxyType({}),
    rounds: int = ROUNDS,
    joins: bool = True,
) -> dict[str, Any]:
    """Seconds and ratios of a full take, an encoder-reuse take, a retake at each N and a repeat;
    of each encoder by itself; and of a join beside a re-encode of the same video. Medians over so
    many rounds. `given` are recipe fields that replace the model's own and its sample's; `joins`
    leaves out the join, which takes a minute. Raises BadInput as a render does.

    Two ideals stand beside a retake that keeps N of S segments: (S - N) / S, since every segment
    denoises F frames, and by the frames that it adds, since the first one adds more and the last
    one may add fewer.
    """
    engine = Engine()
    pipeline = engine.pipeline(model)
    with tempfile.TemporaryDirectory(prefix="retake-bench-") as folder:
        asked = {**given, "segments": segments, "steps": steps}
        asked = {name: value for name, value in asked.items() if value is not None}
        given = fields_for(model, pipeline, Path(folder), asked)
        with Library(Path(folder) / "warm") as library:
            order = actions.order_take(library, engine, model, given, [0])
            segments = len(order.seeds)
            fresh = [_fresh(library, model, given, on_event) for _ in range(2)]
            encoders = _encoders(model, order.recipe)
            cold = actions.fulfil(library, engine, order, on_event)
        spent = [
            _round(Path(folder) / str(n), engine, model, given, segments, on_event)
            for n in range(rounds)
        ]
        files = [taken.pop("files") for taken in spent]
        joined = []
        if joins and segments > 1:
            big = big_segments(Path(folder))
            joined.append(_join_against_reencode(Path(folder), "this video", files[0], rounds))
            joined.append(_join_against_reencode(Path(folder), "large video", big, rounds))

    seconds = {name: statistics.median(one[name] for one in spent) for name in spent[0]}
    full, keep_0 = seconds["full take"], seconds["encoder reuse (keep 0)"]
    frames = [0, *(part.frames[1] for part in cold.take.segments)]
    return {
        "model": model,
        "segments": segments,
        "frames": frames[-1],
        "fps": cold.take.recipe.fps,
        "steps": cold.take.recipe.steps,
        "rounds": rounds,
        "fresh": fresh,
        "encoders": encoders,
        "takes": [
            {
                "what": name,
                "seconds": round(seconds[name], 4),
                "ratio": round(seconds[name] / full, 4),
                "ratio_to_keep_0": round(seconds[name] / keep_0, 4),
                "ideal": round((segments - kept) / segments, 4),
                "ideal_by_frames": round(1 - frames[kept] / frames[-1], 4),
            }
            for name, kept in _kept(segments).items()
        ],
        "joins": joined,
        "software": software.versions(),
    }


def _kept(segments: int) -> dict[str, int]:
    """What is measured, in this order, and how many segments each keeps."""
    retakes = {f"retake, keep {n}": n for n in range(1, segments)}
    return {"full take": 0, "encoder reuse (keep 0)": 0, **retakes, "repeat": segments}


def _encoders(model: str, recipe: Recipe) -> list[dict[str, Any]]:
    """Seconds that loading and encoding take for each part of what encoders put out. What was
    loaded for the part before is not loaded again."""
    pipeline, told = Engine().pipeline(model), []
    for part in pipeline.encoder_inputs(recipe):
        before, started = pipeline.loaded, time.perf_counter()
        pipeline.load_encoders([part])
        loaded = time.perf_counter()
        pipeline.encode(recipe, [part])
        told.append(
            {
                "part": part,
                "load": round(loaded - started, 4),
                "encode": round(time.perf_counter() - loaded, 4),
                "loaded": sorted(pipeline.loaded - before),
            }
        )
    pipeline.free_encoders()
    return told


def _fresh(
    library: Library, model: str, given: dict[str, Any], on_event: OnEvent
) -> dict[str, Any]:
    """Seconds by stage of a take with nothing in memory, and which components it loaded. The
    second in one library finds what the first encoded."""
    engine = Engine()
    pipeline, loaded = engine.pipeline(model), set()

    def look(event: Event) -> None:
        loaded.update(pipeline.loaded)
        on_event(event)

    took = actions.generate(library, engine, model, given, on_event=look)
    stages = ("load", "encode", "denoise", "decode", "total")
    return {
        "encoder": took.encoder_source,
        **{stage: took.timings[stage] for stage in stages},
        "loaded": sorted(loaded),
    }


def _round(
    folder: Path,
    engine: Engine,
    model: str,
    given: dict[str, Any],
    segments: int,
    on_event: OnEvent,
) -> dict[str, Any]:
    """Seconds of each kind of take in a fresh library, and the segment files of the full one."""
    with Library(folder) as library:

        def timed(act: Callable[[], Rendered]) -> tuple[float, Rendered]:
            started = time.perf_counter()
            rendered = act()
            return time.perf_counter() - started, rendered

        def generate() -> Rendered:
            return actions.generate(library, engine, model, given, [1], on_event=on_event)

        spent: dict[str, Any] = {}
        spent["full take"], full = timed(generate)
        for name, n in list(_kept(segments).items())[1:-1]:
            spent[name], _ = timed(
                lambda n=n: actions.retake(
                    library, engine, full.take.id, n, [100 + n], on_event=on_event
                )
            )
        spent["repeat"], _ = timed(generate)
        spent["files"] = [
            (entry := library.store.find("segments", part.id)).file(pictures_of(entry))
            for part in full.take.segments
        ]
        # The folder goes when the benchmark ends; the files are read before that.
        return spent


def _join_against_reencode(
    folder: Path, name: str, files: list[Path], rounds: int
) -> dict[str, Any]:
    """Seconds to join segment files by stream copy, and to decode and encode the joined video."""
    joined, again = folder / "joined.mp4", folder / "again.mp4"
    joins, codings = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        media.join(files, joined)
        joins.append(time.perf_counter() - started)
        info = media.probe(joined)
        started = time.perf_counter()
        media.write_segment(media.decode(joined), again, info.fps)
        codings.append(time.perf_counter() - started)
    join, coding = statistics.median(joins), statistics.median(codings)
    return {
        "what": name,
        "frames": info.frames,
        "size": [info.width, info.height],
        "join_seconds": round(join, 4),
        "reencode_seconds": round(coding, 4),
        "times_faster": round(coding / join, 1),
    }


def table(told: dict[str, Any]) -> str:
    """The same for reading."""
    lines = [
        f"{told['model']}, {told['segments']} segments, {told['frames']} frames, "
        f"{told['steps']} steps, median of {told['rounds']}",
        f"{'':<24}{'seconds':>9}{'to full':>9}{'to keep 0':>11}{'ideal':>9}{'by frames':>11}",
    ]
    lines += [
        f"{row['what']:<24}{row['seconds']:>9.3f}{row['ratio']:>9.3f}"
        f"{row['ratio_to_keep_0']:>11.3f}{row['ideal']:>9.3f}{row['ideal_by_frames']:>11.3f}"
        for row in told["takes"]
    ]
    lines += [
        f"with nothing in memory, encoder outputs {one['encoder']}: load {one['load']:.2f} s, "
        f"encode {one['encode']:.2f} s, in all {one['total']:.2f} s"
        for one in told["fresh"]
    ]
    lines += [
        f"encoder of {one['part']}: load {one['load']:.2f} s, encode {one['encode']:.2f} s"
        for one in told["encoders"]
    ]
    lines += [
        f"join of {j['frames']} frames {j['size'][0]}x{j['size'][1]}: "
        f"{j['join_seconds'] * 1000:.0f} ms, re-encode {j['reencode_seconds'] * 1000:.0f} ms, "
        f"{j['times_faster']} times faster"
        for j in told["joins"]
    ]
    return "\n".join(lines)

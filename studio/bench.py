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
import wave
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from pipelines import catalogue
from pipelines.base import Pipeline, Task
from pipelines.frames import Chain
from studio import actions, media, software
from studio.assemble import pictures_of
from studio.engine import Engine
from studio.events import Event, OnEvent, ignore
from studio.library import Library
from studio.render import Rendered

ROUNDS, SEGMENTS = 3, 4
BIG_WIDTH, BIG_HEIGHT, BIG_SEGMENTS = 832, 480, (81, 72, 72, 33)
VOICE_RATE = 16_000
PROMPT = "a red boat drifting left over the sea at sunset"


def reuse(
    model: str,
    segments: int | None = None,
    steps: int | None = None,
    on_event: OnEvent = ignore,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Seconds and ratios of a full take, an encoder-reuse take, a retake at each N and a repeat;
    and of a join beside a re-encode of the same video. Medians over a few rounds. `given` are
    recipe fields that replace the model's own. Raises BadInput as a render does."""
    engine = Engine()
    pipeline = engine.pipeline(model)
    with tempfile.TemporaryDirectory(prefix="retake-bench-") as folder:
        if segments is None:
            segments = SEGMENTS if pipeline.capabilities.segment_reuse else 1
        given = {
            "prompt": PROMPT,
            "segments": segments,
            "steps": steps,
            **_files(pipeline, Path(folder), _settings(model, given), segments),
            **given,
        }
        with Library(Path(folder) / "warm") as library:
            fresh = [_fresh(library, model, given, on_event) for _ in range(2)]
            cold = actions.generate(library, engine, model, given, [0], on_event=on_event)
        rounds = [
            _round(Path(folder) / str(n), engine, model, given, segments, on_event)
            for n in range(ROUNDS)
        ]
        files = [taken.pop("files") for taken in rounds]
        joins = []
        if segments > 1:
            big = _big_segments(Path(folder))
            joins.append(_join_against_reencode(Path(folder), "this video", files[0]))
            joins.append(_join_against_reencode(Path(folder), "large video", big))

    seconds = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    full, keep_0 = seconds["full take"], seconds["encoder reuse (keep 0)"]
    ideal = {"full take": 1.0, "encoder reuse (keep 0)": 1.0, "repeat": 0.0}
    ideal |= {f"retake, keep {n}": (segments - n) / segments for n in range(1, segments)}
    return {
        "model": model,
        "segments": segments,
        "steps": cold.take.recipe.steps,
        "rounds": ROUNDS,
        "fresh": fresh,
        "takes": [
            {
                "what": name,
                "seconds": round(spent, 4),
                "ratio": round(spent / full, 4),
                "ratio_to_keep_0": round(spent / keep_0, 4),
                "ideal": round(ideal[name], 4),
            }
            for name, spent in seconds.items()
        ],
        "joins": joins,
        "software": software.versions(),
    }


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


def _settings(model: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**catalogue.find(model).defaults, **given}


def _files(
    pipeline: Pipeline, folder: Path, settings: Mapping[str, Any], segments: int
) -> dict[str, Path]:
    """A picture, where the model makes nothing without one, and a voice for so many segments."""
    tasks = set(pipeline.capabilities.tasks)
    if {Task.T2I, Task.T2V} & tasks:
        return {}
    media.write_image(_picture(0), folder / "picture.png")
    files = {"image": folder / "picture.png"}
    if "last_image" in pipeline.capabilities.extras:
        media.write_image(_picture(60), folder / "last.png")
        files["last_image"] = folder / "last.png"
    if Task.S2V in tasks:
        chain = Chain(segments, settings["frames"], settings["overlap"])
        files["audio"] = _voice(folder / "voice.wav", chain.total / settings["fps"])
    return files


def _voice(path: Path, seconds: float) -> Path:
    """A hum that swells twice a second."""
    time_ = np.arange(round(seconds * VOICE_RATE)) / VOICE_RATE
    hum = np.sin(2 * np.pi * 180 * time_) * (0.6 + 0.4 * np.sin(4 * np.pi * time_))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(VOICE_RATE)
        file.writeframes((hum * 10_000).astype("<i2").tobytes())
    return path


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
        for n in range(segments):
            name = f"retake, keep {n}" if n else "encoder reuse (keep 0)"
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


def _big_segments(folder: Path) -> list[Path]:
    """A moving picture of a common size, 258 frames, as segment files."""
    files, at = [], 0
    for number, count in enumerate(BIG_SEGMENTS):
        frames = np.stack([_picture(at + k) for k in range(count)])
        files.append(folder / f"big-{number}.mp4")
        media.write_segment(frames, files[-1], 16)
        at += count
    return files


def _picture(number: int) -> np.ndarray:
    """One of a row of pictures that move, uint8 `[H, W, 3]`."""
    y, x = np.mgrid[0:BIG_HEIGHT, 0:BIG_WIDTH].astype(np.float32)
    noise = np.random.default_rng(0).normal(0, 6, (BIG_HEIGHT, BIG_WIDTH, 3)).astype(np.float32)
    wave = 110 + 90 * np.sin((x + 3 * number) / 40) * np.cos((y - number) / 30)
    return np.clip(wave[..., None] + np.roll(noise, number, axis=1), 0, 255).astype(np.uint8)


def _join_against_reencode(folder: Path, name: str, files: list[Path]) -> dict[str, Any]:
    """Seconds to join segment files by stream copy, and to decode and encode the joined video."""
    joined, again = folder / "joined.mp4", folder / "again.mp4"
    joins, codings = [], []
    for _ in range(ROUNDS):
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
        f"{told['model']}, {told['segments']} segments, {told['steps']} steps, "
        f"median of {told['rounds']}",
        f"{'':<24}{'seconds':>9}{'to full':>9}{'to keep 0':>11}{'ideal':>9}",
    ]
    lines += [
        f"{row['what']:<24}{row['seconds']:>9.3f}{row['ratio']:>9.3f}"
        f"{row['ratio_to_keep_0']:>11.3f}{row['ideal']:>9.3f}"
        for row in told["takes"]
    ]
    lines += [
        f"with nothing in memory, encoder outputs {one['encoder']}: load {one['load']:.2f} s, "
        f"encode {one['encode']:.2f} s, in all {one['total']:.2f} s"
        for one in told["fresh"]
    ]
    lines += [
        f"join of {j['frames']} frames {j['size'][0]}x{j['size'][1]}: "
        f"{j['join_seconds'] * 1000:.0f} ms, re-encode {j['reencode_seconds'] * 1000:.0f} ms, "
        f"{j['times_faster']} times faster"
        for j in told["joins"]
    ]
    return "\n".join(lines)

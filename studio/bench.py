"""The benchmark of reuse: what a retake costs beside a full take, measured in one run.

All takes of a round run with the weights already in memory, one after the other, so that what is
compared is the work and not the start of the program. A full take also loads the text encoder and
encodes the prompt, which no retake does: so each is shown beside the encoder-reuse take too.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from studio import actions, media, software
from studio.assemble import VIDEO
from studio.engine import Engine
from studio.events import OnEvent, ignore
from studio.library import Library
from studio.render import Rendered

ROUNDS = 3
BIG_WIDTH, BIG_HEIGHT, BIG_SEGMENTS = 832, 480, (81, 72, 72, 33)
PROMPT = "a red boat drifting left over the sea at sunset"


def reuse(
    model: str, segments: int = 4, steps: int | None = None, on_event: OnEvent = ignore
) -> dict[str, Any]:
    """Seconds and ratios of a full take, an encoder-reuse take, a retake at each N and a repeat;
    and of a join beside a re-encode of the same video. Medians over a few rounds."""
    engine = Engine()
    given = {"prompt": PROMPT, "segments": segments, "steps": steps}
    with tempfile.TemporaryDirectory(prefix="retake-bench-") as folder:
        with Library(Path(folder) / "warm") as library:
            cold = actions.generate(library, engine, model, given, [0], on_event=on_event)
        rounds = [
            _round(Path(folder) / str(n), engine, model, given, segments, on_event)
            for n in range(ROUNDS)
        ]
        joins = [_join_against_reencode(Path(folder), "this video", rounds[0].pop("files"))]
        joins.append(
            _join_against_reencode(Path(folder), "large video", _big_segments(Path(folder)))
        )
    for taken in rounds[1:]:
        taken.pop("files")

    seconds = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
    full, keep_0 = seconds["full take"], seconds["encoder reuse (keep 0)"]
    ideal = {"full take": 1.0, "encoder reuse (keep 0)": 1.0, "repeat": 0.0}
    ideal |= {f"retake, keep {n}": (segments - n) / segments for n in range(1, segments)}
    return {
        "model": model,
        "segments": segments,
        "steps": cold.take.recipe.steps,
        "rounds": ROUNDS,
        "cold_load_seconds": cold.timings["load"],
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
            library.store.find("segments", part.id).file(VIDEO) for part in full.take.segments
        ]
        # The folder goes when the benchmark ends; the files are read before that.
        return spent


def _big_segments(folder: Path) -> list[Path]:
    """A moving picture of a common size, 258 frames, as segment files."""
    import numpy as np

    y, x = np.mgrid[0:BIG_HEIGHT, 0:BIG_WIDTH].astype(np.float32)
    noise = np.random.default_rng(0).normal(0, 6, (BIG_HEIGHT, BIG_WIDTH, 3)).astype(np.float32)
    files, at = [], 0
    for number, count in enumerate(BIG_SEGMENTS):
        frames = np.empty((count, BIG_HEIGHT, BIG_WIDTH, 3), np.uint8)
        for k in range(count):
            wave = 110 + 90 * np.sin((x + 3 * (at + k)) / 40) * np.cos((y - at - k) / 30)
            frames[k] = np.clip(wave[..., None] + np.roll(noise, at + k, axis=1), 0, 255)
        files.append(folder / f"big-{number}.mp4")
        media.write_segment(frames, files[-1], 16)
        at += count
    return files


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
        f"join of {j['frames']} frames {j['size'][0]}x{j['size'][1]}: "
        f"{j['join_seconds'] * 1000:.0f} ms, re-encode {j['reencode_seconds'] * 1000:.0f} ms, "
        f"{j['times_faster']} times faster"
        for j in told["joins"]
    ]
    return "\n".join(lines)

"""Another ending of the same speech: how many segments hear nothing of the difference."""

from __future__ import annotations

import functools
from pathlib import Path

from pipelines.base import Request
from pipelines.infinitetalk.plan import longest, voices_of
from pipelines.infinitetalk.sound import read_voice
from pipelines.infinitetalk.windows import REACH, frames_of, segments_needed

SAME = 2 / 2**15
"""How far samples may differ, of 1, and be the same: what saving in 16 bits once more does. A quiet
voice is made loud before it is heard, so that more than that can be heard of it."""


def most_kept(kept: Request, asked: Request) -> int:
    """How many segments of `kept` may stand before those of `asked`, which differ in their voices
    alone.

    Those of which every frame, and the two after it that the last one hears, is the same in both.
    A voice is silent from its end up to that of the longest, as when it is encoded. What the audio
    encoder makes of the beginning may still change a little with the end, as it listens to all of
    a voice: kept segments were made with what it heard then. Raises BadInput for a voice that
    cannot be used.
    """
    before, after = voices_of(kept), voices_of(asked)
    if before.keys() != after.keys():
        return 0
    same = min(longest(kept), longest(asked))
    for field in before:
        first = _first_difference(before[field], after[field], field)
        same = same if first is None else min(same, first)
    frames = frames_of(same, asked.fps) - REACH
    if frames < asked.frames:
        return 0
    return segments_needed(frames + 1, asked.frames, asked.overlap) - 1


def _first_difference(before: Path, after: Path, field: str) -> int | None:
    """The first sample that differs in two voices with silence behind them; None if none does.
    What was found is remembered while both files stay as they are."""
    if before == after:
        return None
    return _compared(before, after, field, (_state(before), _state(after)))


def _state(path: Path) -> tuple[int, int] | None:
    stat = path.stat() if path.is_file() else None
    return (stat.st_size, stat.st_mtime_ns) if stat else None


@functools.lru_cache(maxsize=64)
def _compared(before: Path, after: Path, field: str, states: object) -> int | None:
    import numpy as np

    one, other = read_voice(before, field), read_voice(after, field)
    length = max(len(one), len(other))
    one, other = (np.pad(voice, (0, length - len(voice))) for voice in (one, other))
    differs = np.abs(one - other) > SAME
    return int(differs.argmax()) if differs.any() else None

"""Another ending of the same speech: how many segments hear nothing of the difference."""

from __future__ import annotations

from pathlib import Path

from pipelines.base import Request
from pipelines.infinitetalk.plan import voices_of
from pipelines.infinitetalk.sound import read_voice
from pipelines.infinitetalk.windows import REACH, frames_of, segments_needed

SAME = 1e-3
"""How far samples may differ, of 1, and be the same: what saving in 16 bits once more does."""


def most_kept(kept: Request, asked: Request) -> int:
    """How many segments of `kept` may stand before those of `asked`, which differ in their voices
    alone.

    Those of which every frame, and the two after it that the last one hears, is the same in both.
    What the audio encoder makes of the beginning may still change a little with the end, as it
    listens to all of a voice: kept segments were made with what it heard then. Raises BadInput for
    a voice that cannot be used.
    """
    before, after = voices_of(kept), voices_of(asked)
    if before.keys() != after.keys():
        return 0
    same = min(_same_samples(before[field], after[field], field) for field in before)
    frames = frames_of(same, asked.fps) - REACH
    if frames < asked.frames:
        return 0
    return segments_needed(frames + 1, asked.frames, asked.overlap) - 1


def _same_samples(before: Path, after: Path, field: str) -> int:
    """With how many samples that are the same two voices begin."""
    import numpy as np

    one, other = read_voice(before, field), read_voice(after, field)
    length = min(len(one), len(other))
    differs = np.abs(one[:length] - other[:length]) > SAME
    return int(differs.argmax()) if differs.any() else length

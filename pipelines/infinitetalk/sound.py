"""A file with a voice, of any common format and rate, as mono samples at 16 kHz."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BadInput
from pipelines.ffmpeg import WHOLE, Ffmpeg, declared, has_faults
from pipelines.infinitetalk.windows import SAMPLE_RATE

if TYPE_CHECKING:
    import numpy as np

TARGET_LUFS = -23.0
"""Loudness that the model was trained with."""
MOST_SECONDS = 1200
LEAST_SECONDS = 0.1
QUIETEST = 1e-3
"""Peak, of 1, below which a voice is taken for silence (-60 dB)."""
DEMUXERS = (
    *("wav", "w64", "aiff", "au", "caf", "flac", "ogg", "mp3", "aac", "ac3", "eac3", "amr", "wv"),
    *("ape", "tta", "asf", "mov", "matroska", "avi", "mpeg", "mpegts", "flv"),
)
"""What sounds, and videos with sound, are read by. ffmpeg knows more, among them lists that name
other files and texts that make sounds."""


def read_voice(path: Path, field: str = "audio") -> np.ndarray:
    """float32 `[samples]`, mono, 16 kHz, about -1..1, beginning with the first sample of the file.

    Raises BadInput of `field` if there is no voice in it that can be used.
    """
    import numpy as np

    path = Path(path)
    if not path.is_file():
        raise BadInput(field, str(path), "There is no such file.")
    if path.stat().st_size == 0:
        raise BadInput(field, str(path), "It is empty.")
    voice, said, well = _decoded(path, field)
    if not well or not len(voice):
        fix = "There is no sound in it that can be read; use wav, mp3, flac, ogg or m4a."
        raise BadInput(field, str(path), fix)
    seconds = len(voice) / SAMPLE_RATE
    if seconds > MOST_SECONDS:
        fix = f"It is longer than {MOST_SECONDS // 60} minutes; cut it into parts."
        raise BadInput(field, str(path), fix)
    promised = declared(said)
    if has_faults(said) and (promised is None or seconds < WHOLE * promised):
        fix = f"It is damaged: only {seconds:.1f} s of it can be read. Save it anew."
        raise BadInput(field, str(path), fix)
    if seconds < LEAST_SECONDS:
        fix = f"It lasts {seconds:.2f} s; a voice takes at least {LEAST_SECONDS} s."
        raise BadInput(field, str(path), fix)
    if not np.isfinite(voice).all():
        raise BadInput(field, str(path), "It is damaged: some samples are not numbers.")
    if np.abs(voice).max() < QUIETEST:
        raise BadInput(field, str(path), "It is silent; choose a file with a voice.")
    return voice


def samples_in(path: Path, field: str = "audio") -> int:
    """How many samples `read_voice` gives; what was found is remembered while the file stays as it
    is. Raises as `read_voice` does."""
    path = Path(path)
    stat = path.stat() if path.is_file() else None
    return _samples(path, field, (stat.st_size, stat.st_mtime_ns) if stat else None)


@functools.lru_cache(maxsize=64)
def _samples(path: Path, field: str, state: tuple[int, int] | None) -> int:
    return len(read_voice(path, field))


def _decoded(path: Path, field: str) -> tuple[np.ndarray, str, bool]:
    """Samples, what ffmpeg said, whether it ended well."""
    import numpy as np

    mono = ("-map", "0:a:0", "-t", str(MOST_SECONDS + 1), "-ac", "1", "-ar", str(SAMPLE_RATE))
    with Ffmpeg(path, field, DEMUXERS, *mono, "-f", "f32le", "pipe:1") as process:
        pcm = process.read()
        well, said = process.ended(), process.said()
    samples = np.frombuffer(pcm[: len(pcm) // 4 * 4], dtype="<f4").astype(np.float32)
    return samples, said, well

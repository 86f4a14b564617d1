"""Frames out of a video, each exactly once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from studio.media import ffmpeg
from studio.media.errors import MediaError
from studio.media.probe import probe

TO_RGB = "scale=flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact,format=rgb24"
"""The matrix and the range come from the tags of the file; the rounding is fixed."""

STRICT = ("-xerror", "-err_detect", "explode")
"""Fail at the first fault, where ffmpeg would paint over it from the frames around."""


def decode(path: Path, first: int = 0, last: int | None = None) -> np.ndarray:
    """Frames `first` up to but not including `last` (None: to the end), uint8 `[n, H, W, 3]`.

    `decode(path, *chain.new_frames(i))` gives what segment i added. Every frame before `last` is
    decoded, so there is no seeking that could land beside the frame.

    Raises MediaError if the file cannot be decoded, or has no such frames.
    """
    info = probe(path)
    last = info.frames if last is None else last
    if not 0 <= first <= last <= info.frames:
        raise MediaError(f"{path} has {info.frames} frames; {first} to {last} were asked for")
    pictures = np.empty((last - first, info.height, info.width, 3), np.uint8)
    if first == last:
        return pictures
    arguments = [
        *(*STRICT, "-i", ffmpeg.url(path), "-map", "0:v:0"),
        *("-vf", f"trim=start_frame={first}:end_frame={last},{TO_RGB}"),
        *("-fps_mode", "passthrough", "-f", "rawvideo", "pipe:1"),
    ]
    count = ffmpeg.run(arguments, f"{path} cannot be decoded", into=pictures)
    if count != pictures.nbytes:
        found = count // pictures[0].nbytes
        raise MediaError(f"{path} is damaged: {found} of {last - first} frames could be decoded")
    return pictures


def check_video(path: Path) -> None:
    """Raise MediaError, which names the file, if a frame of it cannot be decoded."""
    arguments = [*STRICT, "-i", ffmpeg.url(path), "-map", "0:v:0", "-f", "null", "-"]
    ffmpeg.run(arguments, f"{path} cannot be decoded")

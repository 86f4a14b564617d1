"""Frames into H.264, so that what is encoded once can be joined any number of times.

A segment is a closed group of pictures: one keyframe, at its start, and nothing that refers across
its ends. There are no B-frames, so frames are stored in the order they are shown (pts = dts). One
tick of the file's clock is one frame, so no rounding can creep in when segments are joined.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from studio.media import ffmpeg
from studio.media.errors import MediaError
from studio.media.whole import whole_file

CODING = 1
"""Counted up when the settings below change: segments of different coding do not join."""
CRF = 15
"""Constant rate factor of x264: no loss that the eye could see."""
SMALL, CRF_OF_SMALL = 256 * 256, 6
"""Up to so many pixels a picture is shown enlarged, and costs little: nearly no loss."""
EVEN = "ipratio=1.0:mbtree=0"
"""Every frame as fine as the next. By default a keyframe is finer and the last frames before one
are coarser, which shows as a twitch at each seam between segments."""

THREADS = 4
"""Fixed, because the bytes that x264 writes depend on it, and on nothing else of the machine."""

TO_YUV = (
    "scale=out_color_matrix=bt709:out_range=tv:flags=bicubic+accurate_rnd+full_chroma_int+bitexact,"
    "format=yuv420p,"
    "setparams=colorspace=bt709:color_primaries=bt709:color_trc=bt709:range=tv"
)
"""RGB to BT.709, limited range, and tags that say so. Left to itself ffmpeg converts by BT.601 and
tags nothing, and players then shift the colours."""

REPRODUCIBLE = ("-fflags", "+bitexact", "-flags", "+bitexact")
"""No dates and no program versions in the file."""


def write_segment(frames: np.ndarray, path: Path, fps: int) -> None:
    """Encode `frames`, uint8 `[n, H, W, 3]`, n >= 1, as an mp4 file of its own.

    The same frames give the same bytes. H and W must be even. An existing file is replaced.
    Raises MediaError if the frames do not fit or ffmpeg fails, DiskFull if the disk is full.
    """
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or not frames.size:
        raise MediaError(f"frames: uint8 [n, H, W, 3] is needed, not {frames.dtype} {frames.shape}")
    if fps < 1 or fps != int(fps):
        raise MediaError(f"fps: {fps} cannot be used. Use a whole number from 1")
    _, height, width, _ = frames.shape
    for name, value in (("width", width), ("height", height)):
        if value % 2:
            raise MediaError(f"{name}: {value} is odd. H.264 needs an even one: {value + 1}")
    with whole_file(path) as draft:
        arguments = [
            *raw_input(width, height, fps),
            *("-vf", TO_YUV, "-c:v", "libx264", "-preset", "medium"),
            *("-crf", str(CRF_OF_SMALL if width * height <= SMALL else CRF)),
            *("-x264-params", EVEN),
            *("-bf", "0", "-g", "1000000", "-sc_threshold", "0", "-threads", str(THREADS)),
            *REPRODUCIBLE,
            *container(int(fps)),
            ffmpeg.url(draft),
        ]
        ffmpeg.run(arguments, f"{path} cannot be written", frames=frames)


def raw_input(width: int, height: int, fps: float) -> tuple[str, ...]:
    """Options that let ffmpeg read RGB pictures from its stdin."""
    size = f"{width}x{height}"
    return (
        *("-f", "rawvideo", "-pixel_format", "rgb24", "-video_size", size),
        *("-framerate", str(fps), "-i", "pipe:0"),
    )


def container(timescale: int) -> tuple[str, ...]:
    """Options for an mp4 file with its index in front and `timescale` ticks in a second."""
    return (
        *("-video_track_timescale", str(timescale), "-movie_timescale", str(timescale * 1000)),
        *("-movflags", "+faststart", "-f", "mp4"),
    )

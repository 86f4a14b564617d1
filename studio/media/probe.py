"""What a video file is: its frames, rate, size and length, read from its index in a millisecond."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from studio.media.mp4 import video_track


@dataclass(frozen=True)
class VideoInfo:
    """What `probe` found."""

    frames: int
    fps: float
    """Frames in a second, on average if they are not evenly spaced."""
    width: int
    height: int
    seconds: float
    audio: bool
    """There is sound too."""


def probe(path: Path) -> VideoInfo:
    """Look at an mp4 file without decoding it.

    Raises MediaError, which names the file, if it is missing, damaged, cut short, or no mp4 video.
    """
    track = video_track(path)
    seconds = track.ticks / track.timescale
    return VideoInfo(
        frames=track.frames,
        fps=track.frames * track.timescale / track.ticks if track.ticks else 0.0,
        width=track.width,
        height=track.height,
        seconds=seconds,
        audio=track.audio,
    )

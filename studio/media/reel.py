"""Takes side by side, with labels: composed by moviepy, one picture at a time."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from studio.media.errors import MediaError
from studio.media.probe import VideoInfo, probe

if TYPE_CHECKING:
    from moviepy import VideoClip

IN_A_ROW = 3
LARGEST = 8192
"""Pixels across or down: what players can still show."""
BACKGROUND = (16, 16, 18)
INK = (240, 240, 240)


@contextmanager
def compose(takes: Sequence[Path], labels: Sequence[str] | None, scale: int) -> Iterator[VideoClip]:
    """A clip that plays the takes at the same time, up to three in a row, else in a square.

    All get the height of the tallest, times `scale`; one that ends early holds its last frame.
    The clip is as long as the longest take. Raises MediaError if a take cannot be read, or if the
    whole would be larger than `LARGEST`.
    """
    from moviepy import ColorClip, VideoFileClip, clips_array

    infos = [probe(take) for take in takes]
    height = max(info.height for info in infos) * scale
    seconds = max(info.seconds for info in infos)
    widths = [2 * round(info.width * height / info.height / 2) for info in infos]
    columns = len(takes) if len(takes) <= IN_A_ROW else math.ceil(math.sqrt(len(takes)))
    across, down = max(widths) * columns, height * math.ceil(len(takes) / columns)
    if max(across, down) > LARGEST:
        raise MediaError(
            f"the film would be {across}x{down} pixels; {LARGEST} is the most. Use a smaller scale"
        )
    with ExitStack() as stack:
        cells = []
        for i, (take, info, width) in enumerate(zip(takes, infos, widths, strict=True)):
            clip = stack.enter_context(closing(VideoFileClip(str(take), audio=False)))
            clip = _hold(clip, info, seconds)
            if (width, height) != (info.width, info.height):
                clip = clip.resized((width, height))
            cells.append(clip if labels is None else _label(clip, labels[i], seconds))
        if len(cells) == 1:
            yield cells[0]
            return
        while len(cells) % columns:
            cells.append(ColorClip(cells[0].size, BACKGROUND, duration=seconds))
        rows = [cells[i : i + columns] for i in range(0, len(cells), columns)]
        yield clips_array(rows, bg_color=BACKGROUND)


def pictures(clip: VideoClip, frames: int, fps: float) -> Iterator[np.ndarray]:
    """`frames` pictures of the clip, uint8 `[H, W, 3]`.

    Each is taken from the middle of its time, where no rounding can give the neighbour.
    """
    for k in range(frames):
        yield clip.get_frame((k + 0.5) / fps).astype(np.uint8, copy=False)


def draw_label(text: str, width: int, height: int) -> np.ndarray:
    """`text` on one line in a strip, uint8 `[height, width, 3]`, shortened if it is too long.

    The font is the one in Pillow, so that none need be installed. It has the letters of ASCII:
    accents are left out, and letters of other scripts become boxes.
    """
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    line = "".join(c for c in unicodedata.normalize("NFKD", line) if not unicodedata.combining(c))
    strip = Image.new("RGB", (width, height), BACKGROUND)
    draw = ImageDraw.Draw(strip)
    font = ImageFont.load_default(height * 0.6)
    room = width - height // 2
    shown = line[:width]  # No letter is narrower than a pixel.
    while shown and draw.textlength(_cut(shown, line), font=font) > room:
        shown = shown[:-1]
    draw.text((height // 4, height // 2), _cut(shown, line), INK, font, anchor="lm")
    return np.asarray(strip)


def _cut(shown: str, line: str) -> str:
    return shown if shown == line else f"{shown.rstrip()}…"


def _hold(clip: VideoClip, info: VideoInfo, seconds: float) -> VideoClip:
    """The clip for `seconds`, its last frame standing where it has ended."""
    from moviepy import VideoClip

    def frame_at(t: float) -> np.ndarray:
        k = min(int(t * info.fps), info.frames - 1)
        return clip.get_frame((k + 0.5) / info.fps)

    return VideoClip(frame_at, duration=seconds)


def _label(clip: VideoClip, text: str, seconds: float) -> VideoClip:
    """The clip under a strip with the text."""
    from moviepy import CompositeVideoClip, ImageClip

    width, height = clip.size
    band = 2 * max(9, height // 28)
    strip = ImageClip(draw_label(text, width, band), duration=seconds)
    layers = [strip.with_position((0, 0)), clip.with_position((0, band))]
    return CompositeVideoClip(layers, size=(width, height + band), bg_color=BACKGROUND)

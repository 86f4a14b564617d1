"""Single pictures: the poster of a segment, and the result of a model that makes images."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from studio.media.errors import MediaError
from studio.media.metadata import COMMENT, to_text
from studio.media.whole import whole_file


def write_poster(frames: np.ndarray, path: Path, size: tuple[int, int] = (480, 480)) -> None:
    """Write a picture that stands for a segment, as WebP.

    frames: uint8 `[n, H, W, 3]`, of which the middle one is taken, or one frame `[H, W, 3]`.
    size: (width, height) in pixels that it must fit into; a smaller frame keeps its own size.
    Raises MediaError if the frames do not fit or the file cannot be written.
    """
    image = _image(frames[len(frames) // 2] if frames.ndim == 4 and len(frames) else frames)
    image.thumbnail(size, Image.Resampling.LANCZOS)
    with whole_file(path) as draft:
        image.save(draft, "WEBP", quality=90)


def webp(frame: np.ndarray) -> bytes:
    """A small picture, uint8 `[H, W, 3]`, as WebP. Raises MediaError if the frame does not fit."""
    out = io.BytesIO()
    _image(frame).save(out, "WEBP", quality=90)
    return out.getvalue()


def write_image(frame: np.ndarray, path: Path, metadata: Mapping[str, Any] | None = None) -> None:
    """Write one frame, uint8 `[H, W, 3]`, as PNG with the metadata in its comment.

    Raises MediaError if the frame does not fit or the file cannot be written.
    """
    image = _image(frame)
    info = PngInfo()
    if metadata is not None:
        info.add_itxt(COMMENT, to_text(metadata))
    with whole_file(path) as draft:
        image.save(draft, "PNG", pnginfo=info)


def read_image(path: Path) -> np.ndarray:
    """The frame of a PNG of ours, uint8 `[H, W, 3]`. Raises MediaError if it cannot be read."""
    try:
        with Image.open(path, formats=["PNG"]) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise MediaError(f"{path} cannot be read as a picture: {error}") from error


def _image(frame: np.ndarray) -> Image.Image:
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or not frame.size:
        raise MediaError(f"frame: uint8 [H, W, 3] is needed, not {frame.dtype} {frame.shape}")
    return Image.fromarray(frame)

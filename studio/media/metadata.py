"""What a result file knows about itself: recipe and seeds as JSON, in the comment of the file.

The comment holds `{"retake": {...}}` in plain ASCII, in mp4 (the `comment` tag) and in PNG (an iTXt
chunk). Files come from anywhere, so reading believes nothing and never runs anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from PIL import Image

from studio.media.errors import MediaError
from studio.media.mp4 import child, read_moov

KEY = "retake"
COMMENT = "Comment"
PNG = b"\x89PNG\r\n\x1a\n"


def to_text(metadata: Mapping[str, Any]) -> str:
    """The comment for a file. Raises MediaError for what JSON cannot hold."""
    try:
        return json.dumps({KEY: dict(metadata)}, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MediaError(f"metadata cannot be written as JSON: {error}") from error


def from_text(text: str) -> dict[str, Any] | None:
    """The metadata in a comment, None if there is none of ours in it. Never raises."""
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    ours = found.get(KEY) if isinstance(found, dict) else None
    return ours if isinstance(ours, dict) else None


def to_ffmetadata(text: str) -> str:
    """`text` as the comment in a file of ffmpeg's ffmetadata format."""
    special = {ord(letter): f"\\{letter}" for letter in "=;#\\\n"}
    return f";FFMETADATA1\ncomment={text.translate(special)}\n"


def read_metadata(path: Path) -> dict[str, Any] | None:
    """Metadata of an mp4 or PNG file; None if the file is another's, another format, or damaged.

    Raises MediaError only if the file cannot be opened.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(len(PNG))
    except OSError as error:
        raise MediaError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        text = _png_comment(path) if start == PNG else _mp4_comment(path)
    except Exception:  # Whatever a hostile file provokes in a parser: it holds nothing of ours.
        return None
    return None if text is None else from_text(text)


def _png_comment(path: Path) -> str | None:
    with Image.open(path, formats=["PNG"]) as image:
        text = image.info.get(COMMENT)
    return text if isinstance(text, str) else None


def _mp4_comment(path: Path) -> str | None:
    meta = child(read_moov(path), b"udta", b"meta")
    # A `meta` box starts with four bytes of version and flags, a `data` box with type and locale.
    data = None if meta is None else child(meta[4:], b"ilst", b"\xa9cmt", b"data")
    return None if data is None else bytes(data[8:]).decode()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")

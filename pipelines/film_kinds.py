"""Which files are videos, by how they begin."""

from __future__ import annotations

import re
from pathlib import Path

KINDS = (
    (rb"\x00\x00.{2}ftypqt", ".mov"),
    (rb"\x00\x00.{2}ftyp(?!avi[fs]|hei[cfmsx]|hev[cmsx]|mif1|msf1)", ".mp4"),
    (rb"\x00.{3}(?:moov|mdat|wide|free)", ".mov"),
    (rb"\x1aE\xdf\xa3.{0,60}?webm", ".webm"),
    (rb"\x1aE\xdf\xa3", ".mkv"),
    (rb"RIFF.{4}AVI ", ".avi"),
    (rb"OggS", ".ogv"),
    (rb"\x00\x00\x01[\xba\xb3]", ".mpg"),
    (rb"FLV\x01", ".flv"),
)
"""How videos that are taken begin, and how they end. ffmpeg knows more formats, among them lists
that name other files and texts that it draws: those are not let through."""

DEMUXERS = ("mov", "matroska", "avi", "ogg", "mpeg", "mpegvideo", "flv")
"""What reads them in ffmpeg, which tells by itself what a file is."""


def film_ending(path: Path) -> str | None:
    """How a copy of a video would end, by how it begins (`.mp4`); None for what is no video."""
    with path.open("rb") as file:
        start = file.read(80)
    return next((end for form, end in KINDS if re.match(form, start, re.DOTALL)), None)

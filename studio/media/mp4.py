"""Reads the boxes of an mp4 file: enough to tell what the tracks are, without starting ffmpeg.

Box layouts: ISO/IEC 14496-12 (boxes, stsd, stts, stsz) and 14496-15 (avcC).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from studio.media.errors import MediaError

VISUAL_SAMPLE_ENTRY = 78
"""Bytes of a visual sample entry before its own boxes."""


@dataclass(frozen=True)
class VideoTrack:
    """The video track of an mp4 file."""

    codec: str
    """Four letters, `avc1` for H.264."""
    settings: bytes
    """The decoder's parameter sets (avcC), which every part of a joined track shares."""
    width: int
    height: int
    timescale: int
    """Ticks in a second."""
    frames: int
    ticks: int
    """Length of the track."""
    steady: bool
    """Each frame lasts as long as the others."""
    audio: bool
    """The file has a sound track too."""


def read_moov(path: Path) -> memoryview:
    """The index of an mp4 file (the payload of its `moov` box).

    Raises MediaError if the file is missing, is no mp4 file, or ends before its boxes do.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            moov, start = None, 0
            while start < size:
                file.seek(start)
                head = file.read(16)
                length, kind, skip = _head(head, size - start)
                if start == 0 and kind != b"ftyp":
                    raise MediaError(f"{path} is not an mp4 video")
                if length < skip or start + length > size:
                    raise MediaError(f"{path} is damaged: it ends too early")
                if kind == b"moov":
                    file.seek(start + skip)
                    moov = memoryview(file.read(length - skip))
                start += length
    except OSError as error:
        raise MediaError(f"{path} cannot be read: {error.strerror or error}") from error
    if moov is None:
        raise MediaError(f"{path} is not an mp4 video")
    return moov


def boxes(data: memoryview) -> Iterator[tuple[bytes, memoryview]]:
    """Kind and payload of each box in `data`. Raises ValueError where one does not fit."""
    start = 0
    while start + 8 <= len(data):
        length, kind, skip = _head(data[start : start + 16], len(data) - start)
        if length < skip or start + length > len(data):
            raise ValueError(f"box {kind!r} does not fit")
        yield kind, data[start + skip : start + length]
        start += length


def child(data: memoryview, *kinds: bytes) -> memoryview | None:
    """Payload of the first box on the way down `kinds`, None if there is none."""
    for wanted in kinds:
        found = next((payload for kind, payload in boxes(data) if kind == wanted), None)
        if found is None:
            return None
        data = found
    return data


def video_track(path: Path) -> VideoTrack:
    """The video track of the file. Raises MediaError if it is damaged or has none."""
    moov = read_moov(path)
    try:
        tracks = [payload for kind, payload in boxes(moov) if kind == b"trak"]
        handlers = [bytes(child(track, b"mdia", b"hdlr")[8:12]) for track in tracks]
        if b"vide" not in handlers:
            raise MediaError(f"{path} has no video in it")
        return _video(tracks[handlers.index(b"vide")], audio=b"soun" in handlers)
    except (ValueError, TypeError, LookupError, struct.error) as error:
        raise MediaError(f"{path} is damaged: its index cannot be read") from error


def _video(track: memoryview, audio: bool) -> VideoTrack:
    header = child(track, b"mdia", b"mdhd")
    (timescale,) = struct.unpack_from(">I", header, 20 if header[0] == 1 else 12)
    table = child(track, b"mdia", b"minf", b"stbl")

    codec, entry = next(boxes(child(table, b"stsd")[8:]), (b"", b""))
    width, height = struct.unpack_from(">HH", entry, 24)
    settings = child(entry[VISUAL_SAMPLE_ENTRY:], b"avcC") or b""

    times = child(table, b"stts")
    (runs,) = struct.unpack_from(">I", times, 4)
    lasts = list(struct.iter_unpack(">II", times[8 : 8 + 8 * runs]))
    sizes = child(table, b"stsz")
    same_size, frames = struct.unpack_from(">II", sizes, 4)
    listed = frames if same_size else (len(sizes) - 12) // 4
    timed = sum(count for count, _ in lasts)
    if not frames or not timescale or not frames == timed == listed:
        raise ValueError("sizes and times do not agree")
    return VideoTrack(
        codec=codec.decode("latin-1"),
        settings=bytes(settings),
        width=width,
        height=height,
        timescale=timescale,
        frames=frames,
        ticks=sum(count * ticks for count, ticks in lasts),
        steady=len({ticks for _, ticks in lasts}) == 1,
        audio=audio,
    )


def _head(head: bytes | memoryview, rest: int) -> tuple[int, bytes, int]:
    """Length, kind and bytes of the head of a box, of which `rest` bytes are left in the file."""
    if len(head) < 8:
        return 0, b"", 8
    length, kind = struct.unpack_from(">I4s", head)
    if length == 1 and len(head) >= 16:
        return struct.unpack_from(">Q", head, 8)[0], kind, 16
    return (rest if length == 0 else length), kind, 8

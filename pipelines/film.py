"""A video file: how large it is, and its pictures at given times, upright and as they are seen.

It comes through a pipe from the ffmpeg of imageio-ffmpeg, picture by picture: one of them at a time
is in memory.
"""

from __future__ import annotations

import bisect
import functools
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BadInput
from pipelines.images import LEAST_SIDE, MOST_PIXELS

if TYPE_CHECKING:
    from PIL import Image

MOST_SECONDS = 1200
WHOLE = 0.98
"""Of what its header says a file holds: one with faults that gives so much all the same is used."""
EARLY = Fraction(6, 10_000)
"""Seconds by which a picture may come after the time that is asked for and still be the one: times
in webm and mkv are rounded to thousandths."""
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
SAVE = "save it anew, as mp4"
_SCALED = "flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact"
_SIZE = re.compile(r"sar:(\d+)/(\d+) s:(\d+)x(\d+)")
_START = re.compile(r"\] n: *\d+ pts: *(-?\d+) pts_time:")
_TICK = re.compile(r"config in time_base: (\d+)/(\d+)")
_DURATION = re.compile(r"Duration: (\d+):(\d+):(\d+(?:\.\d+)?)")
_BASE = re.compile(r"#tb 0: (\d+)/(\d+)")


@dataclass(frozen=True)
class Film:
    """What `look` found."""

    width: int
    height: int
    """Of its pictures as they are seen: upright, with square pixels."""
    seconds: float


def film_ending(path: Path) -> str | None:
    """How a copy of a video would end, by how it begins (`.mp4`); None for what is no video."""
    with path.open("rb") as file:
        start = file.read(80)
    return next((end for form, end in KINDS if re.match(form, start, re.DOTALL)), None)


def look(path: Path, field: str = "image") -> Film:
    """Reads a video through, decoding its first picture alone. What was found is remembered while
    the file stays as it is.

    Raises BadInput of `field` for one that has no picture, is cut short, too long, too large or too
    small, or cannot be read.
    """
    stat = path.stat()
    return _look(path, field, (stat.st_size, stat.st_mtime_ns))


def pictures_at(
    path: Path, times: Sequence[Fraction], field: str = "image"
) -> Iterator[Image.Image]:
    """For each of the times (in seconds from the beginning, rising) the picture that is seen then,
    RGBA; after the end of the video its last one. Raises BadInput as `look` does."""
    from PIL import Image

    film = look(path, field)
    ticks, tick = _ticks(path, film, float(times[-1]), field)
    at = [max(0, bisect.bisect_right(ticks, (time + EARLY) / tick) - 1) for time in times]
    chosen = [ticks[number] for number in sorted(set(at))]
    process = _ffmpeg(
        path,
        *("-map", "0:V:0", "-vf", f"{_selected(chosen)},{_whole(film)},format=rgba"),
        *("-fps_mode", "passthrough", "-frames:v", str(len(chosen)), "-f", "rawvideo", "pipe:1"),
        level="quiet",
    )
    try:
        picture = None
        for before, number in zip([None, *at], at, strict=False):
            if number != before:
                pixels = process.stdout.read(film.width * film.height * 4)
                if len(pixels) < film.width * film.height * 4:
                    where = float(ticks[number] * tick)
                    fix = f"The picture at {where:.2f} s cannot be read; {SAVE}."
                    raise BadInput(field, str(path), fix)
                picture = Image.frombytes("RGBA", (film.width, film.height), pixels)
            yield picture
    finally:
        process.kill()
        process.communicate()


@functools.lru_cache(maxsize=64)
def _look(path: Path, field: str, state: tuple[int, int]) -> Film:
    first = ("-map", "0:V:0", "-frames:v", "1", "-vf", "showinfo=checksum=0", "-f", "null", "-")
    packets = ("-map", "0:V:0", "-c", "copy", "-f", "framecrc", "pipe:1")
    process = _ffmpeg(path, *first, *packets)
    listed, said = (each.decode("utf-8", "replace") for each in process.communicate())
    size = _SIZE.search(said)
    if "Video:" not in said and "Audio:" in said:
        raise BadInput(field, str(path), "There is sound in it, but no picture.")
    seconds = _listed_seconds(listed)
    if process.returncode or size is None or seconds <= 0:
        raise BadInput(field, str(path), f"The video is damaged, or of an unknown kind; {SAVE}.")
    declared = _declared(said)
    if _faults(said) and seconds < WHOLE * declared:
        fix = f"The video is damaged: only {seconds:.1f} s of {declared:.1f} s are there; {SAVE}."
        raise BadInput(field, str(path), fix)
    if seconds > MOST_SECONDS:
        fix = f"It is longer than {MOST_SECONDS // 60} minutes; cut it into parts."
        raise BadInput(field, str(path), fix)
    above, below, width, height = map(int, size.groups())
    if above and below:
        width = max(1, round(width * above / below))
    if min(width, height) < LEAST_SIDE:
        raise BadInput(field, str(path), f"It is {width} x {height} pixels: too small.")
    if width * height > MOST_PIXELS:
        raise BadInput(field, str(path), f"It is {width} x {height} pixels: too large.")
    return Film(width, height, seconds)


def _ticks(path: Path, film: Film, last: float, field: str) -> tuple[list[int], Fraction]:
    """When each picture begins, up to that which is seen at `last` and a little further, in ticks;
    and the seconds of a tick. A picture that comes out of order is none of them."""
    until = ("-t", f"{last + 1:.3f}")
    process = _ffmpeg(
        path, *("-map", "0:V:0", "-vf", "showinfo=checksum=0", *until, "-f", "null", "-")
    )
    said = process.communicate()[1].decode("utf-8", "replace")
    ticks: list[int] = []
    for found in map(int, _START.findall(said)):
        if not ticks or found > ticks[-1]:
            ticks.append(found)
    unit = _TICK.search(said)
    tick = Fraction(int(unit[1]), int(unit[2])) if unit else Fraction(1)
    reached = float(ticks[-1] * tick) if ticks else 0.0
    if not ticks or (_faults(said) and reached + 1 < WHOLE * min(last, film.seconds)):
        fix = f"The video is damaged: it can be seen only up to {reached:.1f} s; {SAVE}."
        raise BadInput(field, str(path), fix)
    return ticks, tick


def _ffmpeg(path: Path, *outputs: str, level: str = "level+info") -> subprocess.Popen:
    import imageio_ffmpeg

    # Only files: what names an address is not opened.
    source = ("-protocol_whitelist", "file", "-i", f"file:{path.resolve()}")
    quiet = ("-hide_banner", "-nostdin", "-nostats", "-loglevel", level)
    return subprocess.Popen(
        [imageio_ffmpeg.get_ffmpeg_exe(), *quiet, *source, *outputs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _selected(ticks: Sequence[int]) -> str:
    """By time, since ffmpeg counts anew where the size of the pictures changes; each once."""
    once = "(isnan(prev_selected_pts)+gt(pts,prev_selected_pts))"
    return f"select='{_any_of(ticks)}*{once}'"


def _any_of(ticks: Sequence[int]) -> str:
    """In pairs of pairs: ffmpeg reads no sum of more than a hundred."""
    if len(ticks) == 1:
        return f"eq(pts,{ticks[0]})"
    half = len(ticks) // 2
    return f"({_any_of(ticks[:half])}+{_any_of(ticks[half:])})"


def _whole(film: Film) -> str:
    return f"scale={film.width}:{film.height}:{_SCALED},setsar=1"


def _listed_seconds(listed: str) -> float:
    """When the last packet ends."""
    base = _BASE.search(listed)
    ends = [0]
    for line in listed.splitlines():
        if line[:1] == "0":
            _, _, start, length, *_ = line.split(",")
            ends.append(int(start) + int(length))
    return max(ends) * int(base[1]) / int(base[2]) if base else 0.0


def _faults(said: str) -> bool:
    return "[error]" in said or "[fatal]" in said


def _declared(said: str) -> float:
    """Seconds that the header of the file promises; none if it says nothing."""
    match = _DURATION.search(said)
    if match is None:
        return 0.0
    hours, minutes, seconds = match.groups()
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)

"""A video file: how large it is, and its pictures at given times, upright and as they are seen.

They come through a pipe from ffmpeg, picture by picture: one of them at a time is in memory. Times
and sizes are taken from its lists of packets and pictures (framecrc), where the words that a file
says of itself do not stand.
"""

from __future__ import annotations

import bisect
import functools
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BadInput
from pipelines.ffmpeg import WHOLE, Ffmpeg, declared, has_faults, has_stream
from pipelines.film_kinds import DEMUXERS
from pipelines.images import MOST_PIXELS, size_fault

if TYPE_CHECKING:
    from PIL import Image

FIELD = "image"
MOST_SECONDS = 1200
MOST_PACKETS = 1_000_000
"""Eight hundred a second for twenty minutes: what has more is made to be long to read."""
EARLY = Fraction(6, 10_000)
"""Seconds by which a picture may come after the time that is asked for and still be the one: times
in webm and mkv are rounded to thousandths."""
SAVE = "save it anew, as mp4"
UNTIMED = -(2**63)
"""Of a packet that says not when it is seen, as in avi, but when it is decoded."""
LISTING = ("-c:v", "wrapped_avframe", "-enc_time_base", "filter", "-fps_mode", "passthrough")
"""Of each picture its description goes out, not its pixels, and in the ticks of the file."""
_SCALED = "flags=bicubic+accurate_rnd+full_chroma_int+full_chroma_inp+bitexact"
_SPARE = 1.1
"""Codecs round the sides of pictures up."""
_OUTSIZE = re.compile(r"^\[.*\[error\] Picture size (\d+)x(\d+) exceeds", re.MULTILINE)


@dataclass(frozen=True)
class Film:
    """What `look` found."""

    width: int
    height: int
    """Of its pictures as they are seen: upright, with square pixels."""
    seconds: float
    late: Fraction
    """Seconds by which every picture comes late, where packets say only when they are decoded."""


def look(path: Path) -> Film:
    """Reads a video through, decoding its first picture alone. What was found is remembered while
    the file stays as it is.

    Raises BadInput of `image` for one that has no picture, is cut short, too long, too large or too
    small, or cannot be read.
    """
    stat = path.stat()
    return _look(path, (stat.st_size, stat.st_mtime_ns))


def pictures_at(path: Path, times: Sequence[Fraction]) -> Iterator[Image.Image]:
    """For each of the times (in seconds from the beginning, rising) the picture that is seen then,
    RGBA; after the end of the video its last one. Raises BadInput as `look` does."""
    from PIL import Image

    film = look(path)
    ticks, tick = _ticks(path, film, float(times[-1]))
    after = EARLY + film.late
    at = [max(0, bisect.bisect_right(ticks, (time + after) / tick) - 1) for time in times]
    chosen = [ticks[number] for number in sorted(set(at))]
    with tempfile.NamedTemporaryFile("w", suffix=".filter") as filters:
        # From a file: an argument holds some thousands of pictures.
        filters.write(f"{_selected(chosen)},{_whole(film)},format=rgba")
        filters.flush()
        raw = ("-fps_mode", "passthrough", "-frames:v", str(len(chosen)), "-f", "rawvideo")
        with _reading(path, "-/vf", filters.name, *raw, "pipe:1") as process:
            picture = None
            for before, number in zip([None, *at], at, strict=False):
                if number != before:
                    pixels = process.read(film.width * film.height * 4)
                    if len(pixels) < film.width * film.height * 4:
                        process.ended()
                        where = float(ticks[number] * tick)
                        raise _bad(path, f"The picture at {where:.2f} s cannot be read; {SAVE}.")
                    picture = Image.frombytes("RGBA", (film.width, film.height), pixels)
                yield picture


@functools.lru_cache(maxsize=64)
def _look(path: Path, state: tuple[int, int]) -> Film:
    damaged = _bad(path, f"The video is damaged, or of an unknown kind; {SAVE}.")
    with _reading(path, "-c", "copy", "-f", "framecrc", "pipe:1") as process:
        packets = _Listed(process.lines())
        seconds = _listed_seconds(path, packets)
        well, said = process.ended(), process.said()
    if has_stream(said, "Audio") and not has_stream(said, "Video"):
        raise _bad(path, "There is sound in it, but no picture.")
    if not well or seconds <= 0:
        raise damaged
    with _reading(path, *LISTING, "-frames:v", "1", "-f", "framecrc", "pipe:1") as process:
        listed = _Listed(process.lines())
        begins = [begins * listed.tick for begins, _ in listed]
        well, faults = process.ended(), process.said()
    if found := _OUTSIZE.search(faults):
        raise _bad(path, f"It is {found[1]} x {found[2]} pixels: too large.")
    if not well or not begins or listed.size is None:
        raise damaged
    promised = declared(said) or 0.0
    if has_faults(said + faults) and seconds < WHOLE * promised:
        fix = f"The video is damaged: only {seconds:.1f} s of {promised:.1f} s are there; {SAVE}."
        raise _bad(path, fix)
    width, height = listed.size
    if listed.sar:
        width = max(1, round(width * listed.sar))
    if fault := size_fault(width, height):
        raise _bad(path, fault)
    late = Fraction(0)
    if packets.untimed is not None:
        late = max(late, begins[0] - packets.untimed * packets.tick)
    return Film(width, height, seconds, late)


def _ticks(path: Path, film: Film, last: float) -> tuple[list[int], Fraction]:
    """When each picture begins, up to that which is seen at `last` and a little further, in ticks;
    and the seconds of a tick. A picture that comes out of order is none of them."""
    ticks: list[int] = []
    with _reading(path, *LISTING, "-t", f"{last + 1:.3f}", "-f", "framecrc", "pipe:1") as process:
        listed = _Listed(process.lines())
        for begins, _ in listed:
            if not ticks or begins > ticks[-1]:
                ticks.append(begins)
        well, said = process.ended(), process.said()
    reached = float(ticks[-1] * listed.tick) if ticks else 0.0
    short = has_faults(said) and reached + 1 < WHOLE * min(last, film.seconds)
    if not well or not ticks or short:
        fix = f"The video is damaged: it can be seen only up to {reached:.1f} s; {SAVE}."
        raise _bad(path, fix)
    return ticks, listed.tick


class _Listed:
    """Iterates over what framecrc lists: when each packet begins and how long it lasts, in
    ticks."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.tick = Fraction(1)
        self.size: tuple[int, int] | None = None
        self.sar = Fraction(0)
        self.untimed: int | None = None
        """When the first packet is decoded, if it says nothing else."""

    def __iter__(self) -> Iterator[tuple[int, int]]:
        first = True
        for line in self._lines:
            if line.startswith("0,"):
                decoded, seen, length = map(int, line.split(",")[1:4])
                if first and seen == UNTIMED:
                    self.untimed = decoded
                first = False
                yield (decoded if seen == UNTIMED else seen), length
            elif line.startswith("#tb 0:"):
                self.tick = Fraction(line[6:].strip())
            elif line.startswith("#dimensions 0:"):
                width, height = line[14:].split("x")
                self.size = int(width), int(height)
            elif line.startswith("#sar 0:"):
                above, below = map(int, line[7:].split("/"))
                self.sar = Fraction(above, below) if below else Fraction(0)


def _listed_seconds(path: Path, listed: _Listed) -> float:
    """When the last packet ends. Raises BadInput as soon as it is too much."""
    last = 0
    for number, (begins, length) in enumerate(listed):
        last = max(last, begins + length)
        if last * listed.tick.numerator > MOST_SECONDS * listed.tick.denominator:
            fix = f"It is longer than {MOST_SECONDS // 60} minutes; cut it into parts."
            raise _bad(path, fix)
        if number >= MOST_PACKETS:
            raise _bad(path, f"It has more than {MOST_PACKETS} pictures; cut it into parts.")
    return float(last * listed.tick)


def _reading(path: Path, *outputs: str) -> Ffmpeg:
    small = ("-max_pixels", str(int(MOST_PIXELS * _SPARE)))
    return Ffmpeg(path, FIELD, DEMUXERS, "-map", "0:V:0", *outputs, inputs=small)


def _bad(path: Path, fix: str) -> BadInput:
    return BadInput(FIELD, str(path), fix)


def _selected(ticks: Sequence[int]) -> str:
    """By time, since ffmpeg counts anew where the size of the pictures changes; each once."""
    once = "(isnan(prev_selected_pts)+gt(pts,prev_selected_pts))"
    return f"select='{_any_of(ticks)}*{once}'"


def _any_of(ticks: Sequence[int]) -> str:
    """Halved again and again, so that a picture is compared with few of them."""
    if len(ticks) == 1:
        return f"eq(pts,{ticks[0]})"
    half = len(ticks) // 2
    return f"if(lt(pts,{ticks[half]}),{_any_of(ticks[:half])},{_any_of(ticks[half:])})"


def _whole(film: Film) -> str:
    return f"scale={film.width}:{film.height}:{_SCALED},setsar=1"

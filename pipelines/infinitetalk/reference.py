"""What a video is made after: a picture, or a video that says how each segment is to look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BadInput
from pipelines.film import look, pictures_at
from pipelines.film_kinds import film_ending
from pipelines.images import FAULTS, opened, plain
from pipelines.infinitetalk.sizes import Size, upright_size

if TYPE_CHECKING:
    from PIL import Image

ANIMATED = ("GIF", "WEBP", "PNG")
"""Formats of pictures that may move. Those of others with several pictures are not in time."""
TOO_SHORT, UNTIMED = 10, 100
"""Milliseconds: a picture that says no more than the first is seen for the second, as browsers have
it."""
SEEN = 2
"""For keys: count up when other pictures of a video are seen at the same times."""
UNKNOWN = (
    "It is neither a picture nor a video that is known here; use png, jpg, webp or gif, or mp4, "
    "mov, webm, mkv or avi."
)


def moves(path: Path) -> bool:
    """Whether it is a video, or a picture that moves. Raises BadInput as `reference_size` does."""
    return _film(path) or _frames(path) > 1


def reference_size(path: Path) -> Size:
    """(height, width) of a picture or a video as it is seen. Raises BadInput if it cannot be
    used."""
    if _film(path):
        film = look(path)
        return film.height, film.width
    with opened(path, "image", UNKNOWN) as image:
        return upright_size(image)


def read_references(path: Path, times: Sequence[Fraction]) -> Iterator[Image.Image]:
    """For each of the times (in seconds, rising) what is seen then, as RGB; after the end the last
    picture. Raises BadInput."""
    if _film(path):
        return (plain(picture) for picture in pictures_at(path, times))
    return _animated(path, times)


def _film(path: Path) -> bool:
    try:
        if not path.is_file():
            raise BadInput("image", str(path), "There is no such file.")
        if path.stat().st_size == 0:
            raise BadInput("image", str(path), "It is empty.")
        return film_ending(path) is not None
    except OSError as error:
        raise BadInput("image", str(path), f"It cannot be read: {error.strerror}.") from error


def _frames(path: Path) -> int:
    with opened(path, "image", UNKNOWN) as image:
        return getattr(image, "n_frames", 1) if image.format in ANIMATED else 1


def _animated(path: Path, times: Sequence[Fraction]) -> Iterator[Image.Image]:
    """As `read_references`, of a picture that moves."""
    with opened(path, "image", UNKNOWN) as image:
        wanted, ends, last = list(times), Fraction(0), image.n_frames - 1
        # A PNG may have a picture for those who cannot see it move, which is no part of it.
        first = 1 if image.info.get("default_image") else 0
        for number in range(first, last + 1):
            try:
                image.seek(number)
                image.load()
            except FAULTS as error:
                fix = f"Picture {number + 1} of it cannot be read: {error}."
                raise BadInput("image", str(path), fix) from error
            lasts = image.info.get("duration") or 0
            ends += Fraction(int(lasts if lasts > TOO_SHORT else UNTIMED), 1000)
            if wanted and (wanted[0] < ends or number == last):
                seen = plain(image)
                while wanted and (wanted[0] < ends or number == last):
                    yield seen
                    del wanted[0]
            if not wanted:
                return

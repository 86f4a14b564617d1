"""A picture file as models take it: upright, opaque, and cut to the size of a video if need be."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BadInput
from pipelines.film_kinds import film_ending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL import Image

FIT = "upright, on white, covered and centre-cropped, Lanczos"
PLAIN = "upright, on white"
"""Name what `fit` and `plain` do, for keys: change them when the pixels change."""

UNKNOWN = "It is not a picture in a format known here."
A_FILM = "It is a video, and this model takes a picture here."
FAULTS = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, struct.error)
"""What Pillow raises for pictures that are damaged."""

LEAST_SIDE = 16
MOST_PIXELS = 100_000_000
TOO_LARGE = f"It is too large; {MOST_PIXELS // 10**6} megapixels are the most."


def check_image(path: Path, field: str = "image", unknown: str = UNKNOWN) -> None:
    """Raises BadInput, whose field is `field`, unless the header of the file is that of a picture
    of a usable size. `unknown` is what is said of a file that is no picture at all."""
    with opened(path, field, unknown):
        pass


def read_image(path: Path, width: int, height: int, field: str = "image") -> Image.Image:
    """The picture as RGB, `width` x `height`. Raises BadInput if the file cannot be used."""
    with opened(path, field) as image:
        return fit(image, width, height)


def read_whole_image(path: Path, field: str = "image", ground: str = "white") -> Image.Image:
    """The picture as RGB in its own size, transparency on `ground`. Raises BadInput if the file
    cannot be used."""
    with opened(path, field) as image:
        return plain(image, ground)


def fit(image: Image.Image, width: int, height: int) -> Image.Image:
    """`plain`, scaled to cover, cropped in the middle."""
    from PIL import Image, ImageOps

    return ImageOps.fit(plain(image), (width, height), Image.Resampling.LANCZOS)


def plain(image: Image.Image, ground: str = "white") -> Image.Image:
    """RGB, turned upright by EXIF, transparency on the colour `ground`."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        # 16 bits a channel: PIL's own conversion clips instead of scaling.
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, ground), image)
    return image.convert("RGB")


def size_fault(width: int, height: int) -> str | None:
    """Why a picture of so many pixels is not taken, or None."""
    if min(width, height) < LEAST_SIDE:
        return f"It is {width} x {height} pixels: too small, {LEAST_SIDE} is the least."
    if width * height > MOST_PIXELS:
        most = MOST_PIXELS // 10**6
        return f"It is {width} x {height} pixels: too large, {most} megapixels are the most."
    return None


@contextmanager
def opened(path: Path, field: str, unknown: str = UNKNOWN) -> Iterator[Image.Image]:
    """A picture file of a usable size, as Pillow has it. Raises BadInput, also for what goes wrong
    while it is read."""
    from PIL import Image, UnidentifiedImageError

    if not path.is_file():
        raise BadInput(field, str(path), "There is no such file.")
    try:
        with Image.open(path) as image:
            width, height = image.size
            if fault := size_fault(width, height):
                raise BadInput(field, str(path), fault)
            yield image
    except UnidentifiedImageError:
        fix = unknown if film_ending(path) is None else A_FILM
        raise BadInput(field, str(path), fix) from None
    except Image.DecompressionBombError as error:
        raise BadInput(field, str(path), TOO_LARGE) from error
    except BadInput:
        raise
    except FAULTS as error:
        raise BadInput(field, str(path), f"It cannot be read: {error}.") from error

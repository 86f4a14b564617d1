"""A picture file, as the picture that a video starts from: upright, opaque, the video's size."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL import Image

FIT = "upright, on white, covered and centre-cropped, Lanczos"
"""Names what `fit` does, for keys: change it when the pixels change."""

LEAST_SIDE = 16
MOST_PIXELS = 100_000_000


def check_image(path: Path) -> None:
    """Raises BadInput unless the header of the file is that of a picture of a usable size."""
    with _opened(path):
        pass


def read_image(path: Path, width: int, height: int) -> Image.Image:
    """The picture as RGB, `width` x `height`. Raises BadInput if the file cannot be used."""
    with _opened(path) as image:
        return fit(image, width, height)


def fit(image: Image.Image, width: int, height: int) -> Image.Image:
    """Turned upright by EXIF, transparency on white, scaled to cover, cropped in the middle."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        # 16 bits a channel: PIL's own conversion clips instead of scaling.
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return ImageOps.fit(image.convert("RGB"), (width, height), Image.Resampling.LANCZOS)


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    from PIL import Image, UnidentifiedImageError

    if not path.is_file():
        raise BadInput("image", str(path), "There is no such file.")
    try:
        with Image.open(path) as image:
            width, height = image.size
            if min(width, height) < LEAST_SIDE:
                raise BadInput("image", str(path), f"It is {width} x {height} pixels: too small.")
            if width * height > MOST_PIXELS:
                raise BadInput("image", str(path), f"It is {width} x {height} pixels: too large.")
            yield image
    except UnidentifiedImageError:
        raise BadInput("image", str(path), "It is not a picture in a format known here.") from None
    except Image.DecompressionBombError as error:
        raise BadInput("image", str(path), "It is too large.") from error
    except BadInput:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, struct.error) as error:
        raise BadInput("image", str(path), f"It cannot be read: {error}.") from error

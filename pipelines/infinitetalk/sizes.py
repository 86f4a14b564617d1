"""Sizes that the model was trained in, and how a picture is brought to one of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from PIL import Image

Size = tuple[int, int]
"""(height, width) in pixels."""

_640 = {
    0.26: (320, 1216), 0.38: (384, 1024), 0.50: (448, 896), 0.67: (512, 768), 0.82: (576, 704),
    1.00: (640, 640), 1.22: (704, 576), 1.50: (768, 512), 1.86: (832, 448), 2.00: (896, 448),
    2.50: (960, 384), 2.83: (1088, 384), 3.60: (1152, 320), 3.80: (1216, 320), 4.00: (1280, 320),
}  # fmt: skip
_960 = {
    0.22: (448, 2048), 0.29: (512, 1792), 0.36: (576, 1600), 0.45: (640, 1408), 0.55: (704, 1280),
    0.63: (768, 1216), 0.76: (832, 1088), 0.88: (896, 1024), 1.00: (960, 960), 1.14: (1024, 896),
    1.31: (1088, 832), 1.50: (1152, 768), 1.58: (1216, 768), 1.82: (1280, 704), 1.91: (1344, 704),
    2.20: (1408, 640), 2.30: (1472, 640), 2.67: (1536, 576), 2.89: (1664, 576), 3.62: (1856, 512),
    3.75: (1920, 512),
}  # fmt: skip
BUCKETS = {(640, 640): _640, (960, 960): _960}
"""The square size that stands for a table -> its sizes, by height / width as published."""


def bucket(asked: Size, picture: Size) -> Size:
    """The size that a video of `picture` gets: of the table that `asked` stands for (480p: 640 x
    640, 720p: 960 x 960) the one whose proportions are nearest; any other `asked` is taken as is.
    """
    table = BUCKETS.get(asked)
    if table is None:
        return asked
    ratio = picture[0] / picture[1]
    return table[min(table, key=lambda known: abs(known - ratio))]


def covering(picture: Size, size: Size) -> Size:
    """`picture` scaled until it covers `size`."""
    scale = max(size[0] / picture[0], size[1] / picture[1])
    return math.ceil(scale * picture[0]), math.ceil(scale * picture[1])


def crop_start(covering: Size, size: Size) -> tuple[int, int]:
    """(top, left) of the middle of what covers `size`."""
    return round((covering[0] - size[0]) / 2), round((covering[1] - size[1]) / 2)


def fit_picture(image: Image.Image, size: Size) -> torch.Tensor:
    """uint8 `[H, W, 3]`: an RGB picture scaled (bilinear) to cover `size`, then its middle."""
    import numpy as np
    import torch
    from PIL import Image

    height, width = covering((image.height, image.width), size)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    top, left = crop_start((height, width), size)
    pixels = np.asarray(resized)[top : top + size[0], left : left + size[1]]
    return torch.from_numpy(np.array(pixels))


def upright_size(image: Image.Image) -> Size:
    """(height, width) of an opened picture file as it is seen; from its header."""
    width, height = image.size
    turned = image.getexif().get(_ORIENTATION, 1) >= _TURNED
    return (width, height) if turned else (height, width)


_ORIENTATION, _TURNED = 0x0112, 5
"""EXIF tag, and the least of its values that exchange the sides."""

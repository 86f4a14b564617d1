"""Who is where in the picture, painted: a picture for each person, white where the person is."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import BadInput
from pipelines.images import opened, read_whole_image
from pipelines.infinitetalk.sizes import Size, upright_size

if TYPE_CHECKING:
    import torch
    from PIL import Image

WHITE = 128
"""The darkest grey, of 255, that counts as white."""
PAINTED = "upright, on black"
"""Names what `painted` does, for keys: change it when the planes change."""


def check_mask_files(masks: Sequence[Path], reference: Size, persons: int) -> None:
    """Raises BadInput unless there is one for each person, all have the proportions of the
    reference, and each tells somebody apart. One that stays as it is is read once."""
    if persons == 1:
        fix = "They tell two voices apart; with one voice leave them out."
        raise BadInput("masks", _named(masks), fix)
    if len(masks) != persons:
        fix = f"There are {persons} voices: give {persons} masks, the first voice's first."
        raise BadInput("masks", _named(masks), fix)
    for number, path in enumerate(map(Path, masks), start=1):
        with opened(path, "masks") as image:
            size = upright_size(image)
        if not _alike(size, reference):
            fix = f"Mask {number} is {size[1]} x {size[0]} pixels and the picture {reference[1]} x "
            fix += f"{reference[0]}: make it of that size, or of the same proportions."
            raise BadInput("masks", str(path), fix)
        stat = path.stat()
        _refuse_plain(number, path, *_tones(path, (stat.st_size, stat.st_mtime_ns)))


def painted(masks: Sequence[Path], reference: Size) -> torch.Tensor:
    """bool `[P, h, w]` in the size of the reference, to which masks are scaled by the nearest
    pixel; what is transparent is black. Raises BadInput for one that cannot be read, or that is
    black or white all over: it tells nobody apart."""
    import numpy as np
    import torch
    from PIL import Image

    planes = []
    for number, path in enumerate(map(Path, masks), start=1):
        grey = _grey(path)
        if (grey.height, grey.width) != reference:
            grey = grey.resize((reference[1], reference[0]), Image.Resampling.NEAREST)
        # Scaling may have lost what little there was.
        _refuse_plain(number, path, *grey.getextrema())
        planes.append(torch.from_numpy(np.asarray(grey) >= WHITE))
    return torch.stack(planes)


def _grey(path: Path) -> Image.Image:
    """Upright, one byte a pixel."""
    return read_whole_image(path, "masks", "black").convert("L")


@functools.lru_cache(maxsize=64)
def _tones(path: Path, stamp: tuple[int, int]) -> tuple[int, int]:
    """The darkest grey and the lightest, of 255. `stamp` changes when the file does."""
    return _grey(path).getextrema()


def _refuse_plain(number: int, path: Path, darkest: int, lightest: int) -> None:
    """Raises BadInput for a mask that is black or white all over."""
    if darkest < WHITE <= lightest:
        return
    colour = "black" if lightest < WHITE else "white"
    fix = f"Mask {number} is {colour} all over: paint white where that person is, the rest black."
    raise BadInput("masks", str(path), fix)


def _alike(size: Size, reference: Size) -> bool:
    """Whether one is the other, scaled, to within a pixel."""
    (h, w), (height, width) = size, reference
    return abs(w - h * width / height) <= 1 or abs(h - w * height / width) <= 1


def _named(masks: Sequence[Path]) -> list[str]:
    return [str(path) for path in masks]

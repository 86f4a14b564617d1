"""Who is where in the picture: boxes in its pixels, as masks over the latents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.errors import BadInput
from pipelines.infinitetalk.sizes import Size, covering, crop_start

if TYPE_CHECKING:
    import torch

Box = tuple[int, int, int, int]
"""x0, y0, x1, y1 in pixels of the picture, x to the right, y down; x1 and y1 are outside."""

INSET = 0.05
"""Of the sides of a half, where no boxes are given."""
MOST_PERSONS = 2


def parse_faces(text: str, picture: Size, persons: int) -> tuple[Box, ...]:
    """Boxes of `x0,y0,x1,y1;x0,y0,x1,y1`, one a person, the first voice's first; none of an empty
    text. Raises BadInput if they are not that or lie outside the picture."""
    if not text.strip():
        return ()
    if persons == 1:
        raise BadInput("faces", text, "They tell two voices apart; with one voice leave them out.")
    height, width = picture
    boxes = []
    for part in text.split(";"):
        try:
            x0, y0, x1, y1 = (int(float(number)) for number in part.split(","))
        except (ValueError, OverflowError):
            fix = "Write x0,y0,x1,y1 for each person in pixels, with a semicolon in between."
            raise BadInput("faces", text, fix) from None
        if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
            fix = f"{part.strip()} is no box inside the picture of {width} x {height} pixels."
            raise BadInput("faces", text, fix)
        boxes.append((x0, y0, x1, y1))
    if len(boxes) != persons:
        raise BadInput("faces", text, f"There are {persons} voices: give {persons} boxes.")
    return tuple(boxes)


def halves(picture: Size) -> tuple[Box, Box]:
    """The left and the right half of a picture, a little smaller than they are."""
    height, width = picture
    top, bottom = int(height * INSET), int(height * (1 - INSET))
    half = width // 2
    left, right = int(half * INSET), int(half * (1 - INSET))
    return (left, top, right, bottom), (left + half, top, right + half, bottom)


def person_masks(
    boxes: tuple[Box, ...], picture: Size, size: Size, spatial_factor: int
) -> torch.Tensor:
    """uint8 `[P + 1, h, w]` over the latents of a video of `size`: a mask for each box, and last
    what is in none of them. Where boxes overlap, both have the place.

    Each mask goes the way of the picture: scaled to cover the size and cropped, then scaled to the
    latents, nearest neighbour.
    """
    import torch
    from torch.nn.functional import interpolate

    masks = torch.zeros(len(boxes) + 1, *picture)
    for mask, (x0, y0, x1, y1) in zip(masks, boxes, strict=False):
        mask[y0:y1, x0:x1] = 1
    masks[-1] = masks[:-1].sum(0) == 0
    covers = covering(picture, size)
    top, left = crop_start(covers, size)
    scaled = interpolate(masks[None], size=covers, mode="nearest")
    cropped = scaled[..., top : top + size[0], left : left + size[1]]
    latent_size = (size[0] // spatial_factor, size[1] // spatial_factor)
    return (interpolate(cropped, size=latent_size, mode="nearest")[0] > 0).to(torch.uint8)


def check_masks(masks: torch.Tensor, faces: str) -> None:
    """Raises BadInput if a person has no token of the video, as with a box that was cropped away.
    `masks` `[P + 1, h, w]`; a token is two by two latents, of which the first counts."""
    for number, mask in enumerate(masks[:-1, ::2, ::2], start=1):
        if not mask.any():
            fix = f"Box {number} is too small, or outside of what is cut out of the picture."
            raise BadInput("faces", faces, fix)

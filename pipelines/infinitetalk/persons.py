"""Who is where in the picture: boxes in its pixels, or masks, brought to the latents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.base import Request
from pipelines.errors import BadInput
from pipelines.infinitetalk.masks import check_mask_files, painted
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


def check_persons(recipe: Request, reference: Size, persons: int) -> None:
    """Raises BadInput unless a recipe tells its persons apart by boxes, by masks or not at all, and
    what it tells fits the reference."""
    if recipe.masks and recipe.faces:
        raise BadInput("faces", recipe.faces, "There are masks as well: give one or the other.")
    if recipe.masks:
        check_mask_files(recipe.masks, reference, persons)
    parse_faces(recipe.faces, reference, persons)


def where_persons_are(recipe: Request, reference: Size) -> torch.Tensor:
    """bool `[2, H, W]` in the size of the reference, of two persons: as painted, in boxes, or else
    in its halves. Raises BadInput."""
    if recipe.masks:
        return painted(recipe.masks, reference)
    return boxed(parse_faces(recipe.faces, reference, 2) or halves(reference), reference)


def boxed(boxes: tuple[Box, ...], picture: Size) -> torch.Tensor:
    """bool `[P, H, W]`: true inside of each box."""
    import torch

    planes = torch.zeros(len(boxes), *picture, dtype=torch.bool)
    for plane, (x0, y0, x1, y1) in zip(planes, boxes, strict=True):
        plane[y0:y1, x0:x1] = True
    return planes


def person_masks(planes: torch.Tensor, size: Size, spatial_factor: int) -> torch.Tensor:
    """uint8 `[P + 1, h, w]` over the latents of a video of `size`, from where persons are in the
    picture, bool `[P, H, W]`: a mask for each person, and last what is in none of them. Where
    persons overlap, both have the place.

    Each mask goes the way of the picture: scaled to cover the size and cropped, then scaled to the
    latents, nearest neighbour.
    """
    import torch
    from torch.nn.functional import interpolate

    masks = torch.cat((planes, ~planes.any(0, keepdim=True))).float()
    covers = covering(tuple(planes.shape[1:]), size)
    top, left = crop_start(covers, size)
    scaled = interpolate(masks[None], size=covers, mode="nearest")
    cropped = scaled[..., top : top + size[0], left : left + size[1]]
    latent_size = (size[0] // spatial_factor, size[1] // spatial_factor)
    return (interpolate(cropped, size=latent_size, mode="nearest")[0] > 0).to(torch.uint8)


def check_tokens(masks: torch.Tensor, recipe: Request) -> None:
    """Raises BadInput if a person has no token of the video, as with a box that was cropped away.
    `masks` `[P + 1, h, w]`; a token is two by two latents, of which the first counts."""
    for number, mask in enumerate(masks[:-1, ::2, ::2], start=1):
        if mask.any():
            continue
        if recipe.masks:
            fix = f"The white of mask {number} is too small, or outside of what is cut out of the "
            raise BadInput("masks", str(recipe.masks[number - 1]), f"{fix}picture.")
        fix = f"Box {number} is too small, or outside of what is cut out of the picture."
        raise BadInput("faces", recipe.faces, fix)

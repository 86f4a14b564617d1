"""Colours of a segment brought back to those of the first picture, so that they do not drift.

Mean and deviation of each channel in CIE Lab (Reinhard et al. 2001, "Color Transfer between
Images"), frame by frame.
"""

from __future__ import annotations

import torch

# sRGB (IEC 61966-2-1) with D65 white, 2 degrees, in the digits that scikit-image uses.
_XYZ_OF_RGB = (
    (0.412453, 0.357580, 0.180423),
    (0.212671, 0.715160, 0.072169),
    (0.019334, 0.119193, 0.950227),
)
_WHITE = (0.95047, 1.0, 1.08883)
_FLAT = 1e-5
"""Deviation (of 100) below which a channel counts as one colour."""


def match_colours(video: torch.Tensor, reference: torch.Tensor, strength: float) -> torch.Tensor:
    """`video` `[1, 3, F, H, W]` in -1..1 with the colours of `reference` `[1, 3, 1, H, W]`, by
    `strength` from 0 (as it is, untouched) to 1."""
    if strength == 0:
        return video
    wanted = _statistics(_lab(_unit(reference[0, :, 0])))
    frames = [_matched(frame, wanted, strength) for frame in video[0].unbind(1)]
    return torch.stack(frames, dim=1)[None].type_as(video)


def _matched(
    frame: torch.Tensor, wanted: tuple[torch.Tensor, torch.Tensor], strength: float
) -> torch.Tensor:
    rgb = _unit(frame)
    lab = _lab(rgb)
    mean, deviation = _statistics(lab)
    factor = torch.where(deviation < _FLAT, 0.0, wanted[1] / deviation.clamp(min=_FLAT))
    matched = _rgb((lab - mean) * factor + wanted[0])
    return ((1 - strength) * rgb + strength * matched) * 2 - 1


def _unit(frame: torch.Tensor) -> torch.Tensor:
    return ((frame.double() + 1) / 2).clamp(0, 1)


def _statistics(lab: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    flat = lab.flatten(1)
    shape = (-1, 1, 1)
    return flat.mean(1).view(shape), flat.std(1, correction=0).view(shape)


def _lab(rgb: torch.Tensor) -> torch.Tensor:
    linear = torch.where(rgb > 0.04045, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)
    xyz = torch.tensordot(rgb.new_tensor(_XYZ_OF_RGB), linear, dims=1)
    xyz = xyz / rgb.new_tensor(_WHITE).view(-1, 1, 1)
    root = xyz.clamp(min=0) ** (1 / 3)
    x, y, z = torch.where(xyz > 0.008856, root, 7.787 * xyz + 16 / 116)
    return torch.stack((116 * y - 16, 500 * (x - y), 200 * (y - z)))


def _rgb(lab: torch.Tensor) -> torch.Tensor:
    lightness, a, b = lab
    y = (lightness + 16) / 116
    roots = torch.stack((y + a / 500, y, (y - b / 200).clamp(min=0)))
    xyz = torch.where(roots > 0.2068966, roots**3, (roots - 16 / 116) / 7.787)
    xyz = xyz * lab.new_tensor(_WHITE).view(-1, 1, 1)
    linear = torch.tensordot(torch.linalg.inv(lab.new_tensor(_XYZ_OF_RGB)), xyz, dims=1)
    curved = 1.055 * linear.clamp(min=0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(linear > 0.0031308, curved, linear * 12.92).clamp(0, 1)

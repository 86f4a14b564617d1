"""Reads a talking picture with plain image processing, no network: mouths, eyes, head, drift.

All functions take frames uint8 [T, H, W, 3] and a Face that says where to look.
"""

from __future__ import annotations

import numpy as np

from .faces import FPS, HEIGHT, WIDTH, Face

Box = tuple[float, float, float, float]


def mouth_opening(frames: np.ndarray, face: Face) -> np.ndarray:
    """Dark area in the mouth's box [T], in pixels of a face of scale 1.

    Dark is what is far below the middle brightness of the box, which is skin, or beard.
    """
    light = _luminance(_cut(frames, face.mouth_box))
    skin = np.median(light, axis=(1, 2), keepdims=True)
    dark = np.clip((0.62 * skin - light) / (0.25 * skin + 1), 0, 1)
    return dark.sum((1, 2)) / face.scale**2


def eye_opening(frames: np.ndarray, face: Face) -> np.ndarray:
    """How much lighter and darker the eyes are than skin [T], relative to their usual state."""
    reach = face.eye_distance + 4.5
    row = face.y - 3.5 * face.scale
    box = (
        face.x - reach * face.scale, row - 3.2 * face.scale,
        face.x + reach * face.scale, row + 3.2 * face.scale,
    )  # fmt: skip
    contrast = _luminance(_cut(frames, box)).std((1, 2))
    return contrast / np.median(contrast)


def count_blinks(frames: np.ndarray, face: Face) -> int:
    """Moments at which the eyes lose a third of their contrast."""
    shut = eye_opening(frames, face) < 0.67
    return int((shut[1:] & ~shut[:-1]).sum() + shut[0])


def head_shift(frames: np.ndarray, face: Face) -> np.ndarray:
    """Columns that the head has moved since the first frame [T], to fractions of a pixel.

    From the profile of the upper half of the face, by the least squares of a small shift (the
    mouth is left out, since it moves by itself).
    """
    top, bottom = face.y - 14 * face.scale, face.y + 6 * face.scale
    box = (face.x - 20 * face.scale, top, face.x + 20 * face.scale, bottom)
    profile = _luminance(_cut(frames, box)).mean(1)
    shifts = np.arange(-4, 4.01, 0.25)
    columns = np.arange(profile.shape[1])
    inner = slice(5, -5)
    candidates = np.stack([np.interp(columns - s, columns, profile[0])[inner] for s in shifts])
    error = ((profile[:, None, inner] - candidates[None]) ** 2).mean(2)
    return shifts[error.argmin(1)]


def background_drift(frames: np.ndarray, faces: tuple[Face, ...]) -> float:
    """Mean difference, in levels of 0..255, between the wall in the first and the last frames."""
    x = np.arange(WIDTH) + 0.5
    wall = np.ones(WIDTH, bool)
    for face in faces:
        wall &= np.abs(x - face.x) > 25 * face.scale
    if wall.sum() < 4:  # two heads leave only the corners above them
        wall = np.ones(WIDTH, bool)
        rows = slice(0, 4)
    else:
        rows = slice(0, HEIGHT * 2 // 3)
    first, last = frames[:4, rows][:, :, wall], frames[-4:, rows][:, :, wall]
    return float(np.abs(last.mean(0, dtype=float) - first.mean(0, dtype=float)).mean())


def identity_drift(frames: np.ndarray, face: Face) -> float:
    """Mean difference in levels between the colours of the head in the first and last second, in
    cells of 8 x 8 pixels, so that small movements do not count."""
    box = (
        face.x - 20 * face.scale, face.y - 24 * face.scale,
        face.x + 20 * face.scale, face.y + 8 * face.scale,
    )  # fmt: skip
    part = _cut(frames, box)
    height, width = (side // 8 * 8 for side in part.shape[1:3])
    means = [
        piece[:, :height, :width].mean(0).reshape(height // 8, 8, width // 8, 8, 3).mean((1, 3))
        for piece in (part[:FPS], part[-FPS:])
    ]
    return float(np.abs(means[1] - means[0]).mean())


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Pearson's r of two courses over their common length; 0 where one of them never changes."""
    length = min(len(a), len(b))
    a, b = a[:length] - a[:length].mean(), b[:length] - b[:length].mean()
    scale = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / scale) if scale > 1e-9 else 0.0


def _cut(frames: np.ndarray, box: Box) -> np.ndarray:
    x0, y0, x1, y1 = (round(edge) for edge in box)
    return frames[:, max(0, y0) : y1, max(0, x0) : x1].astype(np.float32)


def _luminance(pixels: np.ndarray) -> np.ndarray:
    return pixels @ np.array((0.299, 0.587, 0.114), np.float32)

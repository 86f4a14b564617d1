"""How much one video looks like another: PSNR and SSIM of decoded frames."""

from __future__ import annotations

import math

import numpy as np

SAME = 99.0
"""Decibels that stand for two videos that are equal to the bit."""


def psnr(frames: np.ndarray, reference: np.ndarray) -> float:
    """Decibels over a whole clip, uint8 `[T, H, W, 3]` both; at most `SAME`."""
    error = np.mean((frames.astype(np.float64) - reference.astype(np.float64)) ** 2)
    return SAME if error == 0 else min(SAME, 10 * math.log10(255**2 / error))


def ssim(frames: np.ndarray, reference: np.ndarray) -> float:
    """Mean structural similarity of the brightness, uint8 `[T, H, W, 3]` both; 1 if equal.

    Wang et al. 2004, equation 13: Gaussian windows of 11 pixels, sigma 1.5, K = (0.01, 0.03).
    """
    import torch
    from torch.nn import functional

    offsets = torch.arange(11, dtype=torch.float64) - 5
    bell = torch.exp(-(offsets**2) / (2 * 1.5**2))
    bell /= bell.sum()

    def grey(video: np.ndarray) -> torch.Tensor:
        weights = torch.tensor([0.299, 0.587, 0.114], dtype=torch.float64)
        return (torch.from_numpy(np.ascontiguousarray(video)).double() @ weights).unsqueeze(1)

    def windowed(image: torch.Tensor) -> torch.Tensor:
        down = functional.conv2d(image, bell.view(1, 1, 11, 1))
        return functional.conv2d(down, bell.view(1, 1, 1, 11))

    x, y = grey(frames), grey(reference)
    mean_x, mean_y = windowed(x), windowed(y)
    var_x = windowed(x * x) - mean_x**2
    var_y = windowed(y * y) - mean_y**2
    both = windowed(x * y) - mean_x * mean_y
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    likeness = (2 * mean_x * mean_y + c1) * (2 * both + c2)
    likeness /= (mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)
    return float(likeness.mean())

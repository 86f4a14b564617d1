"""A cheap picture of latents: a linear projection to RGB, given by the model or learned on the way.

Four to sixteen channels of a video codec are mostly colour and brightness; the best linear map of
one latent pixel to the mean colour of its patch is enough to see where a video is going.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

ENOUGH_PIXELS = 20_000
"""Latent pixels after which the fit is left as it is."""
RIDGE = 1e-3


class Projection:
    """Latent channels to RGB in -1..1: `rgb = [latent, 1] @ matrix`, matrix `[C + 1, 3]`."""

    def __init__(self, matrix: np.ndarray | None = None) -> None:
        self.matrix = matrix
        self._given = matrix is not None
        self._pixels = 0
        self._xx: np.ndarray | float = 0.0
        self._xy: np.ndarray | float = 0.0

    def learn(self, latents: torch.Tensor, frames: np.ndarray) -> None:
        """Refines the map by least squares from latents `[C, n, h, w]` and the frames that they
        decode to, uint8 `[n, H, W, 3]`, one frame for each latent frame."""
        if self._given or self._pixels >= ENOUGH_PIXELS:
            return
        channels, n, h, w = latents.shape
        pixels = latents.detach().double().cpu().permute(1, 2, 3, 0)
        x = pixels.reshape(-1, channels).numpy()
        x = np.concatenate([x, np.ones((len(x), 1))], 1)
        tall, wide = frames.shape[1] // h, frames.shape[2] // w
        y = frames.reshape(n, h, tall, w, wide, 3).mean((2, 4)).reshape(-1, 3) / 127.5 - 1
        self._pixels += len(x)
        self._xx = self._xx + x.T @ x
        self._xy = self._xy + x.T @ y
        ridge = RIDGE * self._pixels * np.eye(channels + 1)
        self.matrix = np.linalg.solve(self._xx + ridge, self._xy)

    def picture(self, latents: torch.Tensor) -> np.ndarray | None:
        """uint8 `[h, w, 3]` of one latent frame `[C, h, w]`; None before anything was learned."""
        if self.matrix is None:
            return None
        x = latents.detach().double().cpu().permute(1, 2, 0).numpy()
        rgb = x @ self.matrix[:-1] + self.matrix[-1]
        return ((rgb.clip(-1, 1) + 1) * 127.5).round().astype(np.uint8)


def sample(
    latents: torch.Tensor, frames: np.ndarray, overlap: int, temporal_factor: int
) -> tuple[torch.Tensor, np.ndarray]:
    """Three new latent frames `[C, 3, h, w]` and one frame `[3, H, W, 3]` of each, for a preview
    to learn from: the middle one of those that the latent frame holds."""
    given = (overlap - 1) // temporal_factor + 1 if overlap else 0
    new = latents.shape[2] - given
    chosen = sorted({0, new // 2, new - 1})
    # Without an overlap the first latent frame holds one frame, and so its last one is frame 0.
    first = 0 if overlap else 1 - temporal_factor
    pixels = [max(0, first + k * temporal_factor + temporal_factor // 2) for k in chosen]
    return latents[0, :, [given + k for k in chosen]], frames[pixels]

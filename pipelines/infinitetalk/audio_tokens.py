"""From speech features of the frames to audio tokens of the latent frames."""

from __future__ import annotations

import torch
from diffusers.models.normalization import FP32LayerNorm
from torch import nn

from pipelines.infinitetalk.windows import WINDOW

VAE_SCALE = 4
"""Frames of a latent frame, except the first, which is one frame."""
GROUP_WINDOW = WINDOW // 2 + 1 + (VAE_SCALE - 2) + WINDOW // 2 + 1
"""Features of a later latent frame: 8."""


def gather_windows(windows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What each latent frame hears, of `windows` `[..., F, 5, blocks, channels]`, F = 4n + 1.

    The first latent frame hears the window of its frame: `[..., 1, 5, blocks, channels]`. A later
    one hears, of its four frames, the first half of the first window, the middles of the two in
    between and the last half of the last one: `[..., n, 8, blocks, channels]`.
    """
    middle = WINDOW // 2
    first, later = windows.split((1, windows.shape[-4] - 1), dim=-4)
    groups = later.unflatten(-4, (-1, VAE_SCALE))
    parts = (
        groups[..., 0, : middle + 1, :, :],
        groups[..., 1:-1, middle, :, :],
        groups[..., -1, middle:, :, :],
    )
    return first, torch.cat(parts, dim=-3)


class AudioProjection(nn.Module):
    """Names of the layers are those of the published checkpoint."""

    def __init__(
        self, blocks: int, channels: int, intermediate_dim: int, output_dim: int, tokens: int
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.proj1 = nn.Linear(WINDOW * blocks * channels, intermediate_dim)
        self.proj1_vf = nn.Linear(GROUP_WINDOW * blocks * channels, intermediate_dim)
        self.proj2 = nn.Linear(intermediate_dim, intermediate_dim)
        self.proj3 = nn.Linear(intermediate_dim, tokens * output_dim)
        self.norm = FP32LayerNorm(output_dim)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        """`windows` `[..., F, 5, blocks, channels]` -> `[..., 1 + (F - 1) / 4, tokens, output]`."""
        first, later = gather_windows(windows)
        hidden = torch.cat((self.proj1(first.flatten(-3)), self.proj1_vf(later.flatten(-3))), -2)
        hidden = self.proj2(hidden.relu()).relu()
        return self.norm(self.proj3(hidden).unflatten(-1, (self.tokens, -1)))

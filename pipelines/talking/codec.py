"""The talking starter's codec: principal components in, a small network out.

As in the starter's codec four frames become one latent frame and 8 x 8 pixels one cell, each
latent frame on its own. The encoder is linear, the best 24 axes for patches of faces, so that it is
computed rather than trained, and mouths keep their movement within the four frames; the decoder
adds to the linear picture what its neighbours tell of edges.
"""

from __future__ import annotations

import torch
from diffusers.configuration_utils import register_to_config
from diffusers.models.modeling_utils import ModelMixin
from torch import nn

from pipelines.starter.codec import FRAMES_PER_LATENT, DetailDecoder, FrameStackCodec


class PatchEncoder(nn.Module):
    """Stacks [N, 12, 8 h, 8 w] -> latents [N, z_dim, h, w]: one linear map for each cell."""

    def __init__(self, channels: int, z_dim: int, cell: int):
        super().__init__()
        self.axes = nn.Conv2d(channels, z_dim, cell, stride=cell)

    def forward(self, stacks: torch.Tensor) -> torch.Tensor:
        return self.axes(stacks)


class PatchCodec(FrameStackCodec):
    """Video [B, 3, 1 + 4k, H, W] in -1..1 <-> latents [B, z_dim, 1 + k, H / 8, W / 8].

    The configuration means the same as FrameStackCodec's.
    """

    @register_to_config
    def __init__(
        self,
        z_dim: int = 24,
        latents_mean: tuple[float, ...] = (0.0,) * 24,
        latents_std: tuple[float, ...] = (1.0,) * 24,
        latents_rgb: tuple[tuple[float, ...], ...] = ((0.0, 0.0, 0.0),) * 25,
        scale_factor_spatial: int = 8,
        scale_factor_temporal: int = FRAMES_PER_LATENT,
        temperal_downsample: tuple[bool, ...] = (False, True, True),
        detail_width: int = 224,
        detail_layers: int = 3,
        motion_gain: float = 0.0,
        frames_per_slice: int = 16,
    ):
        ModelMixin.__init__(self)  # not FrameStackCodec's, whose networks are others
        self.temperal_downsample = list(temperal_downsample)
        channels, cell = 3 * FRAMES_PER_LATENT, scale_factor_spatial
        self.encoder = PatchEncoder(channels, z_dim, cell)
        self.decoder = nn.ConvTranspose2d(z_dim, channels, cell, stride=cell)
        self.detail = DetailDecoder(z_dim, detail_width, detail_layers, channels, cell)

    def set_axes(self, mean: torch.Tensor, axes: torch.Tensor, std: torch.Tensor) -> None:
        """mean [12, 8, 8], orthonormal axes [z_dim, 12, 8, 8], std [z_dim] of what they measure."""
        with torch.no_grad():
            self.encoder.axes.weight.copy_(axes)
            self.encoder.axes.bias.copy_(-(axes * mean).sum((1, 2, 3)))
            self.decoder.weight.copy_(axes)
            self.decoder.bias.copy_(mean.mean((1, 2)))
        zeros = [0.0] * len(std)
        self.register_to_config(latents_mean=zeros, latents_std=[round(v, 6) for v in std.tolist()])

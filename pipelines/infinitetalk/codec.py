"""A video codec of diffusers, from pixels to normalised latents and back."""

from __future__ import annotations

import torch

from pipelines.skyreels_v2.encoders import latent_statistics


class VaeCodec:
    """AutoencoderKLWan, or a codec with its interface. No random numbers: the mode of the posterior
    is taken, as in the published code."""

    def __init__(self, vae: torch.nn.Module, tiled: bool = False) -> None:
        self.vae = vae
        vae.use_tiling = tiled

    def encode(self, video: torch.Tensor) -> torch.Tensor:
        """`[1, 3, 1 + 4k, H, W]` in -1..1 -> fp32 `[1, C, 1 + k, h, w]`, mean 0 and deviation 1."""
        latents = self.vae.encode(self._placed(video)).latent_dist.mode().float()
        mean, scale = latent_statistics(self.vae, latents)
        return (latents - mean) * scale

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        """`[1, C, 1 + k, h, w]` -> fp32 `[1, 3, 1 + 4k, H, W]` in -1..1."""
        latents = self._placed(latents)
        mean, scale = latent_statistics(self.vae, latents)
        video = self.vae.decode(latents / scale + mean, return_dict=False)[0]
        return video.float().clamp(-1, 1)

    def _placed(self, tensor: torch.Tensor) -> torch.Tensor:
        parameter = next(self.vae.parameters())
        return tensor.to(parameter.device, parameter.dtype)

"""After the loop: latents to frames."""

from __future__ import annotations

import numpy as np
import torch

from pipelines.skyreels_v2.encoders import latent_statistics


def decode(vae: torch.nn.Module, latents: torch.Tensor, overlap: int) -> np.ndarray:
    """The new frames of a segment, uint8 `[F - overlap, H, W, 3]`, from all its latents
    `[1, C, Fo, h, w]`.

    A segment is decoded by itself, its overlap included, and the first `overlap` frames are
    dropped: the segment before has them already. So a segment's pixels depend on nothing but its
    own latents, and a kept prefix never has to be decoded again.

    With a codec that decodes each latent frame by itself (the starter's) this equals decoding the
    whole video at once. AutoencoderKLWan carries a causal cache from frame to frame, and its first
    latent frame holds one picture instead of four: there the overlap is the context that warms the
    cache up, and the frames after it come close to, but do not equal, those of one long decode.
    """
    parameter = next(vae.parameters())
    latents = latents.to(parameter.device, parameter.dtype)
    mean, scale = latent_statistics(vae, latents)
    video = vae.decode(latents / scale + mean, return_dict=False)[0]
    new = video[0, :, overlap:].float()
    pixels = (new / 2 + 0.5).clamp(0, 1).mul(255).round().to(torch.uint8)
    return pixels.permute(1, 2, 3, 0).cpu().numpy()

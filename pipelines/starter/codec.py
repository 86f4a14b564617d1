"""The frame-stack codec: four frames become one latent frame, 8 x 8 pixels become one cell.

A latent frame is decoded from itself, and from the one before only how its four frames move: no
drift, and exact segment boundaries, since a segment begins with latents that it repeats. The
interface is the part of AutoencoderKLWan that pipelines use.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.autoencoders.vae import DecoderOutput, DecoderTiny, EncoderTiny
from diffusers.models.modeling_outputs import AutoencoderKLOutput
from diffusers.models.modeling_utils import ModelMixin
from torch import nn

FRAMES_PER_LATENT = 4


class PointDistribution:
    """The codec is deterministic: mode, mean and sample are the same latents."""

    def __init__(self, latents: torch.Tensor):
        self.mean = latents

    def mode(self) -> torch.Tensor:
        return self.mean

    def sample(self, generator: torch.Generator | None = None) -> torch.Tensor:
        return self.mean


class DetailDecoder(nn.Module):
    """Adds to TAESD's decoder what it is too narrow for: edges and small shapes.

    Wide convolutions over cells, then every cell unfolds into its 8 x 8 pixels; 0 when untrained.
    """

    def __init__(self, z_dim: int, width: int, layers: int, channels: int, cell: int):
        super().__init__()
        self.enter = nn.Conv2d(z_dim, width, 3, padding=1)
        self.mix = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(layers))
        self.join = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        self.leave = nn.Conv2d(width, channels * cell**2, 1)
        self.unfold = nn.PixelShuffle(cell)
        for layer in (*self.join, self.leave):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Normalised latents [N, z_dim, h, w] -> [N, channels, cell h, cell w]."""
        hidden = self.enter(z)
        for mix, join in zip(self.mix, self.join, strict=True):
            hidden = hidden + join(nn.functional.silu(mix(nn.functional.silu(hidden))))
        return self.unfold(self.leave(nn.functional.silu(hidden)))


class FrameStackCodec(ModelMixin, ConfigMixin):
    """Video [B, 3, 1 + 4k, H, W] in -1..1 <-> latents [B, z_dim, 1 + k, H / 8, W / 8].

    The first frame is repeated four times and the rest taken in fours; each group is a picture
    of 12 channels for the 2-D autoencoder of TAESD (diffusers' EncoderTiny and DecoderTiny); with
    a `detail_width`, a DetailDecoder helps it.
    `latents_mean` and `latents_std` normalise latents for the transformer; `latents_rgb` maps
    normalised latents to a small picture: 24 rows of (r, g, b), then the bias, in -1..1.
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
        block_out_channels: tuple[int, ...] = (32, 32, 32, 32),
        num_encoder_blocks: tuple[int, ...] = (1, 2, 2, 2),
        num_decoder_blocks: tuple[int, ...] = (2, 2, 2, 1),
        detail_width: int = 0,
        detail_layers: int = 3,
        motion_gain: float = 0.0,
        frames_per_slice: int = 16,
    ):
        super().__init__()
        self.temperal_downsample = list(temperal_downsample)  # diffusers derives 8 and 4 from it
        channels = 3 * FRAMES_PER_LATENT
        self.encoder = EncoderTiny(channels, z_dim, num_encoder_blocks, block_out_channels, "relu")
        self.decoder = DecoderTiny(
            z_dim, channels, num_decoder_blocks, block_out_channels, 2, "relu", "nearest"
        )
        if detail_width:
            self.detail = DetailDecoder(
                z_dim, detail_width, detail_layers, channels, scale_factor_spatial
            )

    def encode(self, x: torch.Tensor, return_dict: bool = True):
        """x [B, 3, 1 + 4k, H, W] -> .latent_dist of [B, z_dim, 1 + k, H / 8, W / 8].

        Raises ValueError when the frames are not 1 + 4k or the sides not multiples of 8.
        """
        self._check_video(x)
        batch = len(x)
        latents = self._in_slices(self.encoder, stack_frames(x))
        latents = latents.unflatten(0, (batch, -1)).transpose(1, 2)
        posterior = PointDistribution(latents)
        return AutoencoderKLOutput(latent_dist=posterior) if return_dict else (posterior,)

    def decode(self, z: torch.Tensor, return_dict: bool = True):
        """z [B, z_dim, T, h, w] -> video [B, 3, 1 + 4 (T - 1), 8 h, 8 w] in -1..1."""
        batch = len(z)
        stacks = self._in_slices(self.decode_stacks, z.transpose(1, 2).flatten(0, 1))
        stacks = spread_motion(stacks.unflatten(0, (batch, -1)), self.config.motion_gain)
        video = unstack_frames(stacks.flatten(0, 1), batch).clamp(-1, 1)
        return DecoderOutput(sample=video) if return_dict else (video,)

    def decode_stacks(self, z: torch.Tensor) -> torch.Tensor:
        """Latent frames [N, z_dim, h, w] -> stacks [N, 12, 8 h, 8 w], each on its own.

        The motion inside a stack is still to be spread, and the result to be clamped.
        """
        if not self.config.detail_width:
            return self.decoder(z)
        mean, std = (
            z.new_tensor(values).view(1, -1, 1, 1)
            for values in (self.config.latents_mean, self.config.latents_std)
        )
        return self.decoder(z) + self.detail((z - mean) / std)

    def _in_slices(
        self, network: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
    ) -> torch.Tensor:
        """Run a 2-D network over a few latent frames at a time: its memory does not grow with T."""
        return torch.cat([network(part) for part in x.split(self.config.frames_per_slice)])

    def _check_video(self, x: torch.Tensor) -> None:
        frames, (height, width) = x.shape[2], x.shape[3:]
        if frames % FRAMES_PER_LATENT != 1:
            below = max(1, (frames - 1) // FRAMES_PER_LATENT * FRAMES_PER_LATENT + 1)
            raise ValueError(
                f"The codec takes 1 + 4k frames, not {frames}; the nearest are {below} "
                f"and {below + FRAMES_PER_LATENT}."
            )
        factor = self.config.scale_factor_spatial
        if height % factor or width % factor:
            nearest = [max(factor, round(side / factor) * factor) for side in (height, width)]
            raise ValueError(
                f"The codec takes sides that are multiples of {factor}, not {width} x {height}; "
                f"the nearest are {nearest[1]} x {nearest[0]}."
            )


def spread_motion(stacks: torch.Tensor, gain: float) -> torch.Tensor:
    """Let the four frames of each stack move on evenly from the picture of the stack before.

    stacks [B, T, 12, H, W]. The networks give about the same picture four times. Frame k lies
    (k + 1) / 4 of the way from the last stack's picture to this one's, so that every step is a
    quarter of the change, the step from one stack to the next included. Placing the picture in the
    middle of its stack instead is 0.4 dB nearer to the truth, but where the change turns from one
    stack to the next that step is twice as large as the others, and seen as a beat.
    """
    if not gain:
        return stacks
    frames = stacks.unflatten(2, (FRAMES_PER_LATENT, 3))
    middle = frames.mean(2, keepdim=True)
    change = torch.diff(middle, dim=1, prepend=middle[:, :1])
    when = torch.arange(FRAMES_PER_LATENT, device=stacks.device, dtype=stacks.dtype)
    when = (when + 1) / FRAMES_PER_LATENT - 1
    return (frames + gain * when.view(1, 1, -1, 1, 1, 1) * change).flatten(2, 3)


def stack_frames(x: torch.Tensor) -> torch.Tensor:
    """[B, 3, 1 + 4k, H, W] -> [B (1 + k), 12, H, W]; the first frame fills the first stack."""
    x = torch.cat([x[:, :, :1].expand(-1, -1, FRAMES_PER_LATENT - 1, -1, -1), x], dim=2)
    x = x.unflatten(2, (-1, FRAMES_PER_LATENT)).permute(0, 2, 3, 1, 4, 5)
    return x.flatten(2, 3).flatten(0, 1)


def unstack_frames(stacks: torch.Tensor, batch: int) -> torch.Tensor:
    """[B T, 12, H, W] -> [B, 3, 1 + 4 (T - 1), H, W]; the first stack gives its last frame."""
    x = stacks.unflatten(1, (FRAMES_PER_LATENT, 3)).unflatten(0, (batch, -1))
    x = x.permute(0, 3, 1, 2, 4, 5).flatten(2, 3)
    return x[:, :, FRAMES_PER_LATENT - 1 :]

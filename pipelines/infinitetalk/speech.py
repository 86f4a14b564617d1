"""Speech features of a voice: the hidden states of a wav2vec2 encoder at the rate of the frames.

The published code stretches the features of the convolutions to one a frame before they are
projected. The convolutions run piece by piece here, with the statistics of the whole: what a long
voice takes of memory is its features, not its samples times 512 channels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.infinitetalk.loudness import normalised
from pipelines.infinitetalk.windows import SAMPLE_RATE, frames_of

PIECE = 30 * SAMPLE_RATE
"""Samples at a time; about 400 MB in the first convolution of the published encoder."""


def embed_voice(encoder: nn.Module, voice: np.ndarray, fps: int, do_normalize: bool) -> Any:
    """float32 `[T, layers, hidden]` on the CPU: what `speech_features` gives for a voice at the
    loudness that the model was trained with. `do_normalize`: as the feature extractor's config
    says, samples are brought to mean 0 and variance 1 (eps 1e-7)."""
    voice = normalised(voice, SAMPLE_RATE)
    return speech_features(encoder, voice, fps, do_normalize)


def speech_features(
    encoder: nn.Module, voice: np.ndarray, fps: int, do_normalize: bool
) -> torch.Tensor:
    """float32 `[T, layers, hidden]` on the CPU, T = frames of the voice, at least 1.

    `encoder` is transformers' Wav2Vec2Model; `voice` float32 `[samples]` at 16 kHz.
    """
    parameter = next(encoder.parameters())
    samples = torch.from_numpy(np.ascontiguousarray(voice, dtype=np.float32))
    if do_normalize:
        samples = (samples - samples.mean()) / torch.sqrt(samples.var(correction=0) + 1e-7)
    samples = samples.to(parameter.device, parameter.dtype)
    frames = max(1, frames_of(len(voice), fps))
    features = convolved(encoder.feature_extractor.conv_layers, samples)
    features = nn.functional.interpolate(
        features[None], size=frames, mode="linear", align_corners=True
    )
    hidden, _ = encoder.feature_projection(features.transpose(1, 2))
    states: list[torch.Tensor] = []

    def keep(_: nn.Module, __: Any, output: Any) -> None:
        state = output[0] if isinstance(output, tuple) else output
        states.append(state[0].float().cpu())

    hooks = [layer.register_forward_hook(keep) for layer in encoder.encoder.layers]
    try:
        encoder.encoder(hidden)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(states, dim=1)


def convolved(layers: nn.ModuleList, samples: torch.Tensor, piece: int = PIECE) -> torch.Tensor:
    """`[channels, features]` of `[samples]`: the convolutions of wav2vec2, in pieces that overlap
    by what their kernels reach. Equal to those of the whole, up to rounding."""
    hop = math.prod(layer.conv.stride[0] for layer in layers)
    reach = _reach(layers)
    if len(samples) < reach:
        samples = nn.functional.pad(samples, (0, reach - len(samples)))
    count = (len(samples) - reach) // hop + 1
    each = max(1, (piece - reach) // hop + 1)
    pieces = [
        samples[first * hop : (min(first + each, count) - 1) * hop + reach]
        for first in range(0, count, each)
    ]
    normed = _group_statistics(layers[0], samples, piece)
    found = []
    for part in pieces:
        hidden = part[None, None]
        for i, layer in enumerate(layers):
            hidden = _first(layer, hidden, normed) if i == 0 and normed else layer(hidden)
        found.append(hidden[0])
    return torch.cat(found, dim=-1)


def _reach(layers: nn.ModuleList) -> int:
    """Samples that one feature is made of."""
    reach = 1
    for layer in reversed(layers):
        reach = (reach - 1) * layer.conv.stride[0] + layer.conv.kernel_size[0]
    return reach


Statistics = tuple[torch.Tensor, torch.Tensor]


def _group_statistics(layer: Any, samples: torch.Tensor, piece: int) -> Statistics | None:
    """Mean and variance of each channel over the whole voice, where the first layer normalises
    over time (a group for every channel, as in wav2vec2 base); None where it does not."""
    if not isinstance(getattr(layer, "layer_norm", None), nn.GroupNorm):
        return None
    stride, kernel = layer.conv.stride[0], layer.conv.kernel_size[0]
    count = (len(samples) - kernel) // stride + 1
    each = max(1, (piece - kernel) // stride + 1)
    total = square = 0.0
    for first in range(0, count, each):
        last = min(first + each, count) - 1
        hidden = layer.conv(samples[first * stride : last * stride + kernel][None, None])
        total = total + hidden.sum(-1, dtype=torch.float64)
        square = square + hidden.double().square().sum(-1)
    mean = total / count
    return mean, (square / count - mean.square()).clamp(min=0)


def _first(layer: Any, hidden: torch.Tensor, statistics: Statistics) -> torch.Tensor:
    mean, variance = statistics
    norm = layer.layer_norm
    scale = norm.weight.double() / torch.sqrt(variance + norm.eps)
    shift = norm.bias.double() - mean * scale
    hidden = layer.conv(hidden)
    scale, shift = (value.to(hidden.dtype)[..., None] for value in (scale, shift))
    return layer.activation(hidden * scale + shift)

"""The ear: a small wav2vec2 whose hidden states say how loud and how bright each frame sounds.

It is trained first, alone, to draw a coarse spectrum and the mouth's movement out of its layers;
the transformer then learns from frozen features, as InfiniteTalk does.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from .faces import FPS
from .voices import HOP, RATE, mouth_width, normalised, openness, random_voice, speak

if TYPE_CHECKING:
    import torch
    from transformers import Wav2Vec2Model

BANDS = 16


def new_ear() -> Wav2Vec2Model:
    """An untrained Wav2Vec2Model of two layers, 64 wide, with the usual stride of 320 samples."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    config = Wav2Vec2Config(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        conv_dim=(32,) * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        hidden_dropout=0.0,
        activation_dropout=0.0,
        attention_dropout=0.0,
        feat_proj_dropout=0.0,
        layerdrop=0.0,
        apply_spec_augment=False,
        vocab_size=32,
    )
    return Wav2Vec2Model(config)


def hear(ear: Wav2Vec2Model, waves: torch.Tensor, frames: int) -> torch.Tensor:
    """Waves [B, N] of zero mean and unit variance -> features [B, frames, layers, channels].

    The CNN's output is stretched to the video's frames before the transformer layers see it.
    """
    import torch

    cnn = ear.feature_extractor(waves)
    cnn = torch.nn.functional.interpolate(cnn, size=frames, mode="linear", align_corners=True)
    hidden, _ = ear.feature_projection(cnn.transpose(1, 2))
    kept = []
    hooks = [
        layer.register_forward_hook(
            lambda module, args, out: kept.append(out[0] if isinstance(out, tuple) else out)
        )
        for layer in ear.encoder.layers
    ]
    try:
        ear.encoder(hidden)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(kept, 2)


def feature_windows(features: torch.Tensor, start: int, frames: int) -> torch.Tensor:
    """Features [T, layers, channels] -> [frames, 5, layers, channels]: two before each frame, its
    own, two after, held at the ends."""
    import torch

    centre = torch.arange(start, start + frames)[:, None] + torch.arange(-2, 3)
    return features[centre.clamp(0, len(features) - 1)]


# ---------------------------------------------------------------- training


def targets(wave: np.ndarray, frames: int) -> np.ndarray:
    """What the features must tell [frames, 2 + BANDS]: openness and width of the mouth, and the
    log energies of bands that widen upwards."""
    wave_ = np.pad(normalised(wave), (0, max(0, frames * HOP - len(wave))))[: frames * HOP]
    spectrum = np.abs(np.fft.rfft(wave_.reshape(frames, HOP) * np.hanning(HOP), axis=1)) ** 2
    edges = np.unique(np.geomspace(3, HOP // 2, BANDS + 1).astype(int))
    bands = [spectrum[:, a:b].mean(1) for a, b in itertools.pairwise(edges)]
    energies = np.log10(np.stack(bands, 1) / HOP + 1e-2) / 2
    mouth = np.stack([openness(wave, frames) * 2, (mouth_width(wave, frames) - 1) * 8], 1)
    return np.concatenate([mouth, energies], 1).astype(np.float32)


def training_wave(rng: np.random.Generator, seconds: float) -> np.ndarray:
    """A voice, sometimes with rests, hiss or a second voice, so that the ear is no specialist."""
    talk = 0.8 if rng.random() < 0.7 else 0.3
    wave = speak(random_voice(rng), seconds, rng, talk)
    if rng.random() < 0.2:
        wave = wave + rng.uniform(0.1, 1) * speak(random_voice(rng), seconds, rng)
    if rng.random() < 0.4:
        noise = rng.standard_normal(len(wave), np.float32)
        if rng.random() < 0.5:
            noise = np.cumsum(noise - noise.mean()) * 0.02
        wave = wave + 10 ** rng.uniform(-3.5, -1.3) * noise
    if rng.random() < 0.3:
        curve = np.interp(np.linspace(0, 5, len(wave)), np.arange(6), rng.uniform(0.2, 1, 6))
        wave = wave * curve
    return wave.astype(np.float32)


def train_ear(minutes: float, seed: int = 0, batch: int = 4, log=print):
    """Train an ear for `minutes` of wall time; returns it and the correlation of openness on new
    voices."""
    import time

    import torch

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    ear = new_ear().train()
    reader = torch.nn.Linear(2 * ear.config.hidden_size, 2 + BANDS)
    parameters = [*ear.parameters(), *reader.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, betas=(0.9, 0.98), weight_decay=0.01)
    started, step = time.monotonic(), 0
    pool: list[tuple[torch.Tensor, torch.Tensor]] = []
    while (done := (time.monotonic() - started) / 60 / minutes) < 1:
        # most batches are heard again, since drawing them costs as much as learning
        if len(pool) < 20 or rng.random() < 0.3:
            pool.append(_batch(rng, batch))
            pool = pool[-100:]
            waves, wanted = pool[-1]
        else:
            waves, wanted = pool[rng.integers(len(pool))]
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, (step + 1) / 100, max(0.02, (1 - done) / 0.6))
        loss = _loss(ear, reader, waves, wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 0:
            log(f"ear {step} done {done:.0%} loss {float(loss.detach()):.4f}")
    return ear.eval(), _correlation(ear, reader, np.random.default_rng(seed + 1))


def _batch(rng, size: int):
    import torch

    seconds = float(rng.uniform(1.2, 4.0))
    frames = int(seconds * RATE) // HOP
    waves = [training_wave(rng, seconds) for _ in range(size)]
    wanted = torch.from_numpy(np.stack([targets(wave, frames) for wave in waves]))
    sound = torch.from_numpy(np.stack([normalised(wave) for wave in waves])).float()
    return sound, wanted


def _loss(ear, reader, waves, wanted):
    features = hear(ear, waves, wanted.shape[1])
    error = (reader(features.flatten(2)) - wanted).abs()
    error[..., 0] *= 4
    error[..., 1] *= 2
    return error.mean()


def _correlation(ear, reader, rng) -> float:
    import torch

    found = []
    for _ in range(16):
        wave = speak(random_voice(rng), 5.0, rng)
        sound = torch.from_numpy(normalised(wave)).float()[None]
        frames = 5 * FPS
        with torch.inference_mode():
            told = reader(hear(ear, sound, frames).flatten(2))[0, :, 0].numpy()
        found.append(np.corrcoef(told, openness(wave, frames))[0, 1])
    return float(np.mean(found))

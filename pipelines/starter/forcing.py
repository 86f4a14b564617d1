"""Diffusion forcing: which windows are trained on and how noisy each of their chunks is.

A chunk is three latent frames, the block of the transformer's causal mask. While sampling, a
window begins either at the true start of a video or with a chunk of clean history; training
draws exactly these cases (Chen et al. 2024, "Diffusion Forcing", with SkyReels-V2's sorted noise).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .captions import drop_words
from .shards import row_to_scene
from .text import training_caption

if TYPE_CHECKING:
    import torch

CHUNK = 3
FLOW_SHIFT = 3.0


@dataclass(frozen=True)
class WindowKind:
    """Windows of `latent_frames`, `clips` to a batch, drawn with probability `share`."""

    latent_frames: int
    clips: int
    share: float


# Small batches and many steps: with Muon that learns most for a given number of multiplications.
# First mostly single pictures, which hold all of the composition at a ninth of the price of a
# window; then films, half of them only the first chunk.
STAGES = {
    "pictures": (WindowKind(1, 64, 0.8), WindowKind(3, 20, 0.2)),
    "films": (
        WindowKind(1, 64, 0.18),
        WindowKind(3, 24, 0.36),
        WindowKind(9, 8, 0.34),
        WindowKind(12, 6, 0.06),
        WindowKind(15, 5, 0.06),
    ),
}


@dataclass(frozen=True)
class Batch:
    """One training batch.

    latents, normalised [B, C, T, h, w]; sigmas [B, T] in 0..1; weights [B, T, h, w], 0 where a
    frame is clean; captions, one for each clip.
    """

    latents: torch.Tensor
    sigmas: torch.Tensor
    weights: torch.Tensor
    captions: list[str]


def shifted(u):
    """The flow-matching time shift: sigma = s u / (1 + (s - 1) u)."""
    return FLOW_SHIFT * u / (1 + (FLOW_SHIFT - 1) * u)


def draw_sigmas(starts: np.ndarray, chunks: int, rng: np.random.Generator):
    """Noise levels for windows that begin at latent `starts` [B].

    chunks = 0 stands for single pictures. Returns sigmas [B, 3 chunks] and a mask of the frames
    to learn from, same shape.
    """
    batch = len(starts)
    # stratified over the batch: less variance than independent draws
    u = (rng.permutation(batch) + rng.random(batch)) / batch
    if chunks == 0:
        return shifted(u[:, None]).astype(np.float32), np.ones((batch, 1), bool)
    levels = np.repeat(u[:, None], chunks, 1)
    staggered = rng.random(batch) < 0.5
    levels[staggered] = np.sort(rng.random((int(staggered.sum()), chunks)), 1)
    history = rng.integers(0, chunks, batch) if chunks > 1 else np.zeros(batch, int)
    history = np.where(starts > 0, np.maximum(history, 1), history)
    clean = np.arange(chunks) < history[:, None]
    slight = np.where(rng.random(batch) < 0.25, rng.random(batch) * 0.03, 0.0)
    sigmas = np.where(clean, slight[:, None], shifted(levels)).repeat(CHUNK, 1)
    learn = ~clean.repeat(CHUNK, 1)
    # a reference picture as the first frame: only latent 0 is clean
    pictured = (starts == 0) & (history == 0) & (rng.random(batch) < 0.1)
    sigmas[pictured, 0] = 0.0
    learn[pictured, 0] = False
    return sigmas.astype(np.float32), learn


def draw_starts(kind: WindowKind, available: int, rng: np.random.Generator) -> np.ndarray:
    """First latent of each window: 0 in 40 % of the cases and wherever nothing else fits."""
    room = available - kind.latent_frames
    starts = rng.integers(1, room + 1, kind.clips) if room > 0 else np.zeros(kind.clips, int)
    starts[rng.random(kind.clips) < 0.4] = 0
    if kind.latent_frames <= CHUNK:
        starts[:] = 0  # without history, sampling only ever begins at the true start
    return starts


def draw_batch(clips: dict, kind: WindowKind, mean, std, actor_weight: float, rng) -> Batch:
    """A batch of `kind` from clips (latents, cells, scenes as in shards.load_shards)."""
    import torch

    latents = clips["latents"]
    picks = rng.integers(0, len(latents), kind.clips)
    starts = draw_starts(kind, latents.shape[2], rng)
    spans = [slice(s, s + kind.latent_frames) for s in starts]
    z = torch.stack([latents[i, :, s] for i, s in zip(picks, spans, strict=True)]).float()
    cells = torch.stack([clips["cells"][i, s] for i, s in zip(picks, spans, strict=True)]).float()
    sigmas, learn = draw_sigmas(starts, kind.latent_frames // CHUNK, rng)
    weights = (1 + actor_weight * cells) * torch.from_numpy(learn)[:, :, None, None]
    return Batch(
        latents=(z - mean) / std,
        sigmas=torch.from_numpy(sigmas),
        weights=weights / weights.mean(),
        captions=[_caption(clips["scenes"][i].tolist(), rng) for i in picks],
    )


def _caption(row, rng) -> str:
    """Nothing in 10 %, for guidance; with lost words in another 10 %."""
    if rng.random() < 0.1:
        return ""
    caption, _ = training_caption(row_to_scene(row), rng)
    return drop_words(caption, rng) if rng.random() < 0.1 else caption


def forcing_loss(transformer, batch: Batch, prompt_embeds, generator=None):
    """Weighted mean square error of the velocity noise - latents."""
    import torch

    noise = torch.randn(batch.latents.shape, generator=generator).to(batch.latents.device)
    sigma = batch.sigmas[:, None, :, None, None]
    noisy = (1 - sigma) * batch.latents + sigma * noise
    # a single picture has no blocks, and the mask of a part of a block cannot be built
    blocks = CHUNK if noisy.shape[2] >= CHUNK else 1
    transformer.register_to_config(num_frame_per_block=blocks)
    velocity = transformer(
        noisy,
        batch.sigmas * 1000,
        prompt_embeds,
        enable_diffusion_forcing=True,
        return_dict=False,
    )[0]
    error = (velocity.float() - (noise - batch.latents)).pow(2).mean(1)
    return (error * batch.weights).mean()

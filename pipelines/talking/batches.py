"""Batches for the transformer: inputs exactly as the segment loop of InfiniteTalk makes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .faces import HEIGHT, WIDTH
from .shards import CELL, MARGIN, MOTION, SEGMENT

FLOW_SHIFT = 3.0
LEAST_NOISE = 0.1  # before the shift
MASK_CHANNELS = 4
CellWeights = tuple[tuple[str, float], ...]  # name of a share of cells, extra weight there
INSET = 0.05  # of a half of the picture, around a person whose place is not given


@dataclass(frozen=True)
class Batch:
    """One training batch.

    latents, normalised and clean [B, C, T, h, w]; known, the same with the motion latents as the
    chain has them; condition, mask and encoded reference [B, 4 + C, T, h, w]; learn [B, T], 0
    where frames are known; weights [B, h, w]; sigmas [B]; audio [B, P, F, 5, layers, channels];
    masks [B, P + 1, h, w] or None for one person; text [B, L, D] and image [B, tokens, D]
    embeddings; channel_weights [C], more for the channels that show most.
    """

    latents: torch.Tensor
    known: torch.Tensor
    condition: torch.Tensor
    learn: torch.Tensor
    weights: torch.Tensor
    sigmas: torch.Tensor
    audio: torch.Tensor
    masks: torch.Tensor | None
    text: torch.Tensor
    image: torch.Tensor
    channel_weights: torch.Tensor


@dataclass(frozen=True)
class Constants:
    """mean and std of the codec [1, C, 1, 1, 1]; `empty`, normalised latents of grey frames
    [C, h, w]; `texts` [captions, L, D] with `moods` [captions], the last row is the empty text."""

    mean: torch.Tensor
    std: torch.Tensor
    empty: torch.Tensor
    texts: torch.Tensor
    moods: np.ndarray


def draw_batch(
    clips: dict, images: torch.Tensor, size: int, frames: int, weights: CellWeights,
    constants: Constants, rng: np.random.Generator,
) -> Batch:  # fmt: skip
    """`size` samples of the first `frames` latent frames of their segments."""
    picks = rng.integers(0, len(clips["latents"]), size)
    latents, reference = (
        (clips[name][picks].float() - constants.mean) / constants.std
        for name in ("latents", "reference")
    )
    latents = latents[:, :, :frames]
    first = clips["first"][picks]
    repeated = 1 + (MOTION - 1) // 4
    count = torch.where(first, 1, repeated)
    learn = (torch.arange(frames)[None] >= count[:, None]).float()
    known = latents.clone()
    motion = known[:, :, :repeated]
    known[:, :, :repeated] = torch.where(first.view(-1, 1, 1, 1, 1), motion, _worn(motion, rng))
    people = clips["features"].shape[1]
    return Batch(
        latents=latents,
        known=known,
        condition=condition_of(reference, constants.empty, frames),
        learn=learn,
        weights=1 + sum(extra * clips[name][picks].float() for name, extra in weights),
        sigmas=_sigmas(size, rng),
        audio=_audio(clips["features"][picks].float(), frames, rng),
        masks=person_masks(clips["boxes"][picks], rng) if people > 1 else None,
        text=_texts(clips["mood"][picks].numpy(), constants, rng),
        image=images[picks].float(),
        channel_weights=constants.std.view(-1).sqrt() / constants.std.sqrt().mean(),
    )


def condition_of(reference: torch.Tensor, empty: torch.Tensor, frames: int) -> torch.Tensor:
    """reference [B, C, 1, h, w] -> mask and encoded [reference, grey frames] [B, 4 + C, T, h, w].

    Each latent frame of this codec is encoded on its own, so that grey frames are a constant.
    """
    batch = len(reference)
    rest = empty[None, :, None].expand(batch, -1, frames - 1, -1, -1)
    mask = torch.zeros(batch, MASK_CHANNELS, frames, *empty.shape[-2:])
    mask[:, :, 0] = 1
    return torch.cat([mask, torch.cat([reference, rest], 2)], 1)


def shifted(u):
    """The flow-matching time shift: sigma = s u / (1 + (s - 1) u)."""
    return FLOW_SHIFT * u / (1 + (FLOW_SHIFT - 1) * u)


def _worn(motion: torch.Tensor, rng) -> torch.Tensor:
    """Motion latents with a little noise in three of four cases: generated ones are never
    perfect, and a model that trusts them too much drifts."""
    level = rng.uniform(0.0, 0.3, len(motion)) * (rng.random(len(motion)) < 0.75)
    noise = torch.from_numpy(rng.standard_normal(motion.shape, np.float32))
    return motion + torch.from_numpy(level).float().view(-1, 1, 1, 1, 1) * noise


def _sigmas(size: int, rng) -> torch.Tensor:
    """Stratified over the batch: less variance than independent draws. Eight steps of sampling
    never look at less noise than `LEAST_NOISE`, where to be right would cost most."""
    u = (rng.permutation(size) + rng.random(size)) / size
    u = LEAST_NOISE + (1 - LEAST_NOISE) * u
    return torch.from_numpy(shifted(u)).float()


def _audio(features: torch.Tensor, frames: int, rng) -> torch.Tensor:
    """Features [B, P, 37, layers, channels] -> windows [B, P, F, 5, layers, channels]; silence
    (zeros) in 10 %, for guidance."""
    length = min(SEGMENT, 4 * (frames - 1) + 1)
    windows = torch.stack([features[:, :, k : k + length] for k in range(2 * MARGIN + 1)], dim=3)
    heard = torch.from_numpy((rng.random(len(features)) >= 0.1).astype(np.float32))
    return windows * heard.view(-1, 1, 1, 1, 1, 1)


def _texts(moods: np.ndarray, constants: Constants, rng) -> torch.Tensor:
    """The embeddings of a caption of each mood; of the empty text in 10 %, for guidance."""
    rows = [rng.choice(np.flatnonzero(constants.moods == mood)) for mood in moods]
    rows = np.where(rng.random(len(rows)) < 0.1, len(constants.texts) - 1, rows)
    return constants.texts[rows]


def person_masks(boxes: torch.Tensor, rng) -> torch.Tensor:
    """Boxes [B, P, 4] in pixels -> [B, P + 1, h, w]: each person's box, or half of the picture
    where it is not given (by chance, or without an `rng` always); the background last."""
    batch, people = boxes.shape[:2]
    y, x = torch.meshgrid(
        torch.arange(0, HEIGHT, CELL), torch.arange(0, WIDTH, CELL), indexing="ij"
    )
    half = WIDTH / people
    masks = torch.zeros(batch, people + 1, HEIGHT // CELL, WIDTH // CELL)
    for b in range(batch):
        given = rng is not None and rng.random() < 0.5
        for p in range(people):
            x0, y0, x1, y1 = boxes[b, p].tolist() if given else (
                half * (p + INSET), HEIGHT * INSET, half * (p + 1 - INSET), HEIGHT * (1 - INSET),
            )  # fmt: skip
            masks[b, p] = ((x >= x0) & (x < x1) & (y >= y0) & (y < y1)).float()
    masks[:, -1] = (masks[:, :-1].sum(1) == 0).float()
    return masks


def velocity_loss(transformer, batch: Batch, noise: torch.Tensor) -> torch.Tensor:
    """Weighted mean square error of noise - latents over the frames that are not known."""
    sigma = batch.sigmas.view(-1, 1, 1, 1, 1)
    learn = batch.learn[:, None, :, None, None]
    noisy = torch.where(learn > 0, (1 - sigma) * batch.latents + sigma * noise, batch.known)
    velocity = transformer(
        torch.cat([noisy, batch.condition], 1),
        batch.sigmas * 1000,
        batch.text,
        batch.image,
        batch.audio,
        batch.masks,
        return_dict=False,
    )[0]
    error = (velocity.float() - (noise - batch.latents)).pow(2)
    error = (error * batch.channel_weights.view(1, -1, 1, 1, 1)).mean(1)
    weights = batch.weights[:, None] * batch.learn[:, :, None, None]
    return (error * weights).sum() / weights.sum()

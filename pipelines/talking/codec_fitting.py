"""Fits the codec to drawn faces: axes by principal components, the decoder by gradient descent."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from pipelines.starter.codec import FRAMES_PER_LATENT, stack_frames

from .codec import PatchCodec
from .faces import FPS, HEIGHT, WIDTH
from .scenes import Scene, random_scene

CLIP = 33  # frames
CELL = 8
MOUTH_SHARE = 3.0  # how much more a pixel of a mouth counts


def to_float(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 -> -1..1."""
    return pixels.float() / 127.5 - 1


def mouth_pixels(scene: Scene) -> np.ndarray:
    """float32 [H, W], 1 inside the mouths' boxes."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    inside = np.zeros((HEIGHT, WIDTH), np.float32)
    for x0, y0, x1, y1 in (face.mouth_box for face in scene.faces):
        inside[(x > x0) & (x < x1) & (y > y0) & (y < y1)] = 1
    return inside


def draw_stacks(scenes: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Stacks uint8 [N, 12, H, W] of random scenes, and where their mouths are [N, 1, H, W]."""
    rng = np.random.default_rng(seed)
    pixels, mouths = [], []
    for k in range(scenes):
        scene = random_scene(rng, (CLIP + 1) / FPS, people=1 + k % 2)
        video = torch.from_numpy(scene.draw(np.arange(CLIP))).permute(3, 0, 1, 2)[None]
        stacks = stack_frames(video)
        pixels.append(stacks)
        inside = torch.from_numpy(mouth_pixels(scene))[None, None].to(torch.uint8)
        mouths.append(inside.expand(len(stacks), -1, -1, -1))
    return torch.cat(pixels), torch.cat(mouths)


def fit_axes(codec: PatchCodec, stacks: torch.Tensor, mouths: torch.Tensor) -> None:
    """Principal components of the patches, those of mouths weighing more."""
    patches, weights = [], []
    for part, where in zip(stacks.split(64), mouths.split(64), strict=True):
        unfolded = torch.nn.functional.unfold(to_float(part), CELL, stride=CELL)
        patches.append(unfolded.transpose(1, 2).flatten(0, 1))
        share = torch.nn.functional.avg_pool2d(where.float(), CELL).flatten()
        weights.append(1 + MOUTH_SHARE * share)
    x, w = torch.cat(patches), torch.cat(weights)
    # one colour for a whole patch keeps the mean a bias of each channel
    mean = ((x * w[:, None]).sum(0) / w.sum()).view(3 * FRAMES_PER_LATENT, -1)
    mean = mean.mean(1, keepdim=True).expand(-1, CELL * CELL)
    centred = x - mean.flatten()
    moments = (centred * w[:, None]).T @ centred / w.sum()
    axes = torch.linalg.eigh(moments.double())[1].flip(1).T[: codec.config.z_dim].float()
    std = (centred @ axes.T).std(0)
    shape = (3 * FRAMES_PER_LATENT, CELL, CELL)
    codec.set_axes(mean.view(shape), axes.view(-1, *shape), std)
    # the picture of a latent: the mean colour of each axis
    colours = axes.view(-1, FRAMES_PER_LATENT, 3, CELL * CELL).mean((1, 3)) * std[:, None]
    bias = mean.view(FRAMES_PER_LATENT, 3, -1).mean((0, 2))
    rows = torch.cat([colours, bias[None]]).tolist()
    codec.register_to_config(latents_rgb=[[round(v, 6) for v in row] for row in rows])


@dataclass(frozen=True)
class DecoderSettings:
    """Minutes are wall time of this run."""

    minutes: float = 20.0
    scenes: int = 200
    batch: int = 8
    learning_rate: float = 1.5e-3
    noise: float = 0.05  # on normalised latents: generated ones are not exact
    checkpoint_minutes: float = 2.0
    seed: int = 1


def train_decoder(codec: PatchCodec, settings: DecoderSettings, out: Path, log=print) -> PatchCodec:
    """Train the decoder's network for frozen axes; `out` gets the average every few minutes."""
    s = settings
    stacks, mouths = draw_stacks(s.scenes, s.seed)
    codec.requires_grad_(False)
    parameters = list(codec.detail.requires_grad_(True).parameters())
    average = [p.detach().clone() for p in parameters]
    optimizer = torch.optim.AdamW(parameters, lr=s.learning_rate, betas=(0.9, 0.98))
    rng = np.random.default_rng([s.seed, int(time.time())])
    started = saved = time.monotonic()
    std = torch.tensor(codec.config.latents_std).view(1, -1, 1, 1)
    losses, step = [], 0
    while (done := (time.monotonic() - started) / 60 / s.minutes) < 1:
        factor = min(1.0, (step + 1) / 50, max(0.02, (1 - done) / 0.5))
        optimizer.param_groups[0]["lr"] = s.learning_rate * factor
        picks = rng.integers(0, len(stacks), s.batch)
        target = to_float(stacks[picks])
        weight = 1 + MOUTH_SHARE * mouths[picks].float()
        with torch.no_grad():
            z = codec.encoder(target)
            z = z + s.noise * rng.uniform(0, 2) * torch.randn(z.shape) * std
        difference = codec.decode_stacks(z) - target
        loss = ((difference.abs() + 2 * difference.pow(2)) * weight).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        step += 1
        with torch.no_grad():
            torch._foreach_lerp_(average, parameters, 1 - min(0.99, (1 + step) / (10 + step)))
        losses.append(float(loss.detach()))
        if step % 50 == 0:
            log(f"codec {step} done {done:.0%} loss {np.mean(losses[-50:]):.4f}")
        if time.monotonic() - saved > 60 * s.checkpoint_minutes:
            _save(codec, average, out)
            saved = time.monotonic()
    _save(codec, average, out)
    load_decoder(codec, out)
    return codec.eval()


def _save(codec: PatchCodec, average: list[torch.Tensor], out: Path) -> None:
    names = [name for name, _ in codec.detail.named_parameters()]
    save_file(dict(zip(names, average, strict=True)), out.with_suffix(".partial"))
    out.with_suffix(".partial").rename(out)


def load_decoder(codec: PatchCodec, out: Path) -> None:
    """Fill the decoder's network with what `train_decoder` wrote."""
    codec.detail.load_state_dict(load_file(out))


@dataclass(frozen=True)
class Fidelity:
    """Decibels of new scenes after the codec: of whole frames, and inside the mouths' boxes."""

    whole: float
    mouth: float


def fidelity(codec: PatchCodec, scenes: int, seed: int) -> Fidelity:
    """Measure the codec on newly drawn clips of 33 frames."""
    stacks, mouths = draw_stacks(scenes, seed)
    whole, inside, area = 0.0, 0.0, 0.0
    for part, where in zip(stacks.split(16), mouths.split(16), strict=True):
        with torch.inference_mode():
            decoded = codec.decode_stacks(codec.encoder(to_float(part))).clamp(-1, 1)
        square = (decoded - to_float(part)).pow(2).mean(1, keepdim=True)
        whole += square.mean().item() * len(part) / len(stacks)
        inside += (square * where).sum().item()
        area += where.sum().item()
    return Fidelity(10 * math.log10(4 / whole), 10 * math.log10(4 * area / inside))

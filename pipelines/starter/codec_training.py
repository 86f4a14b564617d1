"""Trains the codec's decoder, or both halves, on crops that mostly hold the actor.

The loss weighs the actor up: it is the smallest thing in the picture and the one people look at.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from .codec import FRAMES_PER_LATENT, FrameStackCodec, stack_frames
from .dataset import HEIGHT, WIDTH, draw_clip, random_scene

CELL = 8


@dataclass(frozen=True)
class CodecSettings:
    """Minutes are wall time of the whole training, resumed runs included."""

    minutes: float = 20.0
    clips: int = 240
    frames: int = 33
    batch: int = 16
    crop_cells: int = 6
    learning_rate: float = 1e-3
    actor_weight: float = 3.0
    train_encoder: bool = False
    checkpoint_minutes: float = 3.0
    seed: int = 1


@dataclass(frozen=True)
class Stacks:
    """Stacks of four frames: pixels uint8 [N, 12, H, W], the actor's boxes float32 [N, 4]."""

    pixels: torch.Tensor
    boxes: np.ndarray

    def masks(self, picks) -> torch.Tensor:
        """float [n, 1, H, W], 1 inside the boxes."""
        y, x = torch.arange(HEIGHT).view(1, -1, 1) + 0.5, torch.arange(WIDTH).view(1, 1, -1) + 0.5
        box = torch.from_numpy(self.boxes[picks]).view(-1, 4, 1, 1)
        inside = (x > box[:, 0]) & (y > box[:, 1]) & (x < box[:, 2]) & (y < box[:, 3])
        return inside.float()[:, None]


def draw_stacks(clips: int, frames: int, seed: int) -> Stacks:
    """Stacks of random clips; a box is the union of its four frames' boxes."""
    rng = np.random.default_rng(seed)
    pixels, boxes = [], []
    for _ in range(clips):
        clip = draw_clip(random_scene(rng), frames, rng)
        video = torch.from_numpy(clip.frames).permute(3, 0, 1, 2)[None]
        pixels.append(stack_frames(video))
        box = np.concatenate([clip.boxes[:1].repeat(FRAMES_PER_LATENT - 1, 0), clip.boxes])
        box = box.reshape(-1, FRAMES_PER_LATENT, 4)
        boxes.append(np.concatenate([box[:, :, :2].min(1), box[:, :, 2:].max(1)], 1))
    return Stacks(torch.cat(pixels), np.concatenate(boxes))


def to_float(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 -> -1..1."""
    return pixels.float() / 127.5 - 1


class CodecTrainer:
    """`run` trains for the given minutes; `save` and `load` resume."""

    def __init__(self, codec: FrameStackCodec, settings: CodecSettings, device: str = "cpu"):
        self.codec, self.settings, self.device = codec.to(device), settings, device
        codec.encoder.requires_grad_(settings.train_encoder)
        self.parameters = dict(p for p in codec.named_parameters() if p[1].requires_grad)
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=1.0, betas=(0.9, 0.99), weight_decay=1e-4
        )
        self.average = {name: p.detach().clone() for name, p in self.parameters.items()}
        self.step, self.minutes = 0, 0.0

    def run(self, out: Path, log=print) -> None:
        s = self.settings
        stacks = draw_stacks(s.clips, s.frames, s.seed)
        latents = None if s.train_encoder else self._encode(stacks)
        rng = np.random.default_rng([s.seed, self.step])
        last = saved = time.monotonic()
        while self.minutes < s.minutes:
            self._set_rate()
            loss = self._train_step(stacks, latents, rng)
            now = time.monotonic()
            self.minutes, last = self.minutes + (now - last) / 60, now
            if self.step % 50 == 0:
                log(f"codec step {self.step} min {self.minutes:.1f} loss {loss:.4f}")
            if now - saved > 60 * s.checkpoint_minutes:
                self.save(out)
                saved = now
        self.save(out)

    def _set_rate(self) -> None:
        done = min(1.0, self.minutes / self.settings.minutes)
        cosine = 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))
        rate = self.settings.learning_rate * min(1.0, (self.step + 1) / 50) * cosine
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    def _encode(self, stacks: Stacks) -> torch.Tensor:
        """With a frozen encoder, latents are computed once."""
        with torch.inference_mode():
            parts = [
                self.codec.encoder(to_float(p).to(self.device)).half()
                for p in stacks.pixels.split(64)
            ]
        return torch.cat(parts)

    def _train_step(self, stacks: Stacks, latents, rng) -> float:
        s = self.settings
        picks = rng.integers(0, len(stacks.pixels), s.batch)
        pixels, masks = to_float(stacks.pixels[picks]), stacks.masks(picks)
        corners = self._corners(stacks.boxes[picks], rng)
        size = s.crop_cells * CELL
        target = _crops(pixels, corners * CELL, size).to(self.device)
        weight = 1 + s.actor_weight * _crops(masks, corners * CELL, size).to(self.device)
        if latents is None:
            z = self.codec.encoder(target)
        else:
            # .clone() turns an inference tensor into one that autograd may save
            z = _crops(latents[picks].clone().float(), corners, s.crop_cells)
        difference = self.codec.decode_stacks(z) - target
        error = difference.abs() + 2 * difference.pow(2)
        slopes = _slopes(difference) * 0.3
        loss = (error * weight).mean() + slopes + 1e-4 * z.pow(2).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), 1.0)
        self.optimizer.step()
        self.step += 1
        keep = min(0.995, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                self.average[name].lerp_(parameter, 1 - keep)
        return float(loss.detach())

    def _corners(self, boxes: np.ndarray, rng) -> np.ndarray:
        """Top left cells [B, 2] (row, column) of the crops; three in four are on the actor."""
        size, (rows, columns) = self.settings.crop_cells, (HEIGHT // CELL, WIDTH // CELL)
        room = np.array([rows - size, columns - size])
        centre = np.stack([boxes[:, 1] + boxes[:, 3], boxes[:, 0] + boxes[:, 2]], 1) / 2 / CELL
        on_actor = np.round(centre - size / 2 + rng.uniform(-1, 1, centre.shape))
        anywhere = rng.integers(0, room + 1, centre.shape)
        corners = np.where(rng.random((len(boxes), 1)) < 0.75, on_actor, anywhere)
        return np.clip(corners, 0, room).astype(int)

    def save(self, out: Path) -> None:
        """Write state.safetensors (weights, average, moments) and state.json, by rename."""
        out.mkdir(parents=True, exist_ok=True)
        tensors = {f"codec.{k}": v for k, v in self.codec.state_dict().items()}
        tensors |= {f"average.{k}": v for k, v in self.average.items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{name}.{key}"] = value
        tensors = {k: v.detach().cpu().clone().contiguous() for k, v in tensors.items()}
        save_file(tensors, out / "state.partial")
        (out / "state.partial").rename(out / "state.safetensors")
        notes = {"step": self.step, "done_minutes": self.minutes, "settings": asdict(self.settings)}
        (out / "state.json").write_text(json.dumps(notes, indent=1))

    def load(self, out: Path) -> None:
        """Continue from `save`."""
        notes = json.loads((out / "state.json").read_text())
        self.step, self.minutes = notes["step"], notes["done_minutes"]
        tensors = load_file(out / "state.safetensors")
        self.codec.load_state_dict(_under(tensors, "codec."))
        self.average.update(_under(tensors, "average."))
        for name, parameter in self.parameters.items():
            state = _under(tensors, f"optimizer.{name}.")
            if state:
                self.optimizer.state[parameter] = state

    def averaged(self) -> FrameStackCodec:
        """The codec with the moving average of its weights."""
        self.codec.load_state_dict(self.average, strict=False)
        return self.codec


def _under(tensors: dict, prefix: str) -> dict:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _crops(x: torch.Tensor, corners: np.ndarray, size: int) -> torch.Tensor:
    return torch.stack(
        [part[:, r : r + size, c : c + size] for part, (r, c) in zip(x, corners, strict=True)]
    )


def _slopes(difference: torch.Tensor) -> torch.Tensor:
    """Mean error of the gradients along both axes: keeps edges sharp."""
    across = (difference[..., 1:] - difference[..., :-1]).abs().mean()
    return across + (difference[..., 1:, :] - difference[..., :-1, :]).abs().mean()


# ---------------------------------------------------------------- measuring


def measure(codec: FrameStackCodec, keep_statistics: bool, clips: int = 120) -> FrameStackCodec:
    """Write into the config what is measured on drawn clips: the mean and standard deviation of
    the latents, and the linear map from normalised latents to a small picture."""
    stacks = draw_stacks(clips, 33, seed=7)
    with torch.inference_mode():
        parts = [codec.encoder(to_float(p)) for p in stacks.pixels.split(64)]
    latents = torch.cat(parts).movedim(1, -1).flatten(0, 2).double()
    if not keep_statistics:
        mean, std = latents.mean(0).tolist(), latents.std(0).tolist()
        codec.register_to_config(latents_mean=mean, latents_std=std)
    config = codec.config
    normalised = (latents - torch.tensor(config.latents_mean)) / torch.tensor(config.latents_std)
    cells = torch.cat([_cell_colours(p) for p in stacks.pixels.split(64)]).double()
    inputs = torch.cat([normalised, torch.ones(len(normalised), 1)], 1)
    matrix = torch.linalg.lstsq(inputs, cells).solution
    codec.register_to_config(latents_rgb=[[round(v, 6) for v in row] for row in matrix.tolist()])
    return codec


def _cell_colours(pixels: torch.Tensor) -> torch.Tensor:
    """Stacks [N, 12, H, W] -> the mean colour of each cell [N h w, 3] in -1..1."""
    colours = to_float(pixels).unflatten(1, (FRAMES_PER_LATENT, 3)).mean(1)
    return torch.nn.functional.avg_pool2d(colours, CELL).movedim(1, -1).flatten(0, 2)


@dataclass(frozen=True)
class Fidelity:
    """Decibels of held-out clips after the codec: of whole frames, and inside the actor's box."""

    whole: float
    actor: float


def fidelity(codec: FrameStackCodec, clips: int, seed: int) -> Fidelity:
    """Measure the codec on newly drawn clips of 33 frames."""
    rng = np.random.default_rng(seed)
    error = inside = area = 0.0
    for _ in range(clips):
        clip = draw_clip(random_scene(rng), 33, rng)
        true = to_float(torch.from_numpy(clip.frames)).permute(3, 0, 1, 2)[None]
        with torch.inference_mode():
            decoded = codec.decode(codec.encode(true).latent_dist.mode()).sample
        square = (decoded - true).pow(2)[0].mean(0)
        error += square.mean().item() / clips
        mask = Stacks(true, clip.boxes).masks(np.arange(33))[:, 0]
        inside, area = inside + (square * mask).sum().item(), area + mask.sum().item()
    return Fidelity(10 * math.log10(4 / error), 10 * math.log10(4 / (inside / area)))

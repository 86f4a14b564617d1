"""Training the transformer for a given wall time, resumable, alone or in a team of processes."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pipelines.starter.muon import Muon
from pipelines.starter.team import Team

from .batches import Batch, Constants, draw_batch, velocity_loss
from .captions import MOODS, embed_captions, random_caption
from .faces import HEIGHT, WIDTH
from .parts import embed_images
from .shards import load_shards


@dataclass(frozen=True)
class BatchKind:
    """Segments of `frames` latent frames with `people`, `size` to a batch, drawn by `share`."""

    people: int
    frames: int
    size: int
    share: float


# Whole segments: of shorter ones the known frames would be too large a share.
KINDS = (BatchKind(1, 9, 8, 0.72), BatchKind(2, 9, 8, 0.28))


@dataclass(frozen=True)
class TrainSettings:
    """Minutes are wall time of this run; the rate falls over its last part."""

    minutes: float = 60.0
    decay_minutes: float = 25.0
    learning_rate: float = 2e-3
    warmup_steps: int = 60
    mouth_weight: float = 3.0
    ema_decay: float = 0.995
    checkpoint_minutes: float = 4.0
    kinds: tuple[BatchKind, ...] = KINDS
    max_steps: int | None = None
    seed: int = 5


def constants_of(codec, tokenizer, text_encoder, captions: int = 200) -> Constants:
    """What all batches share: the codec's statistics, grey frames, and captions of each mood."""
    mean, std = (
        torch.tensor(values).view(1, -1, 1, 1, 1)
        for values in (codec.config.latents_mean, codec.config.latents_std)
    )
    with torch.no_grad():
        grey = codec.encode(torch.zeros(1, 3, 1, HEIGHT, WIDTH)).latent_dist.mode()
        rng = np.random.default_rng(0)
        moods = np.arange(captions) % len(MOODS)
        texts = [random_caption(MOODS[mood], rng) for mood in moods]
        embeds = embed_captions(tokenizer, text_encoder, [*texts, ""])
    empty = ((grey - mean) / std)[0, :, 0]
    return Constants(mean, std, empty, embeds, np.append(moods, len(MOODS)))


class Trainer:
    """Holds the transformer, its moving average and the optimisers; `run` trains, `save` and
    `load` resume."""

    def __init__(self, transformer, image_encoder, codec, constants, settings, team=None):
        self.settings, self.constants, self.team = settings, constants, team or Team()
        self.codec, self.image_encoder = codec, image_encoder
        self.model = transformer.train()
        self.average = copy.deepcopy(transformer).eval().requires_grad_(False)
        self.optimizers = self._build_optimizers()
        self.step = 0

    def _build_optimizers(self):
        matrices, rest = [], []
        for name, parameter in self.model.named_parameters():
            in_block = name.startswith("blocks.") and parameter.ndim == 2
            (matrices if in_block else rest).append(parameter)
        rate = self.settings.learning_rate
        return (
            Muon(matrices, lr=rate),
            torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), weight_decay=0.01),
        )

    def run(self, folder: Path, out: Path, log=print) -> None:
        """Train on the shards in `folder` until the time is over; checkpoints go to `out`."""
        s, started = self.settings, time.monotonic()
        rng = np.random.default_rng([s.seed, self.step, self.team.rank])
        clips, saved, losses = self._load_clips(folder), started, {}
        shards = len(list(folder.glob("*.safetensors")))
        while True:
            minutes = (time.monotonic() - started) / 60
            over = minutes >= s.minutes or (s.max_steps is not None and self.step >= s.max_steps)
            if self.team.meets(self.step):
                over = self.team.agree(over)
                self.team.average([*self.model.parameters(), *self.average.parameters()])
            elif self.team.size > 1:
                over = False
            if over:
                break
            self._set_rate(minutes)
            kinds = [k for k in s.kinds if k.people in clips]
            shares = np.array([k.share for k in kinds])
            kind = kinds[rng.choice(len(kinds), p=shares / shares.sum())]
            samples, images = clips[kind.people]
            batch = draw_batch(
                samples, images, kind.size, kind.frames, s.mouth_weight, self.constants, rng
            )
            losses.setdefault(kind.people, []).append(self.train_step(batch, rng))
            if self.step % 20 == 0:
                means = " ".join(f"{n}:{np.mean(v):.4f}" for n, v in sorted(losses.items()))
                log(f"step {self.step} min {minutes:.1f} loss {means}")
                losses = {}
            if time.monotonic() - saved > 60 * s.checkpoint_minutes:
                if self.team.rank == 0:
                    self.save(out)
                if len(list(folder.glob("*.safetensors"))) != shards:
                    clips = self._load_clips(folder)
                    shards = len(list(folder.glob("*.safetensors")))
                saved = time.monotonic()
        if self.team.rank == 0:
            self.save(out)

    def _load_clips(self, folder: Path):
        """People in a scene -> the samples, and the image embeddings of their references."""
        found = {}
        for people in (1, 2):
            samples = load_shards(folder, people)
            if samples:
                found[people] = samples, self._images(samples["reference"])
        if not found:
            raise FileNotFoundError(f"{folder} holds no samples; run the data step first.")
        return found

    def _images(self, references: torch.Tensor) -> torch.Tensor:
        """The axes' pictures will do for CLIP's blurred eyes, and cost little."""
        parts = []
        for part in references.split(64):
            with torch.no_grad():
                stacks = self.codec.decoder(part[:, :, 0].float())
            parts.append(embed_images(self.image_encoder, stacks[:, -3:].clamp(-1, 1)).half())
        return torch.cat(parts)

    def _set_rate(self, minutes: float) -> None:
        s = self.settings
        left = (s.minutes - minutes) / max(s.decay_minutes, 1e-6)
        factor = min(1.0, (self.step + 1) / s.warmup_steps, max(0.02, left))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = s.learning_rate * factor

    def train_step(self, batch: Batch, rng) -> float:
        """One update of the model and of its moving average; returns the loss."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        noise = torch.from_numpy(rng.standard_normal(batch.latents.shape, np.float32))
        loss = velocity_loss(self.model, batch, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        keep = min(self.settings.ema_decay, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.parameters()), list(self.model.parameters()), 1 - keep
            )
        return float(loss.detach())

    # ------------------------------------------------------------ checkpoints, without pickle

    def save(self, out: Path) -> None:
        """Write state.safetensors and state.json into `out`, by rename."""
        out.mkdir(parents=True, exist_ok=True)
        tensors = {f"model.{n}": p.detach() for n, p in self.model.named_parameters()}
        tensors |= {f"average.{n}": p for n, p in self.average.named_parameters()}
        for name, _, state in self._states():
            for key, value in state.items():
                tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
        tensors = {name: value.contiguous().clone() for name, value in tensors.items()}
        save_file(tensors, out / "state.partial", metadata={"step": str(self.step)})
        (out / "state.partial").rename(out / "state.safetensors")
        notes = {"step": self.step, "settings": asdict(self.settings)}
        (out / "state.json").write_text(json.dumps(notes, indent=1))

    def load(self, out: Path) -> None:
        """Continue from `save`; raises FileNotFoundError when there is nothing to continue."""
        tensors = load_file(out / "state.safetensors")
        with safe_open(out / "state.safetensors", "pt") as file:
            self.step = int(file.metadata()["step"])
        with torch.no_grad():
            for prefix, module in (("model", self.model), ("average", self.average)):
                for name, parameter in module.named_parameters():
                    parameter.copy_(tensors[f"{prefix}.{name}"])
        for name, parameter, _ in self._states(all_parameters=True):
            prefix = f"optimizer.{name}."
            state = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
            if state:
                self._owner(parameter).state[parameter] = state

    def _owner(self, parameter):
        muon, adamw = self.optimizers
        in_muon = any(parameter is p for group in muon.param_groups for p in group["params"])
        return muon if in_muon else adamw

    def _states(self, all_parameters: bool = False):
        for name, parameter in self.model.named_parameters():
            state = self._owner(parameter).state.get(parameter, {})
            if state or all_parameters:
                yield name, parameter, state


def load_average(out: Path, transformer) -> None:
    """Fill the transformer with the moving average of a checkpoint written by Trainer.save."""
    tensors = load_file(out / "state.safetensors")
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            parameter.copy_(tensors[f"average.{name}"])

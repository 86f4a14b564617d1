"""Training the transformer and the text encoder together, for a given wall time, resumable."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from .forcing import STAGES, Batch, draw_batch, forcing_loss
from .muon import Muon
from .shards import load_shards
from .team import Team
from .text import encode_prompts

SHORT_CLIP, LONG_CLIP = 9, 57  # frames of the clips in the shards


@dataclass(frozen=True)
class TrainSettings:
    """What a run needs besides the models; minutes are wall time of this run."""

    stage: str = "films"
    minutes: float = 60.0
    decay_minutes: float = 15.0
    learning_rate: float = 1.5e-3
    text_learning_rate: float = 1e-4
    warmup_steps: int = 100
    actor_weight: float = 2.0
    ema_decay: float = 0.998
    checkpoint_minutes: float = 4.0
    max_steps: int | None = None
    seed: int = 5


class Trainer:
    """Holds models, optimisers and the moving average; `run` trains, `save` and `load` resume."""

    def __init__(
        self, transformer, tokenizer, text_encoder, codec_config, settings, device="cpu", team=None
    ):
        self.settings, self.device, self.team = settings, device, team or Team()
        self.tokenizer = tokenizer
        self.models = torch.nn.ModuleDict(
            {"transformer": transformer.to(device), "text_encoder": text_encoder.to(device)}
        ).train()
        shape = (1, -1, 1, 1, 1)
        self.mean = torch.tensor(codec_config["latents_mean"]).view(shape)
        self.std = torch.tensor(codec_config["latents_std"]).view(shape)
        self.average = copy.deepcopy(self.models).eval().requires_grad_(False)
        self.optimizers = self._build_optimizers()
        self.step = 0

    def _build_optimizers(self):
        s = self.settings
        matrices, rest, text = [], [], list(self.models["text_encoder"].parameters())
        for name, parameter in self.models["transformer"].named_parameters():
            (matrices if name.startswith("blocks.") and parameter.ndim == 2 else rest).append(
                parameter
            )
        groups = [
            {"params": rest, "lr": s.learning_rate},
            {"params": text, "lr": s.text_learning_rate},
        ]
        # Muon on the blocks' matrices is what makes a small budget enough
        muon = Muon(matrices, lr=s.learning_rate)
        adamw = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01)
        for optimizer in (muon, adamw):
            for group in optimizer.param_groups:
                group["full_lr"] = group["lr"]
        return muon, adamw

    def run(self, folder: Path, out: Path, log=print) -> None:
        """Train on the shards in `folder` until the time is over; checkpoints go to `out`."""
        s, started = self.settings, time.monotonic()
        rng = np.random.default_rng([s.seed, self.step, self.team.rank])
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        kinds = STAGES[s.stage]
        clips, saved, losses = _load_clips(folder), started, {}
        while True:
            minutes = (time.monotonic() - started) / 60
            over = minutes >= s.minutes or (s.max_steps is not None and self.step >= s.max_steps)
            if self.team.meets(self.step):
                over = self.team.agree(over)
                self.team.average([*self.models.parameters(), *self.average.parameters()])
            elif self.team.size > 1:
                over = False
            if over:
                break
            self._set_rate(minutes)
            kind = kinds[rng.choice(len(kinds), p=[k.share for k in kinds])]
            source = clips[rng.choice([n for n in clips if n >= 4 * kind.latent_frames - 3])]
            batch = draw_batch(source, kind, self.mean, self.std, s.actor_weight, rng)
            loss = self.train_step(batch, generator)
            losses.setdefault(kind.latent_frames, []).append(loss)
            if self.step % 25 == 0:
                means = " ".join(f"{n}:{np.mean(v):.4f}" for n, v in sorted(losses.items()))
                log(f"step {self.step} min {minutes:.1f} loss {means}")
                losses = {}
            if time.monotonic() - saved > 60 * s.checkpoint_minutes:
                if self.team.rank == 0:
                    self.save(out)
                clips, saved = _load_clips(folder), time.monotonic()
        if self.team.rank == 0:
            self.save(out)

    def _set_rate(self, minutes: float) -> None:
        s = self.settings
        left = (s.minutes - minutes) / max(s.decay_minutes, 1e-6)
        factor = min(1.0, (self.step + 1) / s.warmup_steps, max(0.02, left))
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["full_lr"] * factor

    def train_step(self, batch: Batch, generator: torch.Generator) -> float:
        """One update of the models and of their moving average; returns the loss."""
        batch = replace(
            batch,
            latents=batch.latents.to(self.device),
            sigmas=batch.sigmas.to(self.device),
            weights=batch.weights.to(self.device),
        )
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        embeds = encode_prompts(self.tokenizer, self.models["text_encoder"], batch.captions)
        loss = forcing_loss(self.models["transformer"], batch, embeds, generator)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.models.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        keep = min(self.settings.ema_decay, (1 + self.step) / (10 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(
                list(self.average.parameters()), list(self.models.parameters()), 1 - keep
            )
        return float(loss.detach())

    # ------------------------------------------------------------ checkpoints, without pickle

    def save(self, out: Path) -> None:
        """Write state.safetensors and state.json into `out`, by rename."""
        out.mkdir(parents=True, exist_ok=True)
        tensors = {f"models.{n}": p.detach() for n, p in self.models.named_parameters()}
        tensors |= {f"average.{n}": p for n, p in self.average.named_parameters()}
        for name, _, state in self._states():
            for key, value in state.items():
                tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
        tensors = {name: value.cpu().contiguous().clone() for name, value in tensors.items()}
        save_file(tensors, out / "state.partial", metadata={"step": str(self.step)})
        (out / "state.partial").rename(out / "state.safetensors")
        (out / "state.json").write_text(
            json.dumps({"step": self.step, "settings": asdict(self.settings)}, indent=1)
        )

    def load(self, out: Path) -> None:
        """Continue from `save`; raises FileNotFoundError when there is nothing to continue."""
        from safetensors import safe_open

        tensors = load_file(out / "state.safetensors")
        with safe_open(out / "state.safetensors", "pt") as file:
            self.step = int(file.metadata()["step"])
        with torch.no_grad():
            for prefix, module in (("models", self.models), ("average", self.average)):
                for name, parameter in module.named_parameters():
                    parameter.copy_(tensors[f"{prefix}.{name}"])
        for name, parameter, _ in self._states(all_parameters=True):
            prefix = f"optimizer.{name}."
            state = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
            owner = self._owner(parameter)
            if state:
                owner.state[parameter] = {
                    k: v if k == "step" else v.to(parameter.device) for k, v in state.items()
                }

    def _owner(self, parameter):
        muon, adamw = self.optimizers
        in_muon = any(parameter is p for group in muon.param_groups for p in group["params"])
        return muon if in_muon else adamw

    def _states(self, all_parameters: bool = False):
        for name, parameter in self.models.named_parameters():
            state = self._owner(parameter).state.get(parameter, {})
            if state or all_parameters:
                yield name, parameter, state


def averaged_models(out: Path, transformer, text_encoder) -> None:
    """Fill the two models with the moving average of a checkpoint written by Trainer.save."""
    tensors = load_file(out / "state.safetensors")
    with torch.no_grad():
        for kind, model in (("transformer", transformer), ("text_encoder", text_encoder)):
            for name, parameter in model.named_parameters():
                parameter.copy_(tensors[f"average.{kind}.{name}"])


def _load_clips(folder: Path) -> dict[int, dict]:
    """Frames in a clip -> the clips of that length."""
    found = {frames: load_shards(folder, frames) for frames in (SHORT_CLIP, LONG_CLIP)}
    found = {frames: clips for frames, clips in found.items() if clips}
    if LONG_CLIP not in found:
        raise FileNotFoundError(
            f"{folder} holds no clips of {LONG_CLIP} frames; run the data step first."
        )
    return found

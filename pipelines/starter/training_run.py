"""A training run for a given wall time, resumable, alone or in a team of processes.

What is trained, on which batches and with which loss is said by a subclass.
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from .muon import Muon
from .team import Team


@dataclass(frozen=True)
class RunSettings:
    """Minutes are wall time of this run; the rate falls over its last part."""

    minutes: float = 60.0
    decay_minutes: float = 15.0
    learning_rate: float = 1.5e-3
    warmup_steps: int = 100
    ema_decay: float = 0.998
    checkpoint_minutes: float = 4.0
    max_steps: int | None = None
    seed: int = 5


def make_optimizers(transformer, learning_rate: float, *more: dict[str, Any]):
    """Muon for the matrices of the blocks, which is what makes a small budget enough; AdamW for
    the rest and for the groups in `more`."""
    matrices, rest = [], []
    for name, parameter in transformer.named_parameters():
        in_block = name.startswith("blocks.") and parameter.ndim == 2
        (matrices if in_block else rest).append(parameter)
    groups = [{"params": rest, "lr": learning_rate}, *more]
    adamw = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01)
    return Muon(matrices, lr=learning_rate), adamw


class TrainingRun:
    """Holds what is trained, its moving average and the optimisers; `run` trains, `save` and
    `load` resume."""

    name_of_weights: ClassVar[str]
    """What the names of the weights begin with in a checkpoint."""
    log_steps: ClassVar[int] = 20

    def __init__(self, models: torch.nn.Module, optimizers, settings: RunSettings, team=None):
        self.settings, self.team = settings, team or Team()
        self.models = models.train()
        self.average = copy.deepcopy(models).eval().requires_grad_(False)
        self.optimizers = optimizers
        for group in self._groups():
            group["full_lr"] = group["lr"]
        self.step = 0

    def load_clips(self, folder: Path) -> Any:
        """What batches are drawn from. Raises FileNotFoundError where there is nothing."""
        raise NotImplementedError

    def draw(self, clips: Any, rng: np.random.Generator) -> tuple[int, Any]:
        """(kind, batch): losses are told by kind."""
        raise NotImplementedError

    def noise_source(self, rng: np.random.Generator) -> Any:
        """Where the noise of the losses comes from, made once for a run."""
        return rng

    def loss(self, batch: Any, noise: Any) -> torch.Tensor:
        raise NotImplementedError

    def run(self, folder: Path, out: Path, log=print) -> None:
        """Train on the shards in `folder` until the time is over; checkpoints go to `out`."""
        s, started = self.settings, time.monotonic()
        rng = np.random.default_rng([s.seed, self.step, self.team.rank])
        noise = self.noise_source(rng)
        shards = _shards(folder)
        clips, saved, losses = self.load_clips(folder), started, {}
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
            kind, batch = self.draw(clips, rng)
            losses.setdefault(kind, []).append(self.train_step(batch, noise))
            if self.step % self.log_steps == 0:
                means = " ".join(f"{n}:{np.mean(v):.4f}" for n, v in sorted(losses.items()))
                log(f"step {self.step} min {minutes:.1f} loss {means}")
                losses = {}
            if time.monotonic() - saved > 60 * s.checkpoint_minutes:
                if self.team.rank == 0:
                    self.save(out)
                if _shards(folder) != shards:
                    shards = _shards(folder)
                    clips = self.load_clips(folder)
                saved = time.monotonic()
        if self.team.rank == 0:
            self.save(out)

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def _set_rate(self, minutes: float) -> None:
        s = self.settings
        left = (s.minutes - minutes) / max(s.decay_minutes, 1e-6)
        factor = min(1.0, (self.step + 1) / s.warmup_steps, max(0.02, left))
        for group in self._groups():
            group["lr"] = group["full_lr"] * factor

    def train_step(self, batch: Any, noise: Any) -> float:
        """One update of the models and of their moving average; returns the loss."""
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = self.loss(batch, noise)
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
        tensors = {
            f"{prefix}.{name}": parameter.detach()
            for prefix, module in self._saved()
            for name, parameter in module.named_parameters()
        }
        for name, _, state in self._states():
            for key, value in state.items():
                tensors[f"optimizer.{name}.{key}"] = torch.as_tensor(value)
        tensors = {name: value.cpu().contiguous().clone() for name, value in tensors.items()}
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
            for prefix, module in self._saved():
                for name, parameter in module.named_parameters():
                    parameter.copy_(tensors[f"{prefix}.{name}"])
        for name, parameter, _ in self._states(all_parameters=True):
            prefix = f"optimizer.{name}."
            state = {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
            if state:
                self._owner(parameter).state[parameter] = {
                    k: v if k == "step" else v.to(parameter.device) for k, v in state.items()
                }

    def _saved(self) -> tuple[tuple[str, torch.nn.Module], ...]:
        return (self.name_of_weights, self.models), ("average", self.average)

    def _owner(self, parameter):
        muon, adamw = self.optimizers
        in_muon = any(parameter is p for group in muon.param_groups for p in group["params"])
        return muon if in_muon else adamw

    def _states(self, all_parameters: bool = False):
        for name, parameter in self.models.named_parameters():
            state = self._owner(parameter).state.get(parameter, {})
            if state or all_parameters:
                yield name, parameter, state


def load_average(out: Path, models: torch.nn.Module) -> None:
    """Fill `models` with the moving average of a checkpoint written by TrainingRun.save."""
    tensors = load_file(out / "state.safetensors")
    with torch.no_grad():
        for name, parameter in models.named_parameters():
            parameter.copy_(tensors[f"average.{name}"])


def _shards(folder: Path) -> int:
    return len(list(folder.glob("*.safetensors")))

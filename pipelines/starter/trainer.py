"""Training the transformer and the text encoder together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from .forcing import STAGES, Batch, draw_batch, forcing_loss
from .shards import load_shards
from .text import encode_prompts
from .training_run import RunSettings, TrainingRun, load_average, make_optimizers

SHORT_CLIP, LONG_CLIP = 9, 57  # frames of the clips in the shards


@dataclass(frozen=True)
class TrainSettings(RunSettings):
    """What a run needs besides the models."""

    stage: str = "films"
    text_learning_rate: float = 1e-4
    actor_weight: float = 2.0


class Trainer(TrainingRun):
    """Trains both models with diffusion forcing."""

    name_of_weights = "models"
    log_steps = 25

    def __init__(
        self, transformer, tokenizer, text_encoder, codec_config, settings, device="cpu", team=None
    ):
        self.device, self.tokenizer = device, tokenizer
        models = _both(transformer.to(device), text_encoder.to(device))
        shape = (1, -1, 1, 1, 1)
        self.mean = torch.tensor(codec_config["latents_mean"]).view(shape)
        self.std = torch.tensor(codec_config["latents_std"]).view(shape)
        text = {"params": list(text_encoder.parameters()), "lr": settings.text_learning_rate}
        optimizers = make_optimizers(transformer, settings.learning_rate, text)
        super().__init__(models, optimizers, settings, team)

    def load_clips(self, folder: Path) -> dict[int, dict]:
        """Frames in a clip -> the clips of that length."""
        found = {frames: load_shards(folder, frames) for frames in (SHORT_CLIP, LONG_CLIP)}
        found = {frames: clips for frames, clips in found.items() if clips}
        if LONG_CLIP not in found:
            raise FileNotFoundError(
                f"{folder} holds no clips of {LONG_CLIP} frames; run the data step first."
            )
        return found

    def draw(self, clips: dict[int, dict], rng: np.random.Generator) -> tuple[int, Batch]:
        kinds = STAGES[self.settings.stage]
        kind = kinds[rng.choice(len(kinds), p=[k.share for k in kinds])]
        source = clips[rng.choice([n for n in clips if n >= 4 * kind.latent_frames - 3])]
        weight = self.settings.actor_weight
        return kind.latent_frames, draw_batch(source, kind, self.mean, self.std, weight, rng)

    def noise_source(self, rng: np.random.Generator) -> torch.Generator:
        return torch.Generator().manual_seed(int(rng.integers(2**62)))

    def loss(self, batch: Batch, noise: torch.Generator) -> torch.Tensor:
        batch = replace(
            batch,
            latents=batch.latents.to(self.device),
            sigmas=batch.sigmas.to(self.device),
            weights=batch.weights.to(self.device),
        )
        embeds = encode_prompts(self.tokenizer, self.models["text_encoder"], batch.captions)
        return forcing_loss(self.models["transformer"], batch, embeds, noise)


def averaged_models(out: Path, transformer, text_encoder) -> None:
    """Fill the two models with the moving average of a checkpoint written by Trainer.save."""
    load_average(out, _both(transformer, text_encoder))


def _both(transformer, text_encoder) -> torch.nn.ModuleDict:
    return torch.nn.ModuleDict({"transformer": transformer, "text_encoder": text_encoder})

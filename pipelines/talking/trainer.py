"""Training the transformer on segments of talking faces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from pipelines.starter.training_run import RunSettings, TrainingRun, make_optimizers

from .batches import Batch, CellWeights, Constants, draw_batch, velocity_loss
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
class TrainSettings(RunSettings):
    """What a run needs besides the models."""

    decay_minutes: float = 25.0
    learning_rate: float = 2e-3
    warmup_steps: int = 60
    ema_decay: float = 0.998
    cell_weights: CellWeights = (("mouths", 3.0), ("eyes", 3.0))
    kinds: tuple[BatchKind, ...] = KINDS


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


class Trainer(TrainingRun):
    """Trains the transformer with flow matching; the encoders stay as they are."""

    name_of_weights = "model"

    def __init__(self, transformer, image_encoder, codec, constants, settings, team=None):
        self.constants, self.codec, self.image_encoder = constants, codec, image_encoder
        optimizers = make_optimizers(transformer, settings.learning_rate)
        super().__init__(transformer, optimizers, settings, team)

    def load_clips(self, folder: Path):
        """People in a scene -> the samples, and the image embeddings of their references."""
        found = {}
        for people in (1, 2):
            samples = load_shards(folder, people)
            if samples:
                found[people] = samples, self._images(samples["reference"])
        if not found:
            raise FileNotFoundError(f"{folder} holds no samples; run the data step first.")
        return found

    def draw(self, clips, rng: np.random.Generator) -> tuple[int, Batch]:
        s = self.settings
        kinds = [k for k in s.kinds if k.people in clips]
        shares = np.array([k.share for k in kinds])
        kind = kinds[rng.choice(len(kinds), p=shares / shares.sum())]
        samples, images = clips[kind.people]
        return kind.people, draw_batch(
            samples, images, kind.size, kind.frames, s.cell_weights, self.constants, rng
        )

    def loss(self, batch: Batch, noise: np.random.Generator) -> torch.Tensor:
        drawn = noise.standard_normal(batch.latents.shape, np.float32)
        return velocity_loss(self.models, batch, torch.from_numpy(drawn))

    def _images(self, references: torch.Tensor) -> torch.Tensor:
        """The axes' pictures will do for CLIP's blurred eyes, and cost little."""
        parts = []
        for part in references.split(64):
            with torch.no_grad():
                stacks = self.codec.decoder(part[:, :, 0].float())
            parts.append(embed_images(self.image_encoder, stacks[:, -3:].clamp(-1, 1)).half())
        return torch.cat(parts)

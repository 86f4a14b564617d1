"""LoRAs for Wan2.1 on the transformer of InfiniteTalk, whose Wan layers have diffusers' names."""

from __future__ import annotations

import torch
from diffusers import DiffusionPipeline
from diffusers.loaders import WanLoraLoaderMixin


class LoraPipeline(DiffusionPipeline, WanLoraLoaderMixin):
    """What diffusers needs to read LoRAs in all the namings that it knows for Wan, the distilled
    ones for 4 to 8 steps among them. It computes nothing."""

    def __init__(self, transformer: torch.nn.Module) -> None:
        super().__init__()
        self.register_modules(transformer=transformer)

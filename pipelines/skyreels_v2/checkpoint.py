"""A SkyReels-V2 checkpoint on disk: the classes it may name, and what its configs say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import ClassVar

from pipelines import checkpoint

ENCODERS = ("tokenizer", "text_encoder")
DENOISER = ("transformer", "scheduler", "vae")


class Checkpoint(checkpoint.Checkpoint):
    """Of any of the three pipelines: they differ in their code, not in their components, and one
    checkpoint serves them all."""

    pipelines: ClassVar[tuple[str, ...]] = (
        "SkyReelsV2DiffusionForcingPipeline",
        "SkyReelsV2DiffusionForcingImageToVideoPipeline",
        "SkyReelsV2DiffusionForcingVideoToVideoPipeline",
    )
    classes: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "text_encoder": {"UMT5EncoderModel": "transformers", "T5EncoderModel": "transformers"},
        "transformer": {"SkyReelsV2Transformer3DModel": "diffusers"},
        "vae": {"AutoencoderKLWan": "diffusers", "FrameStackCodec": "pipelines.starter.codec"},
        "scheduler": {"UniPCMultistepScheduler": "diffusers"},
    }
    required: ClassVar[tuple[str, ...]] = (*ENCODERS, *DENOISER)

    def check(self, components: Iterable[str] | None = None) -> None:
        """Also raises BadInput for a scheduler of another kind of model."""
        chosen = self.components if components is None else tuple(components)
        super().check(chosen)
        if "scheduler" in chosen and not self.config("scheduler").get("use_flow_sigmas"):
            raise self.damage("scheduler", "does not set use_flow_sigmas")

    @cached_property
    def max_sequence_length(self) -> int:
        """Tokens that prompts are padded to: 512 unless the checkpoint says that it was trained
        on fewer, in model_index.json, in the transformer's config, or by a short tokenizer."""
        for config in (self.index, self.config("transformer")):
            length = config.get("max_sequence_length")
            if length:
                return int(length)
        # transformers writes 1e30 where a tokenizer has no limit.
        return int(min(self.config("tokenizer").get("model_max_length") or 512, 512))

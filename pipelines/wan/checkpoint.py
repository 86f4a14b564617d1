"""A Wan2.1 or Wan2.2 checkpoint on disk: which of the kinds it is, by its configs alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from pipelines import checkpoint


class Checkpoint(checkpoint.Checkpoint):
    """One transformer or two, with or without pictures. The kinds differ in their configs only."""

    pipelines: ClassVar[tuple[str, ...]] = ("WanPipeline", "WanImageToVideoPipeline")
    classes: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "text_encoder": {"UMT5EncoderModel": "transformers", "T5EncoderModel": "transformers"},
        "image_encoder": {
            "CLIPVisionModel": "transformers",
            "CLIPVisionModelWithProjection": "transformers",
        },
        "image_processor": {
            "CLIPImageProcessor": "transformers",
            "CLIPProcessor": "transformers",
        },
        "transformer": {"WanTransformer3DModel": "diffusers"},
        "transformer_2": {"WanTransformer3DModel": "diffusers"},
        "vae": {"AutoencoderKLWan": "diffusers"},
        "scheduler": {
            "UniPCMultistepScheduler": "diffusers",
            "FlowMatchEulerDiscreteScheduler": "diffusers",
        },
    }
    required: ClassVar[tuple[str, ...]] = (
        "tokenizer",
        "text_encoder",
        "transformer",
        "vae",
        "scheduler",
    )

    def class_of(self, component: str) -> tuple[str, str]:
        """Some name the processor of pictures and words where the pictures' alone is used."""
        module, name = super().class_of(component)
        return module, "CLIPImageProcessor" if name == "CLIPProcessor" else name

    @cached_property
    def two_in_one(self) -> bool:
        """Wan2.2 5B: one transformer for text alone and for pictures, a timestep for each place."""
        return bool(self.index.get("expand_timesteps"))

    @cached_property
    def takes_image(self) -> bool:
        return self.two_in_one or self.index["_class_name"] == "WanImageToVideoPipeline"

    @cached_property
    def needs_image(self) -> bool:
        return self.takes_image and not self.two_in_one

    @cached_property
    def takes_last_image(self) -> bool:
        """Whether it goes from a first picture to a last one.

        A Wan2.1 transformer needs positions for both pictures; Wan2.2 takes them in the latents
        alone.
        """
        config = self.config("transformer")
        if not self.needs_image:
            return False
        return not config.get("image_dim") or bool(config.get("pos_embed_seq_len"))

    @cached_property
    def looks_at_image(self) -> bool:
        """Whether a CLIP encoder looks at the pictures too (Wan2.1)."""
        return self.needs_image and bool(self.config("transformer").get("image_dim"))

    @cached_property
    def boundary(self) -> float | None:
        """Share of the noise at which the second transformer takes over, or None."""
        ratio = self.index.get("boundary_ratio")
        return None if ratio is None else float(ratio)

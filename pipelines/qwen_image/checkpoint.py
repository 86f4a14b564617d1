"""A Qwen-Image checkpoint on disk: the classes it may name, and what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar

from pipelines import checkpoint


class Checkpoint(checkpoint.Checkpoint):
    """The kinds differ in the code that runs them: the class in model_index.json tells."""

    pipelines: ClassVar[tuple[str, ...]] = (
        "QwenImagePipeline",
        "QwenImageEditPipeline",
        "QwenImageEditPlusPipeline",
    )
    classes: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "text_encoder": {"Qwen2_5_VLForConditionalGeneration": "transformers"},
        "processor": {
            "Qwen2VLProcessor": "transformers",
            "Qwen2_5_VLProcessor": "transformers",
        },
        "transformer": {"QwenImageTransformer2DModel": "diffusers"},
        "vae": {"AutoencoderKLQwenImage": "diffusers"},
        "scheduler": {"FlowMatchEulerDiscreteScheduler": "diffusers"},
    }
    required: ClassVar[tuple[str, ...]] = (
        "tokenizer",
        "text_encoder",
        "transformer",
        "vae",
        "scheduler",
    )

    @cached_property
    def edits(self) -> bool:
        """Whether it starts from a picture."""
        return self.index["_class_name"] != "QwenImagePipeline"

    @cached_property
    def takes_several(self) -> bool:
        """Whether it looks at more pictures than one."""
        return self.index["_class_name"] == "QwenImageEditPlusPipeline"

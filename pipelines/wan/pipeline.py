"""Wan2.1 and Wan2.2 as the studio sees them.

torch, diffusers and transformers are imported where a stage first needs them, not with this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines import images
from pipelines.base import Capabilities, Fields, Plan, Request, Task, Tensors
from pipelines.one_piece.family import VAE_ENCODER
from pipelines.one_piece.pipeline import OnePiece
from pipelines.wan.checkpoint import Checkpoint
from pipelines.wan.inputs import (
    CONDITION,
    PICTURES,
    SMALL_DTYPE,
    encoder_inputs,
    segment_inputs,
)
from pipelines.wan.plan import check_recipe, defaults, make_plan, tasks

if TYPE_CHECKING:
    import numpy as np
    import torch

    from pipelines.one_piece.hooks import Hooks, Source


class Wan(OnePiece):
    """Text to video, picture to video, and from a first picture to a last one."""

    capabilities: Capabilities = Capabilities(tasks=(Task.T2V, Task.I2V), encoder_reuse=True)
    checkpoint_class: ClassVar[type[Checkpoint]] = Checkpoint
    pipeline_classes: ClassVar[tuple[str, ...]] = Checkpoint.pipelines
    encoders: ClassVar[tuple[str, ...]] = (
        "tokenizer",
        "text_encoder",
        "image_processor",
        "image_encoder",
    )
    checkpoint: Checkpoint

    @classmethod
    def tasks_of(cls, checkpoint: Checkpoint) -> tuple[Task, ...]:
        return tasks(checkpoint)

    @classmethod
    def defaults_of(cls, checkpoint: Checkpoint) -> dict[str, Any]:
        return defaults(checkpoint)

    @classmethod
    def extras_of(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        found = ["loras", "weights", "offload", "tiling"]
        found += ["last_image"] if checkpoint.takes_last_image else []
        found += ["guidance_scale_2"] if checkpoint.boundary is not None else []
        return tuple(found)

    def plan(self, recipe: Request) -> Plan:
        plan = make_plan(recipe, self.checkpoint)
        self.check_held(recipe)
        return plan

    def check_recipe(self, recipe: Request) -> None:
        check_recipe(recipe, self.checkpoint)

    def encoder_inputs(self, recipe: Request) -> dict[str, Fields]:
        return encoder_inputs(recipe, self.checkpoint, self.dtype, self.device, self.tiled(recipe))

    def segment_inputs(self, recipe: Request) -> Fields:
        fields = segment_inputs(
            recipe, self.checkpoint, self.dtype, self.device, self.tiled(recipe)
        )
        return {**fields, **self.held_fields(recipe)}

    def dtype_of(self, component: str) -> str:
        return SMALL_DTYPE if component in ("vae", "image_encoder") else self.dtype

    def components_for(self, part: str) -> tuple[str, ...]:
        if part == CONDITION:
            return (VAE_ENCODER,)
        if part in PICTURES:
            return ("image_processor", "image_encoder")
        return ("tokenizer", "text_encoder")

    def pipe_class(self, recipe: Request) -> Any:
        from diffusers import WanImageToVideoPipeline, WanPipeline

        return WanPipeline if recipe.image is None else WanImageToVideoPipeline

    def pipe_config(self) -> dict[str, Any]:
        return {
            "boundary_ratio": self.checkpoint.boundary,
            "expand_timesteps": self.checkpoint.two_in_one,
        }

    def hooks(self, pipe: Any, recipe: Request, source: Source) -> Hooks:
        from pipelines.wan.seams import hooks_of

        return hooks_of(pipe, source)

    def arguments(self, recipe: Request, inputs: Tensors | None) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "prompt": recipe.prompt,
            "negative_prompt": recipe.negative_prompt,
            "width": recipe.width,
            "height": recipe.height,
            "num_frames": recipe.frames,
            "num_inference_steps": recipe.steps,
            # The negative prompt is encoded whatever the guidance is.
            "guidance_scale": 2.0 if inputs is None else recipe.guidance_scale,
        }
        if self.checkpoint.boundary is not None:
            arguments["guidance_scale_2"] = recipe.guidance_scale_2
        for name in PICTURES:
            path = getattr(recipe, name)
            if path is not None:
                arguments[name] = self._picture(name, Path(path), recipe, blank=inputs is not None)
        return arguments

    @staticmethod
    def _picture(name: str, path: Path, recipe: Request, blank: bool) -> Any:
        """The picture for its encoders; once they have seen it, one of its size will do."""
        from PIL import Image

        if blank:
            return Image.new("RGB", (recipe.width, recipe.height))
        return images.read_image(path, recipe.width, recipe.height, name)

    def scheduler_for(self, recipe: Request) -> Any:
        scheduler = self._components["scheduler"]
        name = "flow_shift" if "flow_shift" in scheduler.config else "shift"
        return type(scheduler).from_config(scheduler.config, **{name: recipe.shift})

    def estimate(
        self, pipe: Any, recipe: Request, before: Any, after: torch.Tensor, i: int
    ) -> torch.Tensor:
        """UniPC keeps its last clean estimate; with another scheduler the latents have to do."""
        kept = getattr(pipe.scheduler, "model_outputs", [None])[-1]
        latents = after if kept is None else kept
        return latents[0, :, latents.shape[2] // 2]

    def pixels_of(self, output: Any) -> np.ndarray:
        return output.frames[0]

    def samples(
        self, pipe: Any, recipe: Request, latents: torch.Tensor, frames: np.ndarray
    ) -> tuple[torch.Tensor, np.ndarray]:
        from pipelines.preview import sample

        return sample(latents, frames, 0, self.checkpoint.temporal_factor)

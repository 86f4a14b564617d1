"""Qwen-Image as the studio sees it.

torch, diffusers and transformers are imported where a stage first needs them, not with this file.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines import images
from pipelines.base import Capabilities, Fields, Plan, Request, Task, Tensors
from pipelines.one_piece.family import VAE_ENCODER
from pipelines.one_piece.pipeline import OnePiece
from pipelines.qwen_image.checkpoint import Checkpoint
from pipelines.qwen_image.inputs import (
    encoder_inputs,
    negative_prompt,
    pictures,
    segment_inputs,
)
from pipelines.qwen_image.plan import check_recipe, defaults, make_plan, tasks

if TYPE_CHECKING:
    import numpy as np
    import torch

    from pipelines.one_piece.hooks import Hooks, Source


class QwenImage(OnePiece):
    """A picture from words, or from one or several pictures and words."""

    capabilities: Capabilities = Capabilities(tasks=(Task.T2I, Task.I2I), encoder_reuse=True)
    checkpoint_class: ClassVar[type[Checkpoint]] = Checkpoint
    pipeline_classes: ClassVar[tuple[str, ...]] = Checkpoint.pipelines
    encoders: ClassVar[tuple[str, ...]] = ("tokenizer", "text_encoder", "processor")
    checkpoint: Checkpoint

    @classmethod
    def tasks_of(cls, checkpoint: Checkpoint) -> tuple[Task, ...]:
        return tasks(checkpoint)

    @classmethod
    def defaults_of(cls, checkpoint: Checkpoint) -> dict[str, Any]:
        return defaults(checkpoint)

    @classmethod
    def extras_of(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        several = ("references",) if checkpoint.takes_several else ()
        return ("loras", "weights", "offload", "tiling", *several)

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
        """One for all: pictures go to the codec in the dtype of the prompt's embeddings."""
        return self.dtype

    def components_for(self, part: str) -> tuple[str, ...]:
        if part in ("prompt", "negative_prompt"):
            processor = ("processor",) if self.checkpoint.edits else ()
            return ("tokenizer", "text_encoder", *processor)
        return (VAE_ENCODER,)

    def pipe_class(self, recipe: Request) -> Any:
        import diffusers

        return getattr(diffusers, self.checkpoint.index["_class_name"])

    def hooks(self, pipe: Any, recipe: Request, source: Source) -> Hooks:
        from pipelines.qwen_image.seams import hooks_of

        return hooks_of(pipe, source, list(pictures(recipe)))

    def arguments(self, recipe: Request, inputs: Tensors | None) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "prompt": recipe.prompt,
            "negative_prompt": negative_prompt(recipe),
            "width": recipe.width,
            "height": recipe.height,
            "num_inference_steps": recipe.steps,
            # The negative prompt is encoded whatever the guidance is.
            "true_cfg_scale": 2.0 if inputs is None else recipe.guidance_scale,
        }
        given = self._pictures(recipe, inputs)
        if given:
            arguments["image"] = given if self.checkpoint.takes_several else given[0]
        return arguments

    @staticmethod
    def _pictures(recipe: Request, inputs: Tensors | None) -> list[Any]:
        """The pictures for the encoders; once those have seen them, blank ones of their sizes."""
        from PIL import Image

        if inputs is None:
            return [
                images.read_whole_image(path, "image" if part == "image" else "references")
                for part, path in pictures(recipe).items()
            ]
        sizes = (inputs[f"{part}_size"].tolist() for part in pictures(recipe))
        return [Image.new("RGB", (width, height)) for width, height in sizes]

    def encode(self, recipe: Request, parts: Collection[str]) -> dict[str, Tensors]:
        """`embeds` `[tokens, dim]` of the prompts; of each picture `latents` `[1, C, 1, h, w]` and
        its own `size`, (width, height) in pixels."""
        import torch

        encoded = super().encode(recipe, parts)
        for part, path in pictures(recipe).items():
            if part in encoded:
                size = images.read_whole_image(path, part).size
                encoded[part]["size"] = torch.tensor(size)
        return encoded

    def scheduler_for(self, recipe: Request) -> Any:
        scheduler = self._components["scheduler"]
        return type(scheduler).from_config(scheduler.config)

    def _load_component(self, name: str, held: tuple[Any, ...] | None) -> Any:
        if name != "processor":
            return super()._load_component(name, held)
        from pipelines.components import as_damage
        from pipelines.qwen_image.encoder import load_processor

        try:
            return load_processor(self.checkpoint.folder / name)
        except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
            raise as_damage(self.checkpoint, name, error) from error

    def estimate(
        self, pipe: Any, recipe: Request, before: Any, after: torch.Tensor, i: int
    ) -> torch.Tensor:
        """Euler goes in a straight line at velocity v = (after - before) / (sigma' - sigma); at
        sigma = 0 it would come to after - sigma' v."""
        if before is not None:
            sigma, to = pipe.scheduler.sigmas[i], pipe.scheduler.sigmas[i + 1]
            before = before[:, : after.shape[1]]
            after = after - to * (after - before) / (to - sigma)
        return self._unpacked(pipe, recipe, after)[:, 0]

    def pixels_of(self, output: Any) -> np.ndarray:
        return output.images

    def samples(
        self, pipe: Any, recipe: Request, latents: torch.Tensor, frames: np.ndarray
    ) -> tuple[torch.Tensor, np.ndarray]:
        return self._unpacked(pipe, recipe, latents), frames

    @staticmethod
    def _unpacked(pipe: Any, recipe: Request, latents: torch.Tensor) -> torch.Tensor:
        """`[1, patches, 4 C]` as `[C, 1, h, w]`."""
        unpacked = pipe._unpack_latents(latents, recipe.height, recipe.width, pipe.vae_scale_factor)
        return unpacked[0]

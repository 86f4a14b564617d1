"""SkyReels-V2 as the studio sees it: the seam over the stages of this package.

torch, diffusers and transformers are imported where a stage first needs them, not with this file.
"""

from __future__ import annotations

import time
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.base import (
    BasePipeline,
    Capabilities,
    Fields,
    OnStep,
    Plan,
    Request,
    SegmentOutput,
    Step,
    Task,
    Tensors,
)
from pipelines.errors import BadInput
from pipelines.preview import Projection
from pipelines.skyreels_v2 import images
from pipelines.skyreels_v2.checkpoint import DENOISER, ENCODERS, Checkpoint
from pipelines.skyreels_v2.plan import latent_frames, make_plan, prefix_frames

if TYPE_CHECKING:
    import torch

VAE_DTYPE = "float32"
"""Of any device: the codec is small, and half precision shows in smooth gradients."""

ENCODING = 1
GENERATION = 1
"""Count up when the same inputs give other numbers because this package changed."""


class SkyReelsV2(BasePipeline):
    """Diffusion forcing in chained segments. Segment i starts from the clean latents of the last M
    frames of segment i - 1, and from nothing else of it."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        tasks=(Task.T2V, Task.I2V), encoder_reuse=True, segment_reuse=True
    )

    def __init__(
        self, checkpoint: Checkpoint, dtype: str | torch.dtype | None, device: str | None
    ) -> None:
        self.checkpoint = checkpoint
        self._wanted = (dtype, device)
        self._components: dict[str, Any] = {}

    @classmethod
    def open(
        cls,
        folder: Path,
        dtype: str | torch.dtype | None = None,
        device: str | None = None,
    ) -> SkyReelsV2:
        """Reads model_index.json of a folder in the diffusers layout, and no weights.

        By default bfloat16 on CUDA where there is one, otherwise float32 on the CPU. Raises
        BadInput for a folder of another kind.
        """
        return cls(Checkpoint.read(folder), dtype, device)

    @property
    def loaded(self) -> frozenset[str]:
        return frozenset(self._components)

    @cached_property
    def _placement(self) -> tuple[str, str]:
        from pipelines.skyreels_v2.components import resolve

        return resolve(*self._wanted)

    @property
    def dtype(self) -> str:
        return self._placement[0]

    @property
    def device(self) -> str:
        return self._placement[1]

    def plan(self, recipe: Request) -> Plan:
        return make_plan(recipe, self.checkpoint)

    # What results depend on.

    def encoder_inputs(self, recipe: Request) -> Fields:
        """The negative prompt is always encoded, so the strength of the guidance is no part of it.
        The size of the video is part of it only where a picture is cut to it."""
        from pipelines.skyreels_v2.encoders import clean_prompt

        folder = self.checkpoint.folder
        fields: Fields = {
            "family": "skyreels_v2",
            "encoding": ENCODING,
            "prompt": clean_prompt(recipe.prompt),
            "negative_prompt": clean_prompt(recipe.negative_prompt),
            "max_sequence_length": self.checkpoint.max_sequence_length,
            "tokenizer": folder / "tokenizer",
            "text_encoder": folder / "text_encoder",
            "text_dtype": self.dtype,
            "device": self.device.split(":")[0],
            "torch": version("torch"),
            "transformers": version("transformers"),
        }
        if recipe.image is not None:
            fields |= {
                "image": Path(recipe.image),
                "image_width": recipe.width,
                "image_height": recipe.height,
                "image_fit": images.FIT,
                "vae": folder / "vae",
                "vae_dtype": VAE_DTYPE,
                "diffusers": version("diffusers"),
                "pillow": version("pillow"),
            }
        return fields

    def segment_inputs(self, recipe: Request) -> Fields:
        folder = self.checkpoint.folder
        names = (
            "width height fps frames overlap steps guidance_scale shift ar_step causal_block "
            "condition_noise"
        ).split()
        return {
            "family": "skyreels_v2",
            "generation": GENERATION,
            **{name: getattr(recipe, name) for name in names},
            "transformer": folder / "transformer",
            "scheduler": folder / "scheduler",
            "vae": folder / "vae",
            "dtype": self.dtype,
            "vae_dtype": VAE_DTYPE,
            "device": self.device.split(":")[0],
            "torch": version("torch"),
            "diffusers": version("diffusers"),
        }

    # Encode.

    def load_encoders(self) -> None:
        self._load(ENCODERS)

    def free_encoders(self) -> None:
        from pipelines.skyreels_v2.components import free_memory

        for name in ENCODERS:
            self._components.pop(name, None)
        free_memory(self.device)

    def encode(self, recipe: Request) -> Tensors:
        """`prompt_embeds` and `negative_prompt_embeds` `[tokens, dim]` without padding, and for a
        picture `image_latents` `[1, C, 1, h, w]`."""
        import torch

        from pipelines.skyreels_v2 import encoders

        outputs: Tensors = {}
        with torch.inference_mode():
            if recipe.image is not None:
                picture = images.read_image(Path(recipe.image), recipe.width, recipe.height)
                self._load(("vae",))
                outputs["image_latents"] = encoders.encode_image(self._components["vae"], picture)
            self.load_encoders()
            for name in ("prompt", "negative_prompt"):
                outputs[f"{name}_embeds"] = encoders.encode_prompt(
                    self._components["tokenizer"],
                    self._components["text_encoder"],
                    getattr(recipe, name),
                    self.checkpoint.max_sequence_length,
                )
        return outputs

    # Generate.

    def load_denoiser(self) -> None:
        self._load(DENOISER)

    def generate(
        self,
        recipe: Request,
        inputs: Tensors,
        i: int,
        boundary: Tensors | None,
        generator: torch.Generator,
        on_step: OnStep | None = None,
    ) -> SegmentOutput:
        """Segment i, from its noise and its boundary `{"latents": [1, C, Mo, h, w]}` alone.

        Draws from `generator` the noise of the whole segment first, then that of
        `condition_noise` row by row. Raises BadInput if the recipe or the boundary does not fit.
        """
        import torch

        from pipelines.skyreels_v2 import decode, denoise, schedule

        self.plan(recipe)
        shape = self._latent_shape(recipe)
        given = self._given(recipe, inputs, i, boundary, shape)
        self.load_denoiser()
        transformer, vae = self._components["transformer"], self._components["vae"]
        began = time.perf_counter()
        with torch.inference_mode():
            # The block size stays in the transformer's config from one call to the next.
            transformer._set_ar_attention(recipe.causal_block)
            rows = schedule.make_schedule(
                self._scheduler(recipe.shift),
                recipe.steps,
                shape[2],
                prefix_frames(recipe, self.checkpoint, i),
                recipe.ar_step,
                recipe.causal_block,
            )
            latents = schedule.starting_latents(shape, given, generator).to(self.device)
            latents, forwards = denoise.denoise(
                transformer,
                rows,
                latents,
                self._condition(recipe, inputs, transformer),
                recipe.condition_noise,
                generator,
                self._reporter(on_step, len(rows)),
            )
            denoised = time.perf_counter()
            dropped = recipe.overlap if i else 0
            frames = decode.decode(vae, latents, dropped)
            decoded = time.perf_counter()
            self._learn_preview(latents, frames, dropped)
            kept = latent_frames(recipe.overlap, self.checkpoint.temporal_factor)
            next_boundary = {"latents": latents[:, :, -kept:].cpu().clone()} if kept else {}
        return SegmentOutput(
            frames,
            next_boundary,
            forwards,
            seconds={"denoise": denoised - began, "decode": decoded - denoised},
        )

    def _load(self, names: tuple[str, ...]) -> None:
        from pipelines.skyreels_v2.components import load_component

        missing = [name for name in names if name not in self._components]
        self.checkpoint.check(missing)
        for name in missing:
            dtype = VAE_DTYPE if name == "vae" else self.dtype
            self._components[name] = load_component(self.checkpoint, name, dtype, self.device)

    def _latent_shape(self, recipe: Request) -> tuple[int, int, int, int, int]:
        """`[1, C, Fo, h, w]`"""
        checkpoint = self.checkpoint
        return (
            1,
            checkpoint.config("transformer").get("in_channels", 16),
            latent_frames(recipe.frames, checkpoint.temporal_factor),
            recipe.height // checkpoint.spatial_factor,
            recipe.width // checkpoint.spatial_factor,
        )

    def _given(
        self,
        recipe: Request,
        inputs: Tensors,
        i: int,
        boundary: Tensors | None,
        shape: tuple[int, int, int, int, int],
    ) -> torch.Tensor | None:
        """Latent frames that the segment starts from, `[1, C, n, h, w]`."""
        if i == 0:
            return inputs["image_latents"] if recipe.image is not None else None
        if not boundary or "latents" not in boundary:
            raise BadInput("boundary", None, f"Segment {i} needs that of segment {i - 1}.")
        given = boundary["latents"]
        prefix = prefix_frames(recipe, self.checkpoint, i)
        expected = (*shape[:2], prefix, *shape[3:])
        if tuple(given.shape) != expected:
            raise BadInput("boundary", tuple(given.shape), f"This recipe needs {expected}.")
        return given

    def _condition(self, recipe: Request, inputs: Tensors, transformer: Any) -> Any:
        from pipelines.skyreels_v2.denoise import Condition
        from pipelines.skyreels_v2.encoders import pad_prompt

        def padded(name: str) -> torch.Tensor:
            embeds = pad_prompt(inputs[name], self.checkpoint.max_sequence_length)
            return embeds.to(self.device, transformer.dtype)

        guided = recipe.guidance_scale > 1
        return Condition(
            padded("prompt_embeds"),
            padded("negative_prompt_embeds") if guided else None,
            recipe.guidance_scale,
            recipe.fps,
        )

    def _scheduler(self, shift: float) -> Any:
        scheduler = self._components["scheduler"]
        return type(scheduler).from_config(scheduler.config, flow_shift=shift)

    # Preview.

    @cached_property
    def _projection(self) -> Projection:
        """Given by the codec's config as `latents_rgb` `[C + 1, 3]`, the last row the bias; else
        learned from the segments that are decoded."""
        import numpy as np

        matrix = self.checkpoint.config("vae").get("latents_rgb")
        return Projection(None if matrix is None else np.asarray(matrix, dtype=np.float64))

    def _reporter(self, on_step: OnStep | None, steps: int) -> Any:
        def report(step: int, estimate: torch.Tensor | None) -> None:
            if on_step is None:
                return

            def preview() -> Any:
                if estimate is None:
                    return None
                return self._projection.picture(estimate[0, :, estimate.shape[2] // 2])

            on_step(Step(step, steps, preview))

        return report

    def _learn_preview(self, latents: torch.Tensor, frames: Any, dropped: int) -> None:
        """Shows the projection three latent frames of a finished segment with their pixels."""
        factor = self.checkpoint.temporal_factor
        first = latent_frames(dropped, factor)
        count = latents.shape[2] - first
        chosen = sorted({0, count // 2, count - 1})
        # The middle of the frames that a latent frame holds; the very first holds one only.
        start = 0 if dropped else 1 - factor
        pixels = [max(0, start + k * factor + factor // 2) for k in chosen]
        self._projection.learn(latents[0, :, [first + k for k in chosen]], frames[pixels])

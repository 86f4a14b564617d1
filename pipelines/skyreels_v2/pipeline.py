"""SkyReels-V2 as the studio sees it: the seam over the stages of this package.

torch, diffusers and transformers are imported where a stage first needs them, not with this file.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines import images
from pipelines.base import (
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
from pipelines.opened import OpenedPipeline
from pipelines.skyreels_v2.checkpoint import DENOISER, ENCODERS, Checkpoint
from pipelines.skyreels_v2.defaults import defaults, tasks
from pipelines.skyreels_v2.inputs import VAE_DTYPE, encoder_inputs, segment_inputs
from pipelines.skyreels_v2.plan import (
    check_recipe,
    latent_frames,
    latent_shape,
    make_plan,
    prefix_frames,
)

if TYPE_CHECKING:
    import torch

    from pipelines.skyreels_v2.denoise import VelocityOf


class SkyReelsV2(OpenedPipeline):
    """Diffusion forcing in chained segments. Segment i starts from the clean latents of the last M
    frames of segment i - 1, and from nothing else of it."""

    capabilities: Capabilities = Capabilities(
        tasks=(Task.T2V, Task.I2V),
        encoder_reuse=True,
        segment_reuse=True,
        flowcache_modes=("exact", "flow", "teacache"),
    )
    checkpoint_class: ClassVar[type[Checkpoint]] = Checkpoint
    pipeline_classes: ClassVar[tuple[str, ...]] = Checkpoint.pipelines
    checkpoint: Checkpoint

    def __init__(
        self, checkpoint: Checkpoint, dtype: str | torch.dtype | None, device: str | None
    ) -> None:
        super().__init__(checkpoint, dtype, device)
        self.velocity_of: VelocityOf | None = None

    @classmethod
    def tasks_of(cls, checkpoint: Checkpoint) -> tuple[Task, ...]:
        return tasks(checkpoint)

    @classmethod
    def defaults_of(cls, checkpoint: Checkpoint) -> dict[str, Any]:
        return defaults(checkpoint)

    def dtype_of(self, component: str) -> str:
        return VAE_DTYPE if component == "vae" else self.dtype

    def plan(self, recipe: Request) -> Plan:
        return make_plan(recipe, self.checkpoint)

    def encoder_inputs(self, recipe: Request) -> dict[str, Fields]:
        return encoder_inputs(recipe, self.checkpoint, self.dtype, self.device)

    def segment_inputs(self, recipe: Request) -> Fields:
        return segment_inputs(recipe, self.checkpoint, self.dtype, self.device)

    def load_encoders(self, parts: Collection[str]) -> None:
        if "image" in parts:
            self._load(("vae",))
        if set(parts) - {"image"}:
            self._load(ENCODERS)

    def free_encoders(self) -> None:
        self._free(ENCODERS)

    def encode(self, recipe: Request, parts: Collection[str]) -> dict[str, Tensors]:
        """`embeds` `[tokens, dim]` of the prompts, without padding; `latents` `[1, C, 1, h, w]` of
        the image."""
        import torch

        from pipelines.skyreels_v2 import encoders
        from pipelines.threads import steady_threads

        self.load_encoders(parts)
        outputs: dict[str, Tensors] = {}
        for part in parts:
            if part == "image":
                picture = images.read_image(Path(recipe.image), recipe.width, recipe.height)
                vae = self._components["vae"]
                with torch.no_grad(), steady_threads(vae):
                    outputs[part] = {"latents": encoders.encode_image(vae, picture)}
                continue
            text_encoder = self._components["text_encoder"]
            with torch.no_grad(), steady_threads(text_encoder):
                embeds = encoders.encode_prompt(
                    self._components["tokenizer"],
                    text_encoder,
                    getattr(recipe, part),
                    self.checkpoint.max_sequence_length,
                )
            outputs[part] = {"embeds": embeds}
        return outputs

    def load_denoiser(self, recipe: Request | None = None) -> None:
        self._load(DENOISER)

    def free_denoiser(self) -> None:
        self._free(DENOISER)

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

        from pipelines.preview import sample
        from pipelines.skyreels_v2 import decode, denoise, schedule
        from pipelines.threads import steady_threads

        check_recipe(recipe, self.checkpoint)
        shape = latent_shape(recipe, self.checkpoint)
        given = self._given(recipe, inputs, i, boundary, shape)
        self.load_denoiser()
        transformer, vae = self._components["transformer"], self._components["vae"]
        began = time.perf_counter()
        with torch.inference_mode(), steady_threads(transformer, vae):
            rows = schedule.make_schedule(
                self._scheduler(recipe.shift),
                recipe.steps,
                shape[2],
                prefix_frames(recipe, self.checkpoint, i),
                recipe.ar_step,
                recipe.causal_block,
            )
            latents = schedule.starting_latents(shape, given, generator).to(self.device)
            segment = denoise.Segment(
                transformer,
                rows,
                self._condition(recipe, inputs, transformer),
                recipe.condition_noise,
                recipe.causal_block,
            )
            report = self._reporter(on_step, len(rows))
            with (self.velocity_of or denoise.plain_velocity)(segment) as velocity:
                latents = denoise.denoise(velocity, segment, latents, generator, report)
            if self.device.startswith("cuda"):
                torch.cuda.synchronize()
            denoised = time.perf_counter()
            dropped = recipe.overlap if i else 0
            frames = decode.decode(vae, latents, dropped)
            decoded = time.perf_counter()
            factor = self.checkpoint.temporal_factor
            self._projection.learn(*sample(latents, frames, dropped, factor))
            kept = latent_frames(recipe.overlap, factor)
        # Cloned out here: a tensor made in inference mode would stay one, and refuse to be changed.
        next_boundary = {"latents": latents[:, :, -kept:].cpu().clone()} if kept else {}
        return SegmentOutput(
            frames,
            next_boundary,
            velocity.forwards,
            velocity.forwards_skipped,
            seconds={"denoise": denoised - began, "decode": decoded - denoised},
            skip_map=velocity.skip_map,
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

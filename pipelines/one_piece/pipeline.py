"""The seam over diffusers' own pipelines: encoders in one stage, transformer and decoder in the
other, never together."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.base import (
    OnStep,
    Request,
    SegmentOutput,
    Tensors,
)
from pipelines.errors import BadInput
from pipelines.one_piece.family import VAE_ENCODER
from pipelines.one_piece.held import Held

if TYPE_CHECKING:
    import torch

    from pipelines.one_piece.watch import Watch


class OnePiece(Held):
    """What the stages are: a family adds what `Family` leaves open."""

    def load_encoders(self, parts: Collection[str]) -> None:
        """The transformer leaves the memory first, if it is there: it and the encoders are each as
        large as machines have room for."""
        needed = [name for part in parts for name in self.components_for(part)]
        if not set(needed) <= self.loaded:
            self.free_denoiser()
        self._load(dict.fromkeys(needed))

    def free_encoders(self) -> None:
        self._free((*self.encoders, VAE_ENCODER))

    def encode(self, recipe: Request, parts: Collection[str]) -> dict[str, Tensors]:
        """Encoder outputs as diffusers' pipeline computes them on its way, on the CPU; padding is
        not stored."""
        import torch

        from pipelines.one_piece.hooks import Recorder, hooked
        from pipelines.threads import steady_threads

        if not parts:
            return {}
        self.load_encoders(parts)
        recorder = Recorder(parts)
        pipe = self._encoding_pipe(recipe)
        models = [m for m in self._components.values() if hasattr(m, "parameters")]
        with steady_threads(*models), hooked(pipe, self.hooks(pipe, recipe, recorder)):
            # The noise on the way is thrown away; it must not come from the global generator.
            pipe(**self.arguments(recipe, None), generator=torch.Generator(), output_type="latent")
            raise RuntimeError(f"not all of {', '.join(parts)} was encoded")
        return recorder.parts

    def generate(
        self,
        recipe: Request,
        inputs: Tensors,
        i: int,
        boundary: Tensors | None,
        generator: torch.Generator,
        on_step: OnStep | None = None,
    ) -> SegmentOutput:
        """The whole result, equal to the plain call of diffusers with the same generator. Raises
        BadInput if the recipe does not fit, and whatever `on_step` raises."""
        import numpy as np
        import torch

        from pipelines import lora
        from pipelines.one_piece.hooks import Replayed, hooked
        from pipelines.threads import steady_threads

        self.check_recipe(recipe)
        if i or boundary:
            raise BadInput("segments", i + 1, "This model makes its result in one piece.")
        self.load_denoiser(recipe)
        pipe = self.denoising_pipe(recipe)
        self.offload_whole(pipe)
        lora.set_strengths(pipe, recipe.loras or ())
        watch = self._watch(pipe, recipe, on_step)
        models = [self._components[name] for name in self.transformers]
        vae = self._components["vae"]
        vae.use_tiling = self.tiled(recipe)
        began = time.perf_counter()
        try:
            with (
                steady_threads(*models, vae),
                hooked(pipe, self.hooks(pipe, recipe, Replayed(inputs))),
                watch.inside(*models),
            ):
                output = pipe(
                    **self.arguments(recipe, inputs),
                    generator=generator,
                    output_type="np",
                    callback_on_step_end=watch.on_step_end,
                )
        finally:
            # Also after a cancel: hooks that wait for the end of a call would meet the next one.
            pipe.maybe_free_model_hooks()
            if self._held[1] == "model":
                pipe.remove_all_hooks()
        frames = (self.pixels_of(output) * 255).round().astype(np.uint8)
        with torch.no_grad():
            self._projection.learn(*self.samples(pipe, recipe, watch.latents, frames))
        ended = time.perf_counter()
        seconds = {"denoise": watch.ended - began, "decode": ended - watch.ended}
        return SegmentOutput(frames, {}, watch.forwards, seconds=seconds)

    def _watch(self, pipe: Any, recipe: Request, on_step: OnStep | None) -> Watch:
        from pipelines.one_piece.watch import Watch

        return Watch(
            on_step,
            recipe.steps,
            lambda before, after, i: self.estimate(pipe, recipe, before, after, i),
            lambda latents: self._projection.picture(latents),
        )

    def _encoding_pipe(self, recipe: Request) -> Any:
        """A pipeline with the encoders that are loaded; all else is a skeleton."""
        from pipelines.components import load_component, skeleton

        parts: dict[str, Any] = {name: self._components.get(name) for name in self.encoders}
        for name in self.transformers:
            parts[name] = skeleton(self.checkpoint, name, self.dtype_of(name))
        vae = self._components.get(VAE_ENCODER)
        if vae is None:
            vae = skeleton(self.checkpoint, "vae", self.dtype_of("vae"))
        vae.use_tiling = self.tiled(recipe)
        scheduler = load_component(self.checkpoint, "scheduler", self.dtype, self.device)
        return self._pipe(recipe, parts, vae=vae, scheduler=scheduler)

    def denoising_pipe(self, recipe: Request) -> Any:
        parts = {name: self._components[name] for name in (*self.transformers, "vae")}
        return self._pipe(recipe, parts, scheduler=self.scheduler_for(recipe))

    def _pipe(self, recipe: Request, parts: Mapping[str, Any], **more: Any) -> Any:
        import inspect

        from pipelines.one_piece.hooks import pinned

        kind = self.pipe_class(recipe)
        takes = inspect.signature(kind.__init__).parameters
        given = {**dict.fromkeys(self.encoders), **parts, **more, **self.pipe_config()}
        pipe = kind(**{name: value for name, value in given.items() if name in takes})
        pipe.set_progress_bar_config(disable=True)
        return pinned(pipe, self.device)

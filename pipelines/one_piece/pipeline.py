"""The seam over diffusers' own pipelines: encoders in one stage, transformer and decoder in the
other, never together."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pipelines.base import (
    BasePipeline,
    Fields,
    OnStep,
    Request,
    SegmentOutput,
    Task,
    Tensors,
)
from pipelines.checkpoint import Checkpoint
from pipelines.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    import torch

    from pipelines.memory import Choice
    from pipelines.one_piece.hooks import Hooks, Source
    from pipelines.one_piece.watch import Watch
    from pipelines.preview import Projection

VAE_ENCODER = "vae_encoder"
"""The whole codec, in memory for as long as pictures are encoded; `vae` is its decoder alone."""


class OnePiece(BasePipeline):
    """A family over diffusers' pipelines. Its subclass says what follows here."""

    checkpoint_class: ClassVar[type[Checkpoint]]
    encoders: ClassVar[tuple[str, ...]]
    """Components that only encoding needs."""
    pipeline_classes: ClassVar[tuple[str, ...]] = ()
    """What `_class_name` of a model_index.json may be."""

    def dtype_of(self, component: str) -> str:
        """In which dtype a component runs."""
        raise NotImplementedError

    def components_for(self, part: str) -> tuple[str, ...]:
        """What encoding this part needs, `VAE_ENCODER` among them."""
        raise NotImplementedError

    def pipe_class(self, recipe: Request) -> Any:
        """The class of diffusers that makes this recipe."""
        raise NotImplementedError

    def pipe_config(self) -> dict[str, Any]:
        """What that class is told beside its components."""
        return {}

    def hooks(self, pipe: Any, recipe: Request, source: Source) -> Hooks:
        """The functions that stand in for the encoders."""
        raise NotImplementedError

    def arguments(self, recipe: Request, inputs: Tensors | None) -> dict[str, Any]:
        """What diffusers is called with; without `inputs` for encoding, which reads the files."""
        raise NotImplementedError

    def scheduler_for(self, recipe: Request) -> Any:
        """A fresh scheduler as this recipe wants it."""
        raise NotImplementedError

    def estimate(
        self, pipe: Any, recipe: Request, before: Any, after: torch.Tensor, i: int
    ) -> torch.Tensor:
        """See `pipelines.one_piece.watch.Estimate`."""
        raise NotImplementedError

    def frames_of(self, output: Any) -> np.ndarray:
        """uint8 `[n, H, W, 3]` of what diffusers gave with `output_type="np"`."""
        raise NotImplementedError

    def samples(
        self, pipe: Any, recipe: Request, latents: torch.Tensor, frames: np.ndarray
    ) -> tuple[torch.Tensor, np.ndarray]:
        """Latents `[C, n, h, w]` and one frame `[n, H, W, 3]` for each, for a preview to learn."""
        raise NotImplementedError

    def check_recipe(self, recipe: Request) -> None:
        """Raises BadInput as `plan` does, but leaves files alone."""
        raise NotImplementedError

    @classmethod
    def tasks_of(cls, checkpoint: Any) -> tuple[Task, ...]:
        raise NotImplementedError

    @classmethod
    def defaults_of(cls, checkpoint: Any) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def extras_of(cls, checkpoint: Any) -> tuple[str, ...]:
        """The fields of `OF_SOME_MODELS` that this checkpoint looks at."""
        raise NotImplementedError

    # What every family shares.

    def __init__(
        self, checkpoint: Checkpoint, dtype: str | torch.dtype | None, device: str | None
    ) -> None:
        self.checkpoint = checkpoint
        self.capabilities = replace(
            type(self).capabilities,
            tasks=self.tasks_of(checkpoint),
            extras=self.extras_of(checkpoint),
        )
        self._wanted = (dtype, device)
        self._components: dict[str, Any] = {}
        self._signatures: dict[str, Any] = {}
        self._held: tuple[Any, ...] | None = None
        """Weights, offload and LoRA files that the transformers in memory are prepared for."""
        self._fitting: tuple[Any, ...] = ()
        """LoRA files that were found to fit."""

    @classmethod
    def open(
        cls,
        folder: Path,
        dtype: str | torch.dtype | None = None,
        device: str | None = None,
    ) -> Self:
        """Reads model_index.json of a folder in the diffusers layout, and no weights.

        By default bfloat16 on CUDA where there is one, otherwise float32 on the CPU. Raises
        BadInput for a folder of another kind.
        """
        return cls(cls.checkpoint_class.read(folder), dtype, device)

    @classmethod
    def describe(cls, folder: Path) -> tuple[tuple[Task, ...], dict[str, Any]]:
        """(tasks, recipe defaults) of a checkpoint that no catalogue knows, from its configs.

        Reads all of the folder but the weights; raises BadInput naming what is missing or damaged.
        """
        checkpoint = cls.checkpoint_class.read(folder)
        checkpoint.check()
        return cls.tasks_of(checkpoint), cls.defaults_of(checkpoint)

    @property
    def loaded(self) -> frozenset[str]:
        return frozenset(self._components)

    @property
    def components(self) -> Mapping[str, Any]:
        """What is in memory, by name: for what attaches to a model from outside."""
        return MappingProxyType(self._components)

    @cached_property
    def _placement(self) -> tuple[str, str]:
        from pipelines.components import resolve

        return resolve(*self._wanted)

    @property
    def dtype(self) -> str:
        return self._placement[0]

    @property
    def device(self) -> str:
        return self._placement[1]

    @property
    def transformers(self) -> tuple[str, ...]:
        """The one or two that the checkpoint has."""
        names = ("transformer", "transformer_2")
        return tuple(name for name in names if self.checkpoint.has(name))

    def holding(self, recipe: Request) -> Choice:
        """How this recipe is held in memory here. Raises BadInput for what cannot be done."""
        from pipelines.memory import choose, this_machine
        from pipelines.one_piece.holding import needs_of

        needs = needs_of(self.checkpoint, self.transformers, recipe)
        wanted = (recipe.weights, recipe.offload, recipe.tiling)
        return choose(this_machine(self.device), needs, *(how or "auto" for how in wanted))

    def held_fields(self, recipe: Request) -> Fields:
        """What of that, and of the LoRAs, a result depends on."""
        from pipelines import lora

        fields: Fields = {"weights": self.holding(recipe).weights}
        return {**fields, **lora.key_fields(recipe.loras)}

    def tiled(self, recipe: Request) -> bool:
        """Whether pictures are coded in tiles."""
        return self.holding(recipe).tiling

    def check_held(self, recipe: Request) -> None:
        """Raises BadInput for ways of holding it that cannot be, and for a LoRA that does not fit,
        from its header alone."""
        from pipelines import lora
        from pipelines.components import skeleton

        if {recipe.weights, recipe.offload} - {"auto", None}:
            self.holding(recipe)
        if not recipe.loras:
            return
        paths = [lora.path_of(one.file) for one in recipe.loras]
        looked = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in paths)
        if looked != self._fitting:
            outlines = {
                name: skeleton(self.checkpoint, name, self.dtype_of(name))
                for name in self.transformers
            }
            lora.check_fits(recipe.loras, self.pipe_class(recipe), outlines)
            self._fitting = looked

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

    def load_denoiser(self, recipe: Request | None = None) -> None:
        """Without a recipe nothing is loaded: it says how."""
        if recipe is None:
            return
        from pipelines import lora

        self.free_encoders()
        choice = self.holding(recipe)
        files = [lora.path_of(one.file) for one in recipe.loras or ()]
        offload = choice.offload
        if recipe.offload == "auto" and self._held and self._held[0] == choice.weights:
            # What is free now says nothing about the room that the transformers themselves take.
            offload = self._held[1]
        held = (
            choice.weights,
            offload,
            tuple((path, path.stat().st_mtime_ns) for path in files),
        )
        if held != self._held:
            self._free(self.transformers)
            self._held = None
        fresh = self._load((*self.transformers, "scheduler", "vae"), held)
        if set(fresh) & set(self.transformers):
            self._prepare(recipe, held)
            self._held = held

    def _prepare(self, recipe: Request, held: tuple[Any, ...]) -> None:
        """LoRAs first: casts and offload have to know their layers."""
        from pipelines import lora
        from pipelines.one_piece import holding

        weights, offload, files = held
        if files:
            lora.load(self._denoising_pipe(recipe), recipe.loras)
        for name in self.transformers:
            transformer = self._components[name]
            transformer.eval().requires_grad_(False)
            if weights == "fp8":
                holding.cast(transformer, self.dtype_of(name))
            if offload == "group":
                holding.offload_groups(transformer, self.device)

    def free_denoiser(self) -> None:
        self._free(("transformer", "transformer_2", "scheduler", "vae"))
        self._held = None

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
        import torch

        from pipelines import lora
        from pipelines.one_piece.hooks import Replayed, hooked
        from pipelines.threads import steady_threads

        self.check_recipe(recipe)
        if i or boundary:
            raise BadInput("segments", i + 1, "This model makes its result in one piece.")
        self.load_denoiser(recipe)
        pipe = self._denoising_pipe(recipe)
        self._offload_whole(pipe)
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
        frames = self.frames_of(output)
        with torch.no_grad():
            self._projection.learn(*self.samples(pipe, recipe, watch.latents, frames))
        ended = time.perf_counter()
        seconds = {"denoise": watch.ended - began, "decode": ended - watch.ended}
        return SegmentOutput(frames, {}, watch.forwards, seconds=seconds)

    def _offload_whole(self, pipe: Any) -> None:
        """Ways of offload that belong to a pipeline and not to its transformer."""
        offload = self._held[1]
        if offload == "model":
            pipe.enable_model_cpu_offload(device=self.device)
        if offload == "sequential" and not getattr(pipe.transformer, "_hf_hook", None):
            pipe.enable_sequential_cpu_offload(device=self.device)

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

    def _denoising_pipe(self, recipe: Request) -> Any:
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

    def _free(self, names: Iterable[str]) -> None:
        from pipelines.components import free_memory

        gone = [name for name in names if self._components.pop(name, None) is not None]
        for name in gone:
            self._signatures.pop(name, None)
        if gone:
            free_memory(self.device)

    def _load(self, names: Iterable[str], held: tuple[Any, ...] | None = None) -> list[str]:
        """Loads what is not in memory, or is there from files that have changed since: keys are
        made of the files on disk, and the weights in use have to be those. Returns what it
        loaded."""
        names = tuple(names)
        folders = {name: "vae" if name == VAE_ENCODER else name for name in names}
        signatures = {name: self.checkpoint.signature(folders[name]) for name in names}
        stale = [name for name in names if self._signatures.get(name) != signatures[name]]
        self.checkpoint.check(folders[name] for name in stale)
        for name in stale:
            self._components.pop(name, None)
            self._components[name] = self._load_component(name, held)
            self._signatures[name] = signatures[name]
        return stale

    def _load_component(self, name: str, held: tuple[Any, ...] | None) -> Any:
        from pipelines.components import load_component, load_decoder

        weights, offload, _ = held or ("full", "none", ())
        waits = offload in ("model", "sequential") or (
            offload == "group" and name in self.transformers
        )
        device = "cpu" if waits else self.device
        if name == "vae":
            return load_decoder(self.checkpoint, name, self.dtype_of(name), device)
        if name in self.transformers:
            from pipelines.one_piece.holding import load_transformer

            return load_transformer(self.checkpoint, name, self.dtype_of(name), device, weights)
        if name == VAE_ENCODER:
            return load_component(self.checkpoint, "vae", self.dtype_of("vae"), self.device)
        return load_component(self.checkpoint, name, self.dtype_of(name), self.device)

    @cached_property
    def _projection(self) -> Projection:
        """Given by the codec's config as `latents_rgb` (see SkyReelsV2), else learned from what is
        decoded."""
        import numpy as np

        from pipelines.preview import Projection

        matrix = np.asarray(self.checkpoint.config("vae").get("latents_rgb") or [])
        return Projection(matrix if matrix.any() else None)

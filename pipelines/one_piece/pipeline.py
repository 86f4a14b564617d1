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

    def tiled(self, recipe: Request) -> bool:
        """Whether pictures are coded in tiles."""
        return recipe.tiling == "on"

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
        self.free_encoders()
        self._load((*self.transformers, "scheduler", "vae"))

    def free_denoiser(self) -> None:
        self._free(("transformer", "transformer_2", "scheduler", "vae"))

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

        from pipelines.one_piece.hooks import Replayed, hooked
        from pipelines.threads import steady_threads

        self.check_recipe(recipe)
        if i or boundary:
            raise BadInput("segments", i + 1, "This model makes its result in one piece.")
        self.load_denoiser(recipe)
        pipe = self._denoising_pipe(recipe)
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
        frames = self.frames_of(output)
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

    def _load(self, names: Iterable[str]) -> None:
        """Loads what is not in memory, or is there from files that have changed since: keys are
        made of the files on disk, and the weights in use have to be those."""
        names = tuple(names)
        folders = {name: "vae" if name == VAE_ENCODER else name for name in names}
        signatures = {name: self.checkpoint.signature(folders[name]) for name in names}
        stale = [name for name in names if self._signatures.get(name) != signatures[name]]
        self.checkpoint.check(folders[name] for name in stale)
        for name in stale:
            self._components.pop(name, None)
            self._components[name] = self._load_component(name)
            self._signatures[name] = signatures[name]

    def _load_component(self, name: str) -> Any:
        from pipelines.components import load_component, load_decoder

        if name == "vae":
            return load_decoder(self.checkpoint, name, self.dtype_of(name), self.device)
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

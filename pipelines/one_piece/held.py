"""The transformers in memory, as a recipe and the machine want them: weights, LoRAs, offload."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipelines.base import Fields, Request
from pipelines.one_piece.opened import Opened

if TYPE_CHECKING:
    from pipelines.memory import Choice, Machine


class Held(Opened):
    """Chooses by `pipelines.memory`, and prepares the transformers once for all takes alike."""

    def denoising_pipe(self, recipe: Request) -> Any:
        """A diffusers pipeline over the transformers and the decoder in memory."""
        raise NotImplementedError

    def holding(self, recipe: Request) -> Choice:
        """How this recipe is held in memory here. Raises BadInput for what cannot be done."""
        from pipelines.memory import choose
        from pipelines.one_piece.holding import needs_of

        needs = needs_of(self.checkpoint, self.transformers, recipe)
        wanted = (recipe.weights, recipe.offload, recipe.tiling)
        return choose(self._machine(), needs, *(how or "auto" for how in wanted))

    def _machine(self) -> Machine:
        """With the room that this model itself takes on the GPU: it is free for this model."""
        from pipelines.memory import this_machine
        from pipelines.one_piece.holding import bytes_on_gpu

        machine = this_machine(self.device)
        own = sum(bytes_on_gpu(component) for component in self._components.values())
        return replace(machine, gpu_free=min(machine.gpu_total, machine.gpu_free + own))

    def offered(self, recipe: Request) -> list[tuple[str, str]]:
        """(weights, offload) that can be chosen here for this recipe."""
        from pipelines.memory import offered, this_machine
        from pipelines.one_piece.holding import needs_of

        needs = needs_of(self.checkpoint, self.transformers, recipe)
        return offered(this_machine(self.device), needs)

    def held_fields(self, recipe: Request) -> Fields:
        """What of that, and of the LoRAs, a result depends on."""
        from pipelines import lora
        from pipelines.one_piece.holding import quantiser

        weights = self.holding(recipe).weights
        fields: Fields = {"weights": weights, **quantiser(weights)}
        fields |= {name: self.checkpoint.content(name, weights) for name in self.transformers}
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
        looked = tuple(
            (path, path.stat().st_mtime_ns, path.stat().st_size, one.part)
            for path, one in zip(paths, recipe.loras, strict=True)
        )
        if looked != self._fitting:
            outlines = {
                name: skeleton(self.checkpoint, name, self.dtype_of(name))
                for name in self.transformers
            }
            lora.check_fits(recipe.loras, self.pipe_class(recipe), outlines)
            self._fitting = looked

    def load_denoiser(self, recipe: Request | None = None) -> None:
        """Without a recipe nothing is loaded: it says how."""
        if recipe is None:
            return
        from pipelines import lora

        self.free_encoders()
        choice = self.holding(recipe)
        files = [(lora.path_of(one.file), one.part) for one in recipe.loras or ()]
        held = (
            choice.weights,
            choice.offload,
            tuple((path, path.stat().st_mtime_ns, part) for path, part in files),
        )
        if held != self._held:
            # The decoder too: what waits in main memory is another matter now.
            self._free((*self.transformers, "vae"))
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
            lora.load(self.denoising_pipe(recipe), recipe.loras)
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

    def offload_whole(self, pipe: Any) -> None:
        """Ways of offload that belong to a pipeline and not to its transformer."""
        offload = self._held[1]
        if offload == "model":
            pipe.enable_model_cpu_offload(device=self.device)
        if offload == "sequential" and not getattr(pipe.transformer, "_hf_hook", None):
            pipe.enable_sequential_cpu_offload(device=self.device)

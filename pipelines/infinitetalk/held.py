"""An opened checkpoint: which of its components are in memory, and how they are held there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.base import Request, Task
from pipelines.errors import BadInput
from pipelines.infinitetalk.checkpoint import PICTURE, TEXT, VOICE, Checkpoint
from pipelines.infinitetalk.defaults import EXTRAS, defaults
from pipelines.infinitetalk.inputs import SMALL_DTYPE
from pipelines.one_piece.held import Held

if TYPE_CHECKING:
    from pipelines.memory import Choice

OF_PART = {"image": PICTURE, "audio": VOICE, "audio_2": VOICE, "faces": ()}
"""What encoding a part needs; the prompts need the text encoder."""

LARGE_ENCODERS = ("text_encoder", "image_encoder")
WEIGHTS = ("full", "fp8")
OFFLOADS = ("none", "model", "group")
"""What works with a transformer of two sets of weights, which no quantiser of diffusers reads."""


class HeldTalk(Held):
    """The codec is one component: every segment ends with encoding, too."""

    checkpoint_class: ClassVar[type[Checkpoint]] = Checkpoint
    encoders: ClassVar[tuple[str, ...]] = (*TEXT, "image_encoder", *VOICE)

    @classmethod
    def tasks_of(cls, checkpoint: Checkpoint) -> tuple[Task, ...]:
        return (Task.S2V,)

    @classmethod
    def defaults_of(cls, checkpoint: Checkpoint) -> dict[str, Any]:
        return defaults(checkpoint)

    @classmethod
    def extras_of(cls, checkpoint: Checkpoint) -> tuple[str, ...]:
        return EXTRAS

    def dtype_of(self, component: str) -> str:
        return self.dtype if component in ("transformer", "text_encoder") else SMALL_DTYPE

    def components_for(self, part: str) -> tuple[str, ...]:
        """A processor is only its config, and a transformer may take no CLIP tokens."""
        wanted = OF_PART.get(part, TEXT)
        unused = {"image_processor"} | (set() if self.sees else {"image_encoder"})
        return tuple(name for name in wanted if name not in unused)

    @property
    def sees(self) -> bool:
        """Whether CLIP looks at the picture."""
        return self.checkpoint.sees_picture

    def pipe_class(self, recipe: Request) -> Any:
        from pipelines.infinitetalk.adapters import LoraPipeline

        return LoraPipeline

    def denoising_pipe(self, recipe: Request) -> Any:
        """Only for LoRAs."""
        return self.pipe_class(recipe)(self._components["transformer"])

    def holding(self, recipe: Request) -> Choice:
        """Raises BadInput for weights and ways of offload that are not among `WEIGHTS` and
        `OFFLOADS`."""
        for field, works in (("weights", WEIGHTS), ("offload", OFFLOADS)):
            value = getattr(recipe, field) or "auto"
            if value not in (*works, "auto"):
                fix = (
                    f"No model of the InfiniteTalk family takes it; use auto or {', '.join(works)}."
                )
                raise BadInput(field, value, fix)
        choice = super().holding(recipe)
        return replace(choice, offload="group") if choice.offload == "sequential" else choice

    def offered(self, recipe: Request) -> list[tuple[str, str]]:
        """Only what `holding` lets pass."""
        pairs = super().offered(recipe)
        return [pair for pair in pairs if pair[0] in WEIGHTS and pair[1] in OFFLOADS]

    def load_encoders(self, parts: Collection[str]) -> None:
        """The transformer leaves the memory first, if it is there: it and the encoders are each as
        large as machines have room for."""
        needed = tuple(dict.fromkeys(n for part in parts for n in self.components_for(part)))
        if not set(needed) <= self.loaded:
            self.free_denoiser()
        self._load(needed)

    def free_encoders(self) -> None:
        self._free(self.encoders)

    @contextmanager
    def at_work(self, component: str) -> Iterator[Any]:
        """A component on its device, for as long as it computes. Where offload is by model it goes
        back to main memory."""
        model = self._components[component]
        moves = self._held is not None and self._held[1] == "model"
        if moves:
            model.to(self.device)
        try:
            yield model
        finally:
            if moves:
                model.to("cpu")

    def _load(self, names: Iterable[str], held: tuple[Any, ...] | None = None) -> list[str]:
        """A scheduler is not among its components: the loop is Euler's method."""
        return super()._load([name for name in names if name != "scheduler"], held)

    def _load_component(self, name: str, held: tuple[Any, ...] | None) -> Any:
        from pipelines.infinitetalk.components import load

        _, offload, _ = held or ("full", "none", ())
        waits = offload == "model" or (offload == "group" and name == "transformer")
        device = "cpu" if waits else self.device
        if name in LARGE_ENCODERS and self.device != "cpu":
            return self._load_encoder(name)
        return load(self.checkpoint, name, self.dtype_of(name), device)

    def _load_encoder(self, name: str) -> Any:
        """Onto the GPU, or in main memory where there is no room for it."""
        from pipelines.infinitetalk.components import load
        from pipelines.memory import must_wait, this_machine
        from pipelines.one_piece.holding import offload_leaves, parameters

        dtype = self.dtype_of(name)
        size = parameters(self.checkpoint, name) * (2 if dtype == "bfloat16" else 4)
        waits = must_wait(this_machine(self.device), size)
        encoder = load(self.checkpoint, name, dtype, "cpu" if waits else self.device)
        if waits:
            offload_leaves(encoder, self.device)
        return encoder

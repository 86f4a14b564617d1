"""The seam between the studio and the models.

The studio needs of a model exactly what `Pipeline` names; `BasePipeline` refuses everything that a
model has not turned on by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.frames import Chain

if TYPE_CHECKING:
    import numpy as np
    import torch

    from pipelines.flowcache import SkipMap

Fields = dict[str, Any]
"""JSON-like values that determine a result. A `Path` in it stands for the bytes of that file or,
for a folder, of every file in it: whoever makes a key hashes the content, never the name."""

Tensors = dict[str, "torch.Tensor"]


class Task(StrEnum):
    """What a model makes, from what."""

    T2I = "T2I"
    I2I = "I2I"
    T2V = "T2V"
    I2V = "I2V"
    S2V = "S2V"


@dataclass(frozen=True)
class Capabilities:
    """What a model can do. The defaults refuse all reuse: a model declares what it supports."""

    tasks: tuple[Task, ...]
    encoder_reuse: bool = False
    segment_reuse: bool = False
    flowcache_modes: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    """Those of `OF_SOME_MODELS` that it looks at."""


OF_SOME_MODELS = frozenset(
    {
        *("last_image", "references", "guidance_scale_2", "loras", "weights", "offload", "tiling"),
        *("audio_2", "faces", "masks", "audio_scale", "color_correction", "apg"),
    }
)
"""Recipe fields that most models would not look at; they are refused where they are set."""


class LoraFile(Protocol):
    """A LoRA in a recipe."""

    file: str
    """A path, or `org/name/file.safetensors` in the hub's cache."""
    strength: float
    part: str
    """Of two transformers the one for `high` or `low` noise, or `both`."""


class Held(Protocol):
    """How a model is held in memory."""

    weights: str
    offload: str
    reason: str
    """In words, with what it takes and what there is."""


class Request(Protocol):
    """The fields of a recipe that pipelines read. `studio.recipe.Recipe` is one."""

    prompt: str
    negative_prompt: str
    image: Path | None
    last_image: Path | None
    references: Sequence[Path]
    audio: Path | None
    audio_2: Path | None
    faces: str
    masks: Sequence[Path]
    segments: int
    frames: int
    overlap: int
    width: int
    height: int
    fps: int
    steps: int
    guidance_scale: float
    guidance_scale_2: float | None
    audio_scale: float | None
    color_correction: float | None
    apg: float | None
    shift: float
    ar_step: int
    causal_block: int
    condition_noise: int
    loras: Sequence[LoraFile]
    weights: str
    offload: str
    tiling: str


@dataclass(frozen=True)
class Plan:
    """What a recipe comes to on a model, known before any weight is loaded."""

    chain: Chain
    width: int
    height: int
    fps: int
    steps: tuple[int, ...]
    """Denoising steps of each segment, as `on_step` will count them."""


@dataclass(frozen=True)
class Step:
    """How far the denoising of a segment has come."""

    step: int
    """How many steps are done; 0 within the first."""
    steps: int
    preview: Callable[[], np.ndarray | None]
    """Makes a cheap picture of the clean estimate, uint8 `[h, w, 3]` at latent size; None if the
    model has no projection or no estimate yet. Costs nothing until it is called."""


OnStep = Callable[[Step], None]
"""Called after every step, and within a long one now and then. Raising from it cancels the
segment."""


@dataclass(frozen=True)
class SegmentOutput:
    """What generating one segment gives."""

    frames: np.ndarray
    """The new frames only, uint8 `[n, H, W, 3]`; n = F for the first segment, F - M after."""
    boundary: Tensors
    """The state that the next segment starts from, on the CPU."""
    forwards: int
    """Transformer forwards computed, of whatever part of the segment."""
    forwards_skipped: int = 0
    """Forwards that computing all of the segment in every step would have taken beside these."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall time of the stages `denoise` and `decode`, and of `encode` where something is encoded
    for this segment alone."""
    skip_map: SkipMap | None = None
    """Which chunks were computed in which step, where some were skipped."""


def joined(parts: Mapping[str, Tensors]) -> Tensors:
    """All encoder outputs in one mapping: tensor `embeds` of part `prompt` as `prompt_embeds`."""
    return {f"{part}_{name}": tensor for part, own in parts.items() for name, tensor in own.items()}


class Pipeline(Protocol):
    """A model, opened but with no weights in memory until a `load_…` or an `encode` needs them."""

    capabilities: Capabilities
    """Of the class, or of the opened checkpoint where checkpoints of one family differ."""

    @property
    def loaded(self) -> frozenset[str]:
        """Names of the components that are in memory now (`text_encoder`, `transformer`…)."""
        ...

    def plan(self, recipe: Request) -> Plan:
        """Raises BadInput for anything the model cannot do, naming the nearest that it can."""
        ...

    def most_kept(self, kept: Request, asked: Request) -> int:
        """How many segments of `kept` may stand before those of `asked`, where nothing but the
        voices differs: as many as hear the same under both. Raises BadInput for a voice that
        cannot be used."""
        ...

    def forwards_per_step(self, recipe: Request) -> int:
        """Of the transformer, where nothing is left out: what a step costs goes with it."""
        ...

    def encoder_inputs(self, recipe: Request) -> dict[str, Fields]:
        """The parts that are encoded (`prompt`, `negative_prompt`, `image`…), each with all that
        its outputs depend on and nothing else. Each part is cached by itself."""
        ...

    def segment_inputs(self, recipe: Request) -> Fields:
        """All that a segment depends on beside the encoder outputs, its seed, its index and the
        boundary it starts from. The number of segments is not among it."""
        ...

    def load_encoders(self, parts: Collection[str]) -> None:
        """Loads what encoding these parts needs, and no more."""
        ...

    def encode(self, recipe: Request, parts: Collection[str]) -> dict[str, Tensors]:
        """Encoder outputs of these parts, on the CPU. The only place where encoders are used."""
        ...

    def free_encoders(self) -> None: ...

    def load_denoiser(self, recipe: Request | None = None) -> None:
        """Loads what generating needs, as `recipe` wants it held; the encoders are not part of it.
        `generate` sees to it by itself where the recipe is another one."""
        ...

    def holding(self, recipe: Request) -> Held | None:
        """How the recipe would be held in memory here; None for a model that is always loaded
        whole. Raises BadInput for what cannot be done."""
        ...

    def offered(self, recipe: Request) -> Sequence[tuple[str, str]]:
        """(weights, offload) that can be chosen here."""
        ...

    def free_denoiser(self) -> None: ...

    def generate(
        self,
        recipe: Request,
        inputs: Tensors,
        i: int,
        boundary: Tensors | None,
        generator: torch.Generator,
        on_step: OnStep | None = None,
    ) -> SegmentOutput:
        """Segment i from the boundary of segment i - 1 (None for i = 0). `inputs` is what
        `joined` makes of the encoded parts. Every random number comes
        from `generator`, a CPU generator."""
        ...


class BasePipeline:
    """Refuses by default; a model overrides what it can do."""

    capabilities: Capabilities = Capabilities(tasks=())

    def holding(self, recipe: Request) -> Held | None:
        return None

    def offered(self, recipe: Request) -> Sequence[tuple[str, str]]:
        return ()

    def most_kept(self, kept: Request, asked: Request) -> int:
        return 0

    def forwards_per_step(self, recipe: Request) -> int:
        return guided_forwards(recipe)


def guided_forwards(recipe: Request) -> int:
    """With and without the prompt; at a scale of 1 or less classifier-free guidance has nothing to
    add."""
    return 2 if recipe.guidance_scale > 1 else 1

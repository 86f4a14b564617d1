"""The fields of a recipe as a form shows them: limits from `Recipe` itself, words for people here.

A field that is added to `Recipe` turns up by itself, with its own description as the hint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pipelines.base import OF_SOME_MODELS
from studio.recipe import INPUT_FILES, SEVERAL_FILES, Recipe

Kind = Literal["text", "integer", "number", "choice", "switch", "file", "files", "loras"]
KINDS: Mapping[str, Kind] = {"integer": "integer", "number": "number", "boolean": "switch"}


@dataclass(frozen=True)
class Shown:
    """How a field is told to people."""

    label: str
    group: str
    hint: str = ""
    """In place of the description that the recipe gives."""
    step: float = 1


SHOWN: Mapping[str, Shown] = {
    "model": Shown("Model", "main", "What makes the video."),
    "prompt": Shown("Prompt", "main"),
    "negative_prompt": Shown("Negative prompt", "main", "What to avoid."),
    "image": Shown("Picture", "inputs", "What it starts from."),
    "last_image": Shown("Last picture", "inputs", "The video ends with it."),
    "references": Shown("Further pictures", "inputs", "The prompt may speak of them too."),
    "audio": Shown("Voice", "inputs", "What is spoken in the video."),
    "audio_2": Shown("Second voice", "inputs", "Of the second person in the picture."),
    "faces": Shown("Faces", "inputs", "Of two persons: x0,y0,x1,y1;x0,y0,x1,y1 in pixels."),
    "masks": Shown(
        "Masks",
        "inputs",
        "In place of faces, one for each voice in their order: white where that person is.",
    ),
    "segments": Shown("Segments", "main", "Made one after another, each going on from the last."),
    "width": Shown("Width", "size", "In pixels."),
    "height": Shown("Height", "size", "In pixels."),
    "steps": Shown("Steps", "more", "More take longer and look finer.", step=5),
    "guidance_scale": Shown("Guidance", "more", "How closely to follow the prompt.", step=0.5),
    "guidance_scale_2": Shown(
        "Guidance of the second half", "more", "Of the transformer for low noise.", step=0.5
    ),
    "audio_scale": Shown("Voice guidance", "more", "How closely to follow the voice.", step=0.5),
    "color_correction": Shown(
        "Colours held", "more", "1: those of the picture throughout; 0: as they come.", step=0.1
    ),
    "apg": Shown("Projected guidance", "more", "Limit against glaring colours; 0: off.", step=5),
    "shift": Shown("Shift", "more", "Higher: more of the steps go into large forms.", step=0.5),
    "fps": Shown("Frames per second", "more", "How fast the video plays."),
    "frames": Shown("Frames of a segment", "more", "How much is made in one go.", step=4),
    "overlap": Shown("Overlap", "more", "Frames carried over from one to the next.", step=4),
    "causal_block": Shown("Causal block", "more", "Latent frames that are made together."),
    "ar_step": Shown("Stagger", "more", "Steps a block lags behind the one before; 0: none."),
    "condition_noise": Shown("Noise at the seams", "more", "On the frames carried over, in ‰."),
    "loras": Shown("LoRA", "more", "Files that change the model, each with a strength."),
    "weights": Shown("Weights", "more", "How the model is held; it shows in the picture."),
    "offload": Shown("Offload", "more", "What waits in main memory: less on the GPU, slower."),
    "tiling": Shown("Tiling", "more", "Codes large pictures in tiles: less memory, faint seams."),
    "flowcache": Shown("FlowCache", "flowcache", "Leaves out work that changes little or nothing."),
    "flowcache_threshold": Shown(
        "Threshold", "flowcache", "Higher: faster, and further from the plain video.", step=0.01
    ),
    "flowcache_warmup": Shown("Warm-up", "flowcache", "First steps of a chunk, always computed."),
    "flowcache_attention": Shown(
        "A chunk looks at", "flowcache", "auto: as the model does with this causal block."
    ),
    "kv_budget": Shown(
        "Chunks in view", "flowcache", "Memory for finished ones, in chunks; 0: for all of them."
    ),
}


@dataclass(frozen=True)
class FieldShown:
    """One field of the form."""

    name: str
    label: str
    hint: str
    kind: Kind
    min: float | None
    max: float | None
    """The largest number, the most characters of a text, or the most files."""
    above: float | None
    """What a number has to be larger than, where there is no smallest one."""
    step: float
    group: str
    """`main`, `inputs`, `size`, `more` or `flowcache`."""
    of_some: bool
    """Whether only the models that name it among their extras look at it."""
    choices: tuple[Any, ...]
    default: Any
    """Where the model has none of its own."""


def fields(recipe: type[Recipe] = Recipe) -> list[dict[str, Any]]:
    """All fields of a recipe, in the order in which a form shows them, as plain values."""
    properties = recipe.model_json_schema()["properties"]
    order = [*(name for name in SHOWN if name in properties), *properties]
    return [asdict(_field(name, properties[name])) for name in dict.fromkeys(order)]


def _field(name: str, given: Mapping[str, Any]) -> FieldShown:
    # A field that may be left out is told as `anyOf` of its kind and null.
    kinds = [kind for kind in given.get("anyOf", [given]) if kind.get("type") != "null"]
    about = {**given, **kinds[0]}
    shown = SHOWN.get(name) or Shown(_label(name), _group(name), step=_step(about))
    return FieldShown(
        name=name,
        label=shown.label,
        hint=shown.hint or given.get("description", ""),
        kind=_kind(name, about),
        min=about.get("minimum", about.get("minLength")),
        max=about.get("maximum", about.get("maxLength", about.get("maxItems"))),
        above=about.get("exclusiveMinimum"),
        step=shown.step,
        group=shown.group,
        of_some=name in OF_SOME_MODELS,
        choices=tuple(about.get("enum", ())),
        default=given.get("default"),
    )


def _kind(name: str, about: Mapping[str, Any]) -> Kind:
    if name in INPUT_FILES:
        return "loras" if name == "loras" else "files" if name in SEVERAL_FILES else "file"
    if "enum" in about:
        return "choice"
    return KINDS.get(about.get("type", "string"), "text")


def _label(name: str) -> str:
    """`flowcache_epsilon` as `Epsilon`: the group says the rest."""
    words = name.removeprefix("flowcache_").replace("_", " ")
    return (words[:1].upper() + words[1:]).replace("Flowcache", "FlowCache")


def _group(name: str) -> str:
    return "flowcache" if name.startswith("flowcache") else "more"


def _step(about: Mapping[str, Any]) -> float:
    """Of a number whose range is small, a twentieth of it or so."""
    if about.get("type") != "number":
        return 1
    most = about.get("maximum", 1)
    return 0.01 if most <= 1 else 0.1 if most <= 10 else 0.5

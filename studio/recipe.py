"""A recipe: all that determines a result except the seeds.

Every field is explicit in a finished recipe; `Recipe.make` fills what the person left out from the
defaults of the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pipelines import base, catalogue
from pipelines.errors import BadInput
from pipelines.flowcache import with_preset

MAX_PROMPT = 20_000
MAX_SEED = 2**53 - 1
"""The largest whole number that a browser keeps exactly."""
INPUT_FILES = {
    "image": "image",
    "last_image": "image",
    "references": "image",
    "audio": "audio",
    "audio_2": "audio",
    "masks": "image",
    "loras": "lora",
}
"""Fields that name files, each with what those hold."""
SEVERAL_FILES = frozenset({"references", "masks", "loras"})
"""Those of them that name any number of files."""
NUMBERS_OF_SOME = ("guidance_scale_2", "audio_scale", "color_correction", "apg")
"""Numbers that only some models have."""
SAMPLING = ("shift", "ar_step", "causal_block", "condition_noise")
"""Settings of a schedule, which not every model has."""
MAY_BE_EMPTIED = frozenset({*INPUT_FILES, *NUMBERS_OF_SOME})
HUB_FILE = re.compile(r"(?!inputs/)[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(/[\w-][\w.-]*)+")
"""`org/name/file`, a file of a hub repository. Manifests name the library's own as `inputs/…`."""

_NO_FILE = "There is no such file; check the path."


class Lora(BaseModel):
    """A low-rank change of a model's weights, and how much of it is added."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    file: str = Field(min_length=1, description="Path, or org/name/file.safetensors on the hub.")
    strength: float = Field(1.0, ge=-10, le=10, description="1: all of it; 0: none.")
    part: Literal["both", "high", "low"] = Field(
        "both",
        exclude_if=lambda part: part == "both",
        description="Of a model with two transformers, the one for high or for low noise alone.",
    )


class Recipe(BaseModel):
    """Frozen; a field that is not named here is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    model: str = Field(min_length=1, description="Catalogue id, hub id or local folder.")
    prompt: str = Field(min_length=1, max_length=MAX_PROMPT, description="What to show.")
    negative_prompt: str = Field("", max_length=MAX_PROMPT, description="What to avoid.")
    image: Path | None = Field(
        None, description="Picture to begin with, or a video where a voice is given."
    )
    last_image: Path | None = Field(None, description="Picture that the video ends with.")
    references: tuple[Path, ...] = Field((), max_length=8, description="Further pictures to use.")
    audio: Path | None = Field(None, description="Voice, for models that take one.")
    audio_2: Path | None = Field(None, description="Voice of a second person.")
    faces: str = Field(
        "", max_length=200, description="Where each person is in the picture: x0,y0,x1,y1;..."
    )
    masks: tuple[Path, ...] = Field(
        (), max_length=8, description="Pictures that are white where each person is."
    )
    segments: int = Field(ge=1, le=1000, description="How many segments the video has.")
    width: int = Field(ge=16, le=8192, description="Pixels.")
    height: int = Field(ge=16, le=8192, description="Pixels.")
    fps: int = Field(ge=1, le=120, description="Frames per second.")
    frames: int = Field(ge=1, le=2001, description="F: frames of one segment.")
    overlap: int = Field(ge=0, le=2000, description="M: frames a segment repeats of the last one.")
    steps: int = Field(ge=1, le=1000, description="Denoising steps.")
    guidance_scale: float = Field(ge=0, le=100, description="How closely to follow the prompt.")
    guidance_scale_2: float | None = Field(
        None, ge=0, le=100, description="Guidance of the second transformer; None: the same."
    )
    audio_scale: float | None = Field(
        None, ge=0, le=100, description="How closely to follow the voice."
    )
    color_correction: float | None = Field(
        None, ge=0, le=1, description="How far colours are brought back to the picture's."
    )
    apg: float | None = Field(
        None, ge=0, le=1000, description="Limit of adaptive projected guidance; 0: off."
    )
    shift: float = Field(1.0, gt=0, le=100, description="Shift of the noise schedule.")
    ar_step: int = Field(0, ge=0, le=1000, description="Steps a chunk lags behind the one before.")
    causal_block: int = Field(1, ge=1, le=1000, description="Latent frames in one causal chunk.")
    condition_noise: int = Field(0, ge=0, le=60, description="Noise on the motion boundary, /1000.")
    flowcache: Literal["off", "exact", "flow", "teacache"] = Field(
        "off", description="What is left out while denoising. exact: only what changes nothing."
    )
    flowcache_threshold: float = Field(
        0.07, ge=0, le=10, description="Change that may add up before a chunk is computed again."
    )
    flowcache_warmup: int = Field(3, ge=0, le=1000, description="First steps, always computed.")
    flowcache_attention: Literal["auto", "causal", "bidirectional"] = Field(
        "auto", description="What a chunk looks at. auto: as the causal block says."
    )
    kv_budget: int = Field(0, ge=0, le=1000, description="Finished chunks to look at; 0: all.")
    loras: tuple[Lora, ...] = Field((), max_length=8, description="LoRA files with strengths.")
    weights: Literal["auto", "full", "fp8", "int8", "nf4", "gguf"] = Field(
        "auto", description="How the transformer is held in memory. auto: as fits this machine."
    )
    offload: Literal["auto", "none", "model", "group", "sequential"] = Field(
        "auto", description="What waits in main memory. auto: as fits this machine."
    )
    tiling: Literal["auto", "on", "off"] = Field(
        "auto", description="Whether pictures are coded in tiles. auto: where they are large."
    )

    @classmethod
    def make(cls, model: str, **given: Any) -> Recipe:
        """The recipe that `given` comes to on `model`; values that are None count as left out.

        Raises BadInput naming the field, the value and the fix.
        """
        entry = catalogue.find(model)
        chosen = {name: value for name, value in given.items() if value is not None}
        chosen = with_preset(chosen, entry.family)
        try:
            recipe = cls(**{**entry.defaults, **chosen, "model": entry.id})
        except ValidationError as error:
            raise _bad_input(error) from None
        return recipe.with_absolute_files()

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """This recipe with some fields replaced. Raises BadInput as `make` does."""
        chosen = chosen_of(changes)
        if "model" in chosen:
            entry = catalogue.find(chosen["model"])
            chosen["model"] = entry.id
            if entry.id != self.model:
                chosen = {**self._of_new_model(entry), **chosen}
        if "flowcache" in chosen:
            chosen = with_preset(chosen, catalogue.find(chosen.get("model", self.model)).family)
        try:
            recipe = Recipe(**{**self.model_dump(), **chosen})
        except ValidationError as error:
            raise _bad_input(error) from None
        return recipe.with_absolute_files()

    def _of_new_model(self, entry: catalogue.Model) -> dict[str, Any]:
        """The settings that another model begins with; a chain keeps its length."""
        kept = {"segments": self.segments} if entry.capabilities.segment_reuse else {}
        unread = {*SAMPLING, *(base.OF_SOME_MODELS - set(entry.capabilities.extras))}
        reset = {name: Recipe.model_fields[name].default for name in unread}
        return {**reset, **dict.fromkeys(NUMBERS_OF_SOME), **entry.defaults, **kept}

    def with_absolute_files(self) -> Recipe:
        """The same recipe with its files named from the root, so that it means the same anywhere.

        Raises BadInput for a file that is not there.
        """

        def absolute(name: str, path: Path) -> Path:
            if not path.expanduser().is_file():
                is_folder = path.expanduser().is_dir()
                fix = "It is a folder; name a file." if is_folder else _NO_FILE
                raise BadInput(name, str(path), fix)
            return path.expanduser().resolve()

        loras = tuple(lora.model_copy(update={"file": _local(lora.file)}) for lora in self.loras)
        return self.model_copy(update={"loras": loras}).with_files(absolute)

    def files(self) -> list[tuple[str, Path]]:
        """(field, path) of each file that it names on this machine."""
        found: list[tuple[str, Path]] = []

        def note(name: str, path: Path) -> Path:
            found.append((name, path))
            return path

        self.with_files(note)
        return found

    def with_files(self, change: Callable[[str, Path], Path | None]) -> Recipe:
        """The same recipe with each file that it names on this machine replaced by what
        `change(field, path)` gives; None takes it away."""
        new = {name: replaced_files(name, getattr(self, name), change) for name in INPUT_FILES}
        return self.model_copy(update=new)


def replaced_files(name: str, value: Any, change: Callable[[str, Path], Path | None]) -> Any:
    """The value of a field that names files, as a recipe or JSON holds it, with each file on this
    machine replaced by what `change(name, path)` gives; None takes it away."""
    if name not in SEVERAL_FILES:
        return None if value is None else _replaced(name, value, change)
    found = (_replaced(name, one, change) for one in value)
    return tuple(one for one in found if one is not None)


def _replaced(name: str, file: Any, change: Callable[[str, Path], Path | None]) -> Any:
    named = file.file if isinstance(file, Lora) else file["file"] if name == "loras" else file
    if name == "loras" and HUB_FILE.fullmatch(named):
        return file
    new = change(name, Path(named))
    if new is None:
        return None
    if isinstance(file, Lora):
        return file.model_copy(update={"file": str(new)})
    if isinstance(file, Path):
        return new
    return {**file, "file": str(new)} if name == "loras" else str(new)


def _local(file: str) -> str:
    """A path from here may look like a file on the hub: what is here comes first."""
    return str(Path(file).resolve()) if Path(file).is_file() else file


def checked_value(name: str, value: Any) -> Any:
    """The value of one recipe field as JSON holds it. Raises BadInput."""
    if name not in Recipe.model_fields:
        known = ", ".join(Recipe.model_fields)
        raise BadInput(name, value, f"There is no such field; the fields are {known}.")
    adapter = _adapter(name)
    try:
        return adapter.dump_python(adapter.validate_python(value), mode="json")
    except ValidationError as error:
        message = error.errors()[0]["msg"].replace("Input should", "It should")
        raise BadInput(name, value, f"{message}.") from None


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(Recipe.model_fields[name].rebuild_annotation())


def chosen_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that `changes` replaces: None leaves a field as it was, but takes a file away."""
    return {
        name: () if value is None and name in SEVERAL_FILES else value
        for name, value in changes.items()
        if value is not None or name in MAY_BE_EMPTIED
    }


def _bad_input(error: ValidationError) -> BadInput:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or "recipe"
    if first["type"] == "extra_forbidden":
        known = ", ".join(Recipe.model_fields)
        return BadInput(field, first["input"], f"There is no such field; the fields are {known}.")
    if first["type"] == "missing":
        return BadInput(field, None, "This field is needed; give it a value.")
    if first["type"] == "string_too_short":
        return BadInput(field, first["input"], "It is empty; write something.")
    message = first["msg"].replace("Input should", "It should")
    return BadInput(field, first["input"], f"{message}.")

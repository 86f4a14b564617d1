"""A recipe: all that determines a result except the seeds.

Every field is explicit in a finished recipe; `Recipe.make` fills what the person left out from the
defaults of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines import catalogue
from pipelines.errors import BadInput
from pipelines.flowcache import with_preset

MAX_PROMPT = 20_000
MAX_SEED = 2**53 - 1
"""The largest whole number that a browser keeps exactly."""
INPUT_FILES = ("image", "audio")


class Recipe(BaseModel):
    """Frozen; a field that is not named here is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    model: str = Field(min_length=1, description="Catalogue id, hub id or local folder.")
    prompt: str = Field(min_length=1, max_length=MAX_PROMPT, description="What to show.")
    negative_prompt: str = Field("", max_length=MAX_PROMPT, description="What to avoid.")
    image: Path | None = Field(None, description="Reference picture, for models that take one.")
    audio: Path | None = Field(None, description="Voice, for models that take one.")
    segments: int = Field(ge=1, le=1000, description="How many segments the video has.")
    width: int = Field(ge=16, le=8192, description="Pixels.")
    height: int = Field(ge=16, le=8192, description="Pixels.")
    fps: int = Field(ge=1, le=120, description="Frames per second.")
    frames: int = Field(ge=1, le=2001, description="F: frames of one segment.")
    overlap: int = Field(ge=0, le=2000, description="M: frames a segment repeats of the last one.")
    steps: int = Field(ge=1, le=1000, description="Denoising steps.")
    guidance_scale: float = Field(ge=0, le=100, description="How closely to follow the prompt.")
    shift: float = Field(gt=0, le=100, description="Shift of the noise schedule.")
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
                chosen = {**entry.defaults, "segments": self.segments, **chosen}
        if "flowcache" in chosen:
            chosen = with_preset(chosen, catalogue.find(chosen.get("model", self.model)).family)
        try:
            recipe = Recipe(**{**self.model_dump(), **chosen})
        except ValidationError as error:
            raise _bad_input(error) from None
        return recipe.with_absolute_files()

    def with_absolute_files(self) -> Recipe:
        """The same recipe with its files named from the root, so that it means the same anywhere.

        Raises BadInput for a file that is not there.
        """
        files: dict[str, Path] = {}
        for name in INPUT_FILES:
            path: Path | None = getattr(self, name)
            if path is None:
                continue
            if not path.expanduser().is_file():
                raise BadInput(name, str(path), "There is no such file; check the path.")
            files[name] = path.expanduser().resolve()
        return self.model_copy(update=files)


def chosen_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that `changes` replaces: None leaves a field as it was, but takes a file away."""
    return {k: value for k, value in changes.items() if value is not None or k in INPUT_FILES}


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

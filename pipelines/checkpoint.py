"""A checkpoint in the diffusers layout on disk: its classes, its configs, whether it is whole.

Reads JSON and the headers of safetensors files only, so that damage is found before anything heavy
is imported. Nothing here knows torch. Each family says what it can run in a subclass.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from pipelines.errors import BadInput
from pipelines.safetensors_header import safetensors_problem

CONFIGS = {
    "tokenizer": "tokenizer_config.json",
    "scheduler": "scheduler_config.json",
    "image_processor": "preprocessor_config.json",
    "processor": "tokenizer_config.json",
}
"""Component -> its config file, where that is not `config.json`."""

STEMS = {"text_encoder": "model", "image_encoder": "model", "audio_encoder": "model"}
"""Component -> stem of its weight files, where that is not that of diffusers."""
WITHOUT_WEIGHTS = frozenset({"tokenizer", "scheduler", "image_processor", "processor"})
TOKENIZER_FILES = ("tokenizer.json", "spiece.model", "vocab.json")


@dataclass(frozen=True)
class Checkpoint:
    """A folder in the diffusers layout, read as far as its JSON goes."""

    folder: Path
    index: Mapping[str, Any] = field(repr=False)

    pipelines: ClassVar[tuple[str, ...]] = ()
    """What `_class_name` of a model_index.json may be."""
    classes: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """Component -> class -> the module it comes from. A closed list: what a downloaded
    model_index.json names is looked up here and never imported by itself."""
    required: ClassVar[tuple[str, ...]] = ()
    """Components that every checkpoint of the family has."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises BadInput if `folder` is not a checkpoint whose classes this family can run."""
        folder = Path(folder)
        if not folder.is_dir():
            raise BadInput("model", str(folder), "There is no such folder.")
        checkpoint = cls(folder, read_json(folder / "model_index.json"))
        checkpoint._check_classes()
        return checkpoint

    def _check_classes(self) -> None:
        name = self.index.get("_class_name")
        if name not in self.pipelines:
            raise self.damage(
                "model_index.json", f"names {name!r}; can run: {', '.join(self.pipelines)}"
            )
        for component in self.required:
            if not self.has(component):
                raise self.damage("model_index.json", f"has no {component}")
        for component, known in self.classes.items():
            if self.has(component) and self.index[component][1] not in known:
                raise self.damage(
                    "model_index.json",
                    f"names {self.index[component][1]!r} as {component}; "
                    f"can run: {', '.join(known)}",
                )

    def has(self, component: str) -> bool:
        """Whether model_index.json names a class for it."""
        entry = self.index.get(component)
        return isinstance(entry, list) and len(entry) == 2 and all(entry)

    @cached_property
    def components(self) -> tuple[str, ...]:
        """Those of the family that this checkpoint has."""
        return tuple(
            name for name in dict.fromkeys((*self.required, *self.classes)) if self.has(name)
        )

    def class_of(self, component: str) -> tuple[str, str]:
        """(module, class) of a component."""
        name = self.index[component][1]
        return self.classes[component][name], name

    def damage(self, what: str, problem: str) -> BadInput:
        return BadInput("model", str(self.folder), f"{what} {problem}.")

    def config(self, component: str) -> Mapping[str, Any]:
        """The JSON config of a component. Raises BadInput if it is missing or broken."""
        path = self.folder / component / CONFIGS.get(component, "config.json")
        if path.name == CONFIGS["tokenizer"] and not path.exists():
            return {}
        return read_json(path)

    def signature(self, component: str) -> tuple[tuple[str, int, int], ...]:
        """(name, bytes, time of change) of each file of a component: tells whether it was changed
        on disk, without reading it."""
        files = sorted((self.folder / component).rglob("*"))
        stats = [(path.name, path.stat()) for path in files if path.is_file()]
        return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)

    def content(self, component: str, weights: str = "full") -> Any:
        """What a key hashes for a component that is held in these weights: paths. A GGUF file
        counts where it is used, and nowhere else."""
        folder = self.folder / component
        files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        if weights == "gguf":
            return {p.name: p for p in files if p.suffix == ".gguf" or p.name == "config.json"}
        return {path.name: path for path in files if path.suffix != ".gguf"}

    def check(self, components: Iterable[str] | None = None) -> None:
        """Raises BadInput naming the first component that is missing, broken or cut short."""
        for component in self.components if components is None else components:
            if not (self.folder / component).is_dir():
                raise self.damage(component, "is missing")
            self.config(component)
            if component == "tokenizer":
                if not any((self.folder / component / name).is_file() for name in TOKENIZER_FILES):
                    raise self.damage(component, f"has none of {', '.join(TOKENIZER_FILES)}")
            elif component not in WITHOUT_WEIGHTS:
                for path in self.weight_files(component):
                    problem = safetensors_problem(path)
                    if problem:
                        raise self.damage(f"{component}/{path.name}", problem)

    def weight_files(self, component: str) -> list[Path]:
        """The safetensors files of a component. Raises BadInput if none is named."""
        folder, stem = self.folder / component, STEMS.get(component, "diffusion_pytorch_model")
        index = folder / f"{stem}.safetensors.index.json"
        whole = folder / f"{stem}.safetensors"
        if whole.is_file():
            return [whole]
        if not index.is_file():
            raise self.damage(component, f"has no weights ({whole.name} is missing)")
        names = read_json(index).get("weight_map", {})
        if not names or not isinstance(names, dict):
            raise self.damage(f"{component}/{index.name}", "names no files")
        return [folder / name for name in sorted(set(names.values()))]

    def weight_bytes(self, component: str) -> int:
        """Bytes of the weights of a component as stored."""
        return sum(path.stat().st_size for path in self.weight_files(component))

    @cached_property
    def temporal_factor(self) -> int:
        """Frames per latent frame after the first."""
        return self._factor("scale_factor_temporal", sum, 4)

    @cached_property
    def spatial_factor(self) -> int:
        """Pixels per latent pixel along a side."""
        return self._factor("scale_factor_spatial", len, 8)

    def _factor(self, key: str, count: Any, default: int) -> int:
        vae = self.config("vae")
        if vae.get(key):
            return int(vae[key])
        # Configs saved before the factors were written down have only the list of the stages.
        stages = vae.get("temperal_downsample")
        return 2 ** count(stages) if stages else default


def read_json(path: Path) -> Mapping[str, Any]:
    """A JSON object. Raises BadInput naming the file if it is missing or is not one."""
    model = str(path.parent)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput("model", model, f"{path.name} is missing.") from None
    except (OSError, ValueError) as error:
        raise BadInput("model", model, f"{path.name} cannot be read: {error}.") from error
    if not isinstance(value, dict):
        raise BadInput("model", model, f"{path.name} is not a JSON object.")
    return value

"""A SkyReels-V2 checkpoint on disk: which classes it names, its configs, whether it is whole.

Reads JSON and the headers of safetensors files only, so that damage is found before anything heavy
is imported. Nothing here knows torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pipelines.errors import BadInput
from pipelines.safetensors_header import safetensors_problem

PIPELINES = (
    "SkyReelsV2DiffusionForcingPipeline",
    "SkyReelsV2DiffusionForcingImageToVideoPipeline",
    "SkyReelsV2DiffusionForcingVideoToVideoPipeline",
)
"""They differ in their code, not in their components: one checkpoint serves all three."""

CLASSES: Mapping[str, Mapping[str, str]] = {
    "text_encoder": {"UMT5EncoderModel": "transformers", "T5EncoderModel": "transformers"},
    "transformer": {"SkyReelsV2Transformer3DModel": "diffusers"},
    "vae": {"AutoencoderKLWan": "diffusers", "FrameStackCodec": "pipelines.starter.codec"},
    "scheduler": {"UniPCMultistepScheduler": "diffusers"},
}
"""Component -> class -> the module it comes from. A closed list: what a downloaded
model_index.json names is looked up here and never imported by itself."""

ENCODERS = ("tokenizer", "text_encoder")
DENOISER = ("transformer", "scheduler", "vae")

CONFIGS = {
    "tokenizer": "tokenizer_config.json",
    "text_encoder": "config.json",
    "transformer": "config.json",
    "vae": "config.json",
    "scheduler": "scheduler_config.json",
}
WEIGHTS = {
    "text_encoder": "model",
    "transformer": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
}
TOKENIZER_FILES = ("tokenizer.json", "spiece.model")


@dataclass(frozen=True)
class Checkpoint:
    """A folder in the diffusers layout, read as far as its JSON goes."""

    folder: Path
    index: Mapping[str, Any] = field(repr=False)

    @classmethod
    def read(cls, folder: Path) -> Checkpoint:
        """Raises BadInput if `folder` is not a checkpoint whose classes this family can run."""
        folder = Path(folder)
        if not folder.is_dir():
            raise BadInput("model", str(folder), "There is no such folder.")
        checkpoint = cls(folder, read_json(folder / "model_index.json"))
        checkpoint._check_classes()
        return checkpoint

    def _check_classes(self) -> None:
        name = self.index.get("_class_name")
        if name not in PIPELINES:
            raise self.damage(
                "model_index.json", f"names {name!r}; can run: {', '.join(PIPELINES)}"
            )
        for component in ("tokenizer", *CLASSES):
            entry = self.index.get(component)
            if not (isinstance(entry, list) and len(entry) == 2 and all(entry)):
                raise self.damage("model_index.json", f"has no {component}")
            known = CLASSES.get(component)
            if known is not None and entry[1] not in known:
                raise self.damage(
                    "model_index.json",
                    f"names {entry[1]!r} as {component}; can run: {', '.join(known)}",
                )

    def class_of(self, component: str) -> tuple[str, str]:
        """(module, class) of a component; the tokenizer's class is left to transformers."""
        name = self.index[component][1]
        return CLASSES[component][name], name

    def damage(self, what: str, problem: str) -> BadInput:
        return BadInput("model", str(self.folder), f"{what} {problem}.")

    def config(self, component: str) -> Mapping[str, Any]:
        """The JSON config of a component. Raises BadInput if it is missing or broken."""
        path = self.folder / component / CONFIGS[component]
        if component == "tokenizer" and not path.exists():
            return {}
        return read_json(path)

    def signature(self, component: str) -> tuple[tuple[str, int, int], ...]:
        """(name, bytes, time of change) of each file of a component: tells whether it was changed
        on disk, without reading it."""
        files = sorted((self.folder / component).rglob("*"))
        stats = [(path.name, path.stat()) for path in files if path.is_file()]
        return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)

    def check(self, components: Iterable[str] = (*ENCODERS, *DENOISER)) -> None:
        """Raises BadInput naming the first component that is missing, broken or cut short."""
        for component in components:
            if not (self.folder / component).is_dir():
                raise self.damage(component, "is missing")
            self.config(component)
            if component == "tokenizer":
                if not any((self.folder / component / name).is_file() for name in TOKENIZER_FILES):
                    raise self.damage(component, f"has none of {', '.join(TOKENIZER_FILES)}")
            elif component in WEIGHTS:
                self._check_weights(component)
        if "scheduler" in components and not self.config("scheduler").get("use_flow_sigmas"):
            raise self.damage("scheduler", "does not set use_flow_sigmas")

    def _check_weights(self, component: str) -> None:
        folder, stem = self.folder / component, WEIGHTS[component]
        index = folder / f"{stem}.safetensors.index.json"
        whole = folder / f"{stem}.safetensors"
        if whole.is_file():
            files = [whole]
        elif index.is_file():
            names = read_json(index).get("weight_map", {})
            if not names or not isinstance(names, dict):
                raise self.damage(f"{component}/{index.name}", "names no files")
            files = [folder / name for name in sorted(set(names.values()))]
        else:
            raise self.damage(component, f"has no weights ({whole.name} is missing)")
        for path in files:
            problem = safetensors_problem(path)
            if problem:
                raise self.damage(f"{component}/{path.name}", problem)

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

    @cached_property
    def max_sequence_length(self) -> int:
        """Tokens that prompts are padded to: 512 unless the checkpoint says that it was trained
        on fewer, in model_index.json, in the transformer's config, or by a short tokenizer."""
        for config in (self.index, self.config("transformer")):
            length = config.get("max_sequence_length")
            if length:
                return int(length)
        # transformers writes 1e30 where a tokenizer has no limit.
        return int(min(self.config("tokenizer").get("model_max_length") or 512, 512))


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

"""An InfiniteTalk checkpoint on disk: all in one folder, or the published weights in their places.

A model_index.json either names components, as in any folder in the diffusers layout, or says where
the published weights are, each a path (from the folder) or a name on the hub:

- `base`: Wan2.1 I2V in the diffusers layout;
- `base_transformer`: the transformer of it in the published layout (config.json and shards in one
  folder), to be taken instead of that of `base`;
- `audio_weights`: infinitetalk.safetensors;
- `audio_encoder`: a folder with wav2vec2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from pipelines import checkpoint
from pipelines.checkpoint import read_json
from pipelines.errors import BadInput, ModelMissing
from pipelines.infinitetalk.published import Shapes, model_config, shapes_in
from pipelines.safetensors_header import safetensors_problem

TEXT = ("tokenizer", "text_encoder")
PICTURE = ("image_encoder", "image_processor", "vae")
VOICE = ("audio_encoder",)
DENOISER = ("transformer", "vae")

_TEXT_ENCODERS = {"UMT5EncoderModel": "transformers", "T5EncoderModel": "transformers"}
_CODECS = {
    "AutoencoderKLWan": "diffusers",
    "FrameStackCodec": "pipelines.starter.codec",
    "PatchCodec": "pipelines.talking.codec",
}
_COMMON = {
    "text_encoder": _TEXT_ENCODERS,
    "image_encoder": {"CLIPVisionModel": "transformers"},
    "vae": _CODECS,
}


class Base(checkpoint.Checkpoint):
    """Wan2.1 I2V in the diffusers layout, of which InfiniteTalk takes all."""

    pipelines: ClassVar[tuple[str, ...]] = ("WanImageToVideoPipeline",)
    classes: ClassVar[Mapping[str, Mapping[str, str]]] = {
        **_COMMON,
        "transformer": {"WanTransformer3DModel": "diffusers"},
    }
    required: ClassVar[tuple[str, ...]] = (*TEXT, *_COMMON, "transformer")


class Checkpoint(checkpoint.Checkpoint):
    """What a folder comes to, wherever its parts are."""

    pipelines: ClassVar[tuple[str, ...]] = ("InfiniteTalkPipeline",)
    classes: ClassVar[Mapping[str, Mapping[str, str]]] = {
        **_COMMON,
        "audio_encoder": {"Wav2Vec2Model": "transformers"},
        "transformer": {
            "InfiniteTalkTransformer3DModel": "pipelines.infinitetalk.transformer",
        },
    }
    required: ClassVar[tuple[str, ...]] = (*TEXT, "vae", "audio_encoder", "transformer")

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Raises BadInput if it is not a checkpoint of this family, ModelMissing if a part of it
        is a hub download that is not here."""
        folder = Path(folder)
        index = read_json(folder / "model_index.json") if folder.is_dir() else {}
        if "audio_weights" not in index:
            return super().read(folder)
        found = cls(folder, index)
        if index.get("_class_name") not in cls.pipelines:
            raise found.damage("model_index.json", f"names {index.get('_class_name')!r}")
        _ = found.base, found.audio_weights, found.folder_of("audio_encoder")
        return found

    @property
    def published(self) -> bool:
        """Whether the transformer has to be put together of two sets of weights."""
        return "audio_weights" in self.index

    @cached_property
    def base(self) -> Base:
        """Where the parts are that Wan2.1 has too."""
        return Base.read(self._place("base"))

    @cached_property
    def audio_weights(self) -> Path:
        return self._place("audio_weights")

    @cached_property
    def base_files(self) -> list[Path]:
        """The shards of the base transformer, in either layout."""
        if "base_transformer" not in self.index:
            return self.base.weight_files("transformer")
        folder = self._place("base_transformer")
        shards = sorted(folder.glob("diffusion_pytorch_model*.safetensors"))
        if not shards:
            fix = f"There are no diffusion_pytorch_model*.safetensors in {folder}."
            raise BadInput("model", str(self.folder), fix)
        return shards

    @property
    def base_config(self) -> Mapping[str, Any]:
        """The config of the base transformer, in the words of its layout."""
        return read_json(self.base_config_file)

    @cached_property
    def base_config_file(self) -> Path:
        if "base_transformer" in self.index:
            return self._place("base_transformer") / "config.json"
        return self.base.folder / "transformer" / "config.json"

    def has(self, component: str) -> bool:
        if not self.published:
            return super().has(component)
        return component in ("audio_encoder", "transformer") or self.base.has(component)

    def class_of(self, component: str) -> tuple[str, str]:
        if not self.published or component in ("audio_encoder", "transformer"):
            names = self.classes[component]
            name = next(iter(names)) if self.published else self.index[component][1]
            return names[name], name
        return self.base.class_of(component)

    def holding(self, component: str) -> checkpoint.Checkpoint:
        """The checkpoint in whose folder a component lies under its name."""
        return self.base if self.published else self

    def folder_of(self, component: str) -> Path:
        """Where the files of a component are; not of a transformer of two sets of weights."""
        if self.published and component == "audio_encoder":
            return self._place("audio_encoder")
        return self.holding(component).folder / component

    def config(self, component: str) -> Mapping[str, Any]:
        if not self.published:
            return super().config(component)
        if component == "audio_encoder":
            return read_json(self.folder_of(component) / "config.json")
        if component == "transformer":
            layers = int(self.config("audio_encoder")["num_hidden_layers"])
            return model_config(self.base_config, self._audio_shapes, layers)
        return self.base.config(component)

    @cached_property
    def _audio_shapes(self) -> Shapes:
        return shapes_in(self.audio_weights)

    def weight_files(self, component: str) -> list[Path]:
        if not self.published:
            return super().weight_files(component)
        if component == "transformer":
            return [*self.base_files, self.audio_weights]
        return self.base.weight_files(component)

    def content(self, component: str, weights: str = "full") -> Any:
        if self.published and component == "transformer":
            shards = {path.name: path for path in self.base_files}
            config = self.base_config_file
            return {"base": shards, "base_config": config, "audio_weights": self.audio_weights}
        return self.folder_of(component)

    def signature(self, component: str) -> tuple[tuple[str, int, int], ...]:
        if not self.published:
            return super().signature(component)
        if component == "transformer":
            files = [*self.weight_files(component), self.base_config_file]
        else:
            files = sorted(p for p in self.folder_of(component).rglob("*") if p.is_file())
        stats = [(path.name, path.stat()) for path in files]
        return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)

    def check(self, components: Iterable[str] | None = None) -> None:
        """Raises BadInput naming the first file that is missing, broken or cut short."""
        chosen = self.components if components is None else tuple(components)
        if not self.published:
            return super().check(chosen)
        own = {"transformer", "audio_encoder"}
        self.base.check([name for name in chosen if name not in own])
        if "transformer" in chosen:
            for path in self.weight_files("transformer"):
                if problem := safetensors_problem(path):
                    raise self.damage(path.name, problem)
            self.config("transformer")
        if "audio_encoder" in chosen:
            self.config("audio_encoder")
            folder = self.folder_of("audio_encoder")
            if not any((folder / name).is_file() for name in AUDIO_ENCODER_FILES):
                raise self.damage(str(folder), f"has none of {', '.join(AUDIO_ENCODER_FILES)}")
        return None

    @cached_property
    def text_len(self) -> int:
        """Tokens that prompts are padded to."""
        return int(self.config("transformer").get("text_len", 512))

    @cached_property
    def sees_picture(self) -> bool:
        """Whether the transformer takes CLIP tokens of the picture."""
        return self.config("transformer").get("image_dim", 1280) is not None

    @cached_property
    def normalises_voice(self) -> bool:
        """Whether the audio encoder was trained on samples of mean 0 and variance 1."""
        path = self.folder_of("audio_encoder") / "preprocessor_config.json"
        return bool(read_json(path).get("do_normalize", True)) if path.is_file() else True

    def _place(self, name: str) -> Path:
        """The path that model_index.json gives for a part. Raises ModelMissing for what is on the
        hub but not here, BadInput for a path where nothing is."""
        from pipelines.catalogue import HUB_ID, hub_snapshot

        value = self.index.get(name)
        if not isinstance(value, str) or not value:
            raise self.damage("model_index.json", f"has no {name}")
        path = self.folder / Path(value).expanduser()
        if path.exists():
            return path
        repository, file = "/".join(value.split("/")[:2]), "/".join(value.split("/")[2:])
        if not HUB_ID.fullmatch(repository):
            raise BadInput("model", str(self.folder), f"{name}: there is no {value}.")
        snapshot = hub_snapshot(repository)
        if snapshot is None or not (snapshot / file).exists():
            fix = f"{value} is not on this machine. Download it with: hf download {repository}"
            raise ModelMissing("model", str(self.folder), f"{fix} {file}".rstrip())
        return snapshot / file


AUDIO_ENCODER_FILES = ("model.safetensors", "pytorch_model.bin")
"""The published wav2vec2 has only the second; it is read as weights alone, without running code."""

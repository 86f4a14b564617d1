"""What the configs of a talking checkpoint say is in the keys of what they change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipelines.infinitetalk import InfiniteTalk
from reuse import FileHashes, digest, resolve
from studio.recipe import Recipe
from tests.fixtures.tiny_infinitetalk import build, publish
from tests.fixtures.voices import hum, write_wav


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("checkpoints") / "tiny-infinitetalk")


@pytest.fixture
def asked(folder, tmp_path) -> Recipe:
    """Two persons."""
    Image.fromarray(np.zeros((40, 60, 3), np.uint8)).save(tmp_path / "face.png")
    voices = [write_wav(tmp_path / f"{pitch}.wav", hum(0.5, pitch=pitch)) for pitch in (180, 300)]
    return Recipe.make(
        str(folder), prompt="two", image=tmp_path / "face.png", audio=voices[0], audio_2=voices[1],
        width=64, height=32, frames=9, overlap=5, fps=25, steps=1,
        faces="0,0,28,40;28,0,60,40",
    )  # fmt: skip


def open_model(folder: Path) -> InfiniteTalk:
    return InfiniteTalk.open(folder, device="cpu")


def edit(path: Path, **changes) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def segment_key(model: InfiniteTalk, recipe: Recipe) -> str:
    return digest("segments", resolve(model.segment_inputs(recipe), FileHashes()))


@pytest.mark.parametrize("base", ["original", "base/transformer"])
@pytest.mark.parametrize("change", [{"num_heads": 2}, {"eps": 1e-3}], ids=["heads", "eps"])
def test_the_config_of_the_base_changes_the_key(folder, asked, tmp_path, base, change):
    """The weights tell neither the number of heads nor eps."""
    published = publish(folder, tmp_path / "published")
    if base != "original":
        for path in (published / "original").iterdir():
            shutil.copy(path, published / base)
        shards = sorted((published / base).glob("*.safetensors"))
        names = {f"tensor{i}": path.name for i, path in enumerate(shards)}
        index = published / base / "diffusion_pytorch_model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": names}))
        places = json.loads((published / "model_index.json").read_text())
        del places["base_transformer"]
        (published / "model_index.json").write_text(json.dumps(places))
    model = open_model(published)
    before = segment_key(model, asked)
    config, files = (
        ask("transformer") for ask in (model.checkpoint.config, model.checkpoint.signature)
    )
    edit(published / base / "config.json", **change)
    for opened in (model, open_model(published)):
        assert segment_key(opened, asked) != before
        assert opened.checkpoint.config("transformer") != config
        assert opened.checkpoint.signature("transformer") != files


def test_where_the_faces_are_depends_on_how_far_the_codec_scales_down(folder, asked, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    edit(other / "vae" / "config.json", scale_factor_spatial=16)
    models = open_model(folder), open_model(other)
    shapes = [tuple(m.encode(asked, ["faces"])["faces"]["masks"].shape) for m in models]
    assert shapes == [(3, 4, 8), (3, 2, 4)]
    keys = [
        digest("inputs", resolve(m.encoder_inputs(asked), FileHashes())["faces"]) for m in models
    ]
    assert keys[0] != keys[1]

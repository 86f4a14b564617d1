"""A damaged folder is named for what is wrong with it, before any weight is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pipelines.catalogue import find
from pipelines.errors import BadInput
from pipelines.skyreels_v2 import SkyReelsV2

DIT = "transformer/diffusion_pytorch_model.safetensors"


@pytest.fixture
def folder(tiny, tmp_path) -> Path:
    return shutil.copytree(tiny, tmp_path / "model")


def refusal(folder: Path) -> str:
    with pytest.raises(BadInput) as error:
        find(str(folder))
    assert error.value.field == "model"
    return error.value.fix


def edit(path: Path, **changes) -> None:
    value = json.loads(path.read_text())
    value |= changes
    path.write_text(json.dumps({k: v for k, v in value.items() if v is not None}))


@pytest.mark.parametrize(
    "component", ["transformer", "vae", "scheduler", "text_encoder", "tokenizer"]
)
def test_a_missing_component(folder, component):
    shutil.rmtree(folder / component)
    assert f"{component} is missing" in refusal(folder)


def test_a_component_that_the_index_does_not_name(folder):
    edit(folder / "model_index.json", vae=None)
    assert "model_index.json has no vae" in refusal(folder)


def test_an_index_that_is_missing_or_is_not_json(folder):
    (folder / "model_index.json").write_text("{")
    assert "model_index.json cannot be read" in refusal(folder)
    (folder / "model_index.json").unlink()
    assert "model_index.json is missing" in refusal(folder)


def test_a_config_that_is_not_json(folder):
    (folder / "vae" / "config.json").write_bytes(b"\xff\xfe")
    assert "config.json cannot be read" in refusal(folder)
    (folder / "vae" / "config.json").write_text("[]")
    assert "config.json is not a JSON object" in refusal(folder)


def test_a_pipeline_of_another_kind(folder):
    edit(folder / "model_index.json", _class_name="StableDiffusionPipeline")
    assert "It is a StableDiffusionPipeline; models that can be run: SkyReels" in refusal(folder)


def test_a_component_of_another_class(folder):
    edit(folder / "model_index.json", transformer=["diffusers", "WanTransformer3DModel"])
    assert "'WanTransformer3DModel' as transformer; can run: SkyReelsV2Tran" in refusal(folder)


def test_a_class_is_never_imported_because_a_folder_names_it(folder):
    edit(folder / "model_index.json", vae=["antigravity", "AutoencoderKLWan"])
    pipeline = SkyReelsV2.open(folder)
    assert pipeline.checkpoint.class_of("vae") == ("diffusers", "AutoencoderKLWan")


def test_weights_that_are_missing(folder):
    (folder / DIT).unlink()
    assert "transformer has no weights" in refusal(folder)


def test_weights_that_are_cut_short(folder):
    weights = (folder / DIT).read_bytes()
    (folder / DIT).write_bytes(weights[:-100])
    assert "is cut short" in refusal(folder)
    (folder / DIT).write_bytes(weights[:100])
    assert "is cut short" in refusal(folder)
    (folder / DIT).write_bytes(b"")
    assert "is not a safetensors file" in refusal(folder)


def test_weights_that_are_a_pointer_to_weights(folder):
    (folder / DIT).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    assert f"{DIT} is" in refusal(folder)


def test_a_shard_that_is_missing(folder):
    whole = folder / DIT
    index = whole.with_name("diffusion_pytorch_model.safetensors.index.json")
    names = [f"diffusion_pytorch_model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    whole.rename(whole.with_name(names[0]))
    index.write_text(json.dumps({"weight_map": {"a": names[0], "b": names[1]}}))
    assert f"{names[1]} is missing" in refusal(folder)


def test_a_scheduler_without_flow_matching(folder):
    edit(folder / "scheduler" / "scheduler_config.json", use_flow_sigmas=False)
    assert "scheduler does not set use_flow_sigmas" in refusal(folder)


def test_weights_that_the_config_needs_and_the_file_has_not(folder):
    # A loader would fill them with random numbers and go on.
    edit(folder / "transformer" / "config.json", num_layers=3)
    with pytest.raises(BadInput, match=r"transformer has no weights for blocks\.2"):
        SkyReelsV2.open(folder, device="cpu").load_denoiser()


def test_weights_of_another_shape(folder):
    edit(folder / "transformer" / "config.json", ffn_dim=64)
    with pytest.raises(BadInput, match="transformer cannot be loaded"):
        SkyReelsV2.open(folder, device="cpu").load_denoiser()


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("model_index.json", {"max_sequence_length": 32}),
        ("transformer/config.json", {"max_sequence_length": 32}),
        ("tokenizer/tokenizer_config.json", {"model_max_length": 32}),
    ],
)
def test_a_checkpoint_may_say_that_its_prompts_are_short(folder, recipe, file, changes):
    edit(folder / file, **changes)
    pipeline = SkyReelsV2.open(folder, device="cpu")
    assert pipeline.checkpoint.max_sequence_length == 32
    assert pipeline.encoder_inputs(recipe)["prompt"]["max_sequence_length"] == 32


def test_prompts_are_padded_to_512_tokens_by_default(folder):
    edit(folder / "tokenizer" / "tokenizer_config.json", model_max_length=int(1e30))
    assert SkyReelsV2.open(folder).checkpoint.max_sequence_length == 512

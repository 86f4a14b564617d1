"""Quantised transformers: what they hold, LoRAs on them, and files that do not fit."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import Lora, encode, reopened, seeded
from test_lora import write

from pipelines.errors import BadInput
from pipelines.memory import installed
from tests.fixtures import tiny_gguf, tiny_wan

ON_A_CPU = ["gguf", *(["int8"] if "torchao" in installed() else [])]


@pytest.fixture
def folder(checkpoint_of, tmp_path) -> Path:
    folder = shutil.copytree(checkpoint_of("wan21_t2v"), tmp_path / "wan")
    tiny_wan.transformer(attention_head_dim=16, ffn_dim=64).save_pretrained(folder / "transformer")
    tiny_gguf.write(folder / "transformer")
    return folder


@pytest.fixture
def recipe(recipe):
    return recipe.but(segments=1, overlap=0, frames=5, width=32, height=32, steps=2, weights="gguf")


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float32", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("weights", ON_A_CPU)
def test_a_lora_counts_on_quantised_weights_as_on_full_ones(
    folder, recipe, tmp_path, weights, dtype
):
    file = write(tmp_path / "style.safetensors", "blocks.0.attn1.to_q", 32)
    pipeline = reopened(folder, dtype)
    inputs = encode(pipeline, recipe)
    recipe = recipe.but(weights=weights)

    def frames(*loras, **changes):
        asked = recipe.but(loras=loras, **changes)
        pipeline.plan(asked)
        return pipeline.generate(asked, inputs, 0, None, seeded(1)).frames.astype(int)

    plain, styled = frames(), frames(Lora(file))
    assert (styled != plain).any()
    assert (frames(Lora(file, 0.0)) == plain).all()
    assert np.abs(styled - frames(Lora(file), weights="full")).mean() < 10


def test_a_gguf_file_is_what_is_held(folder, recipe):
    import torch

    pipeline = reopened(folder)
    pipeline.load_denoiser(recipe)
    held = pipeline.components["transformer"].state_dict()
    assert held["blocks.0.attn1.to_q.weight"].dtype == torch.uint8
    assert pipeline.segment_inputs(recipe)["gguf"]


@pytest.mark.parametrize("weights", sorted({"int8"} & set(ON_A_CPU)) or ["full"])
def test_weights_that_lack_a_tensor_are_refused(folder, recipe, weights):
    from safetensors.torch import load_file, save_file

    file = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    tensors = load_file(file)
    del tensors["blocks.1.attn1.to_q.weight"]
    save_file(tensors, file)
    with pytest.raises(BadInput, match="weights"):
        reopened(folder).load_denoiser(recipe.but(weights=weights))


def test_a_gguf_file_counts_in_the_keys_where_it_is_used_and_nowhere_else(folder, recipe):
    pipeline = reopened(folder)
    (file,) = (folder / "transformer").glob("*.gguf")
    full, gguf = (pipeline.segment_inputs(recipe.but(weights=w)) for w in ("full", "gguf"))
    assert set(gguf["transformer"]) == {"config.json", file.name}
    file.unlink()
    assert pipeline.segment_inputs(recipe.but(weights="full")) == full
    assert set(full["transformer"]) == {"config.json", "diffusion_pytorch_model.safetensors"}


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda whole: whole[:-5000], "tiny-Q8_0.gguf"),
        (lambda whole: b"", "tiny-Q8_0.gguf"),
        (lambda whole: whole.replace(b"blocks.1.", b"blocks.7."), "has not all of its weights"),
    ],
)
def test_a_gguf_file_that_does_not_fit_is_refused_in_words(folder, recipe, damage, words):
    (file,) = (folder / "transformer").glob("*.gguf")
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(BadInput, match=words):
        reopened(folder).load_denoiser(recipe)

"""LoRA files: checked before anything is loaded, applied with their strengths, told in the keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Lora, encode, seeded

from pipelines.errors import BadInput
from pipelines.wan import Wan
from tests.fixtures import tiny_wan
from tests.fixtures.once import once

LAYER = {"wan21_t2v": "blocks.0.attn1.to_q", "qwen_image": "transformer_blocks.0.attn.to_q"}
WIDTH = {"wan21_t2v": 24, "qwen_image": 32}


def write(path, layer, width, seed=0, prefix="transformer.", rank=2):
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(seed)
    save_file(
        {
            f"{prefix}{layer}.lora_A.weight": torch.randn(rank, width, generator=generator),
            f"{prefix}{layer}.lora_B.weight": torch.randn(width, rank, generator=generator),
        },
        path,
    )
    return str(path)


@pytest.fixture(params=LAYER)
def kind(request):
    return request.param


@pytest.fixture
def opened(kind, opened):
    return opened(kind)


@pytest.fixture
def recipe(kind, recipe):
    frames = 5 if kind.startswith("wan") else 1
    return recipe.but(segments=1, overlap=0, frames=frames, width=32, height=32, steps=2)


@pytest.fixture
def file(kind, tmp_path):
    return write(tmp_path / "style.safetensors", LAYER[kind], WIDTH[kind])


def test_strength_says_how_much_of_it_counts(opened, recipe, file):
    inputs = encode(opened, recipe)

    def frames(*loras):
        return opened.generate(recipe.but(loras=loras), inputs, 0, None, seeded(1)).frames

    plain = frames()
    assert (frames(Lora(file, 0.0)) == plain).all()
    whole = frames(Lora(file))
    assert (whole != plain).any()
    assert (frames(Lora(file, 0.5)) != whole).any()
    assert (frames() == plain).all()


def test_several_count_together(opened, recipe, file, kind, tmp_path):
    inputs = encode(opened, recipe)
    other = write(tmp_path / "other.safetensors", LAYER[kind], WIDTH[kind], seed=1)

    def frames(*loras):
        return opened.generate(recipe.but(loras=loras), inputs, 0, None, seeded(1)).frames

    both = frames(Lora(file), Lora(other))
    assert (both != frames(Lora(file))).any() and (both != frames(Lora(other))).any()
    assert (frames(Lora(file), Lora(other, 0.0)) == frames(Lora(file))).all()


def test_keys_have_the_content_and_the_strength(opened, recipe, file):
    fields = opened.segment_inputs(recipe.but(loras=(Lora(file, 0.5),)))
    assert fields["loras"] == [{"file": Path(file), "strength": 0.5, "part": "both"}]
    assert fields["peft"]
    assert "loras" not in opened.segment_inputs(recipe)
    parts = [opened.encoder_inputs(recipe.but(loras=some)) for some in ((), (Lora(file),))]
    assert parts[0] == parts[1]


def test_a_file_of_a_hub_repository_is_found_in_its_cache_and_hashed_by_content(
    opened, recipe, file, tmp_path, monkeypatch
):
    snapshot = tmp_path / "models--someone--styles" / "snapshots" / "abc123"
    (snapshot / "v2").mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("abc123")
    placed = Path(file).rename(snapshot / "v2" / "ink.safetensors")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    named = recipe.but(loras=(Lora("someone/styles/v2/ink.safetensors", 0.5),))
    opened.plan(named)
    assert opened.segment_inputs(named)["loras"][0]["file"] == placed
    inputs = encode(opened, recipe)
    frames = [opened.generate(one, inputs, 0, None, seeded(1)).frames for one in (named, recipe)]
    assert (frames[0] != frames[1]).any()


def test_one_that_does_not_fit_is_refused_before_a_weight_is_read(
    opened, recipe, kind, tmp_path, file
):
    layer, width = LAYER[kind], WIDTH[kind]
    other_layer = layer.replace(".0.", ".7.")
    (tmp_path / "notes.safetensors").write_text("not a LoRA at all, only some words")
    for path, words in (
        (write(tmp_path / "a.safetensors", layer, width + 8), rf"{layer}.lora_A.*\[2, {width + 8}"),
        (write(tmp_path / "b.safetensors", other_layer, width), "a layer that it does not have"),
        (str(tmp_path / "notes.safetensors"), "is cut short|is not a safetensors file"),
        (str(tmp_path / "gone.safetensors"), "no such file"),
        ("someone/styles/ink.safetensors", "hf download someone/styles ink.safetensors"),
    ):
        with pytest.raises(BadInput, match=words) as refusal:
            opened.plan(recipe.but(loras=(Lora(file), Lora(path))))
        assert (refusal.value.field, refusal.value.value) == ("loras", path)
    assert opened.loaded == frozenset()
    with pytest.raises(BadInput, match="one transformer"):
        opened.plan(recipe.but(loras=(Lora(file, part="low"),)))
    opened.plan(recipe.but(loras=(Lora(file),)))


def test_fp8_weights_take_a_lora_too(opened, recipe, file):
    inputs = encode(opened, recipe)
    recipe = recipe.but(weights="fp8")
    plain = opened.generate(recipe, inputs, 0, None, seeded(1)).frames
    styled = opened.generate(recipe.but(loras=(Lora(file),)), inputs, 0, None, seeded(1)).frames
    assert (styled != plain).any()


def test_both_transformers_of_wan22_get_it_and_other_trainers_names_are_known(
    tmp_path, tmp_path_factory, recipe, one_thread
):
    folder = once(tmp_path_factory, "wan22_t2v", lambda f: tiny_wan.build("wan22_t2v", f))
    pipeline = Wan.open(folder, "float32", "cpu")
    recipe = recipe.but(frames=5, steps=4)
    path = write(
        tmp_path / "original.safetensors", "blocks.0.self_attn.q", 24, prefix="diffusion_model."
    )
    inputs = encode(pipeline, recipe)
    styled = recipe.but(loras=(Lora(path),))
    pipeline.plan(styled)
    pipeline.generate(styled, inputs, 0, None, seeded(1))
    for name in ("transformer", "transformer_2"):
        assert pipeline.components[name].peft_config
    for part, name, other in (
        ("high", "transformer", "transformer_2"),
        ("low", "transformer_2", "transformer"),
    ):
        one = recipe.but(loras=(Lora(path, part=part),))
        pipeline.plan(one)
        pipeline.generate(one, inputs, 0, None, seeded(1))
        assert pipeline.components[name].peft_config
        assert not hasattr(pipeline.components[other], "peft_config")

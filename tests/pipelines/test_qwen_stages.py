"""Qwen-Image in stages: what is in memory when, what is made again, what its encoder is told."""

from __future__ import annotations

import shutil

import pytest
import torch
from conftest import encode, seeded

from pipelines.base import joined
from pipelines.errors import BadInput
from pipelines.one_piece import watch
from pipelines.qwen_image import QwenImage
from tests.fixtures import tiny_qwen
from tests.fixtures.once import once

pytestmark = pytest.mark.usefixtures("small_pictures")


@pytest.fixture
def opened(tmp_path_factory, one_thread):
    def make(kind):
        folder = once(tmp_path_factory, kind, lambda folder: tiny_qwen.build(kind, folder))
        return QwenImage.open(folder, "float32", "cpu")

    return make


@pytest.fixture
def recipe(recipe, picture, last_picture):
    return recipe.but(
        segments=1,
        overlap=0,
        frames=1,
        width=48,
        height=32,
        image=picture,
        references=(last_picture,),
    )


def test_encoders_and_transformer_are_never_in_memory_together(opened, recipe):
    pipeline = opened("qwen_edit_plus")
    parts = pipeline.encoder_inputs(recipe)
    assert set(parts) == {"prompt", "negative_prompt", "image", "reference_1"}
    inputs = joined(pipeline.encode(recipe, parts))
    assert pipeline.loaded == {"tokenizer", "text_encoder", "processor", "vae_encoder"}
    pipeline.generate(recipe, inputs, 0, None, seeded(1))
    assert pipeline.loaded == {"transformer", "scheduler", "vae"}
    pipeline.load_encoders(["image"])
    assert pipeline.loaded == {"vae_encoder"}


def test_from_stored_parts_no_encoder_is_loaded_and_no_file_of_one_is_read(
    opened, recipe, picture, last_picture, tmp_path
):
    whole = opened("qwen_edit_plus")
    inputs = encode(whole, recipe)
    expected = whole.generate(recipe, inputs, 0, None, seeded(1)).frames
    folder = shutil.copytree(whole.checkpoint.folder, tmp_path / "without")
    for name in ("tokenizer", "text_encoder", "processor"):
        shutil.rmtree(folder / name)
    picture.unlink()
    last_picture.unlink()
    pipeline = QwenImage.open(folder, "float32", "cpu")
    pictures = []

    def on_step(step):
        assert pipeline.loaded == {"transformer", "scheduler", "vae"}
        pictures.append(step.preview())

    for _ in range(2):
        frames = pipeline.generate(recipe, inputs, 0, None, seeded(1), on_step).frames
        assert (frames == expected).all()
    names = [name for name, _ in pipeline.components["vae"].named_parameters()]
    assert names and all(name.startswith(("decoder.", "post_quant_conv.")) for name in names)
    assert pictures[:3] == [None] * 3
    assert [picture.shape for picture in pictures[3:]] == [(4, 6, 3)] * 3


def test_each_part_is_encoded_by_itself_and_to_the_same_bits(opened, recipe):
    pipeline = opened("qwen_edit_plus")
    parts = list(pipeline.encoder_inputs(recipe))
    together = pipeline.encode(recipe, parts)
    for part in parts:
        alone = pipeline.encode(recipe, [part])
        assert alone.keys() == {part}
        for name, tensor in alone[part].items():
            assert torch.equal(tensor, together[part][name])


def test_a_change_counts_for_the_parts_that_depend_on_it(opened, recipe, picture, last_picture):
    pipeline = opened("qwen_edit_plus")

    def changed(**changes):
        before, after = (pipeline.encoder_inputs(one) for one in (recipe, recipe.but(**changes)))
        return {part for part in before if before[part] != after[part]}

    both = {"prompt", "negative_prompt"}
    assert changed(prompt="a dog") == {"prompt"}
    assert changed(negative_prompt="dull") == {"negative_prompt"}
    assert changed(width=64, steps=9, guidance_scale=2.0) == set()
    # A model that edits reads its prompts together with its pictures.
    assert changed(references=(picture,)) == {*both, "reference_1"}
    assert changed(image=last_picture) == {*both, "image"}
    assert opened("qwen_edit").encoder_inputs(recipe)["prompt"]["mrope"]


def test_the_text_encoder_is_told_where_pictures_are(opened, recipe, monkeypatch):
    """diffusers leaves it out, and transformers then reads pictures as lines of text."""
    from contextlib import nullcontext

    from pipelines.qwen_image import seams

    pipeline = opened("qwen_edit_plus")
    told = pipeline.encode(recipe, ["prompt"])["prompt"]["embeds"]
    monkeypatch.setattr(seams, "tell_positions", nullcontext)
    untold = pipeline.encode(recipe, ["prompt"])["prompt"]["embeds"]
    assert told.shape == untold.shape and not torch.equal(told, untold)

    text_encoder, processor = (pipeline.components[n] for n in ("text_encoder", "processor"))
    from pipelines.images import read_whole_image
    from pipelines.qwen_image.encoder import tell_positions

    words = "<|vision_start|><|image_pad|><|vision_end|>a cat"
    seen = processor(text=[words], images=[read_whole_image(recipe.image)], return_tensors="pt")
    ids = seen.pop("mm_token_type_ids")
    with torch.no_grad(), tell_positions(text_encoder):
        ours = text_encoder(**seen).logits
    with torch.no_grad():
        theirs = text_encoder(**seen, mm_token_type_ids=ids).logits
    assert torch.equal(ours, theirs)


def test_what_does_not_fit_is_refused_by_name_with_the_nearest(opened, recipe, tmp_path):
    def refused(kind, field, words, **changes):
        with pytest.raises(BadInput, match=words) as refusal:
            opened(kind).plan(recipe.but(**changes))
        assert refusal.value.field == field

    plus, alone = "qwen_edit_plus", {"image": None, "references": ()}
    refused(plus, "segments", "one piece", segments=2)
    refused(plus, "frames", "single picture", frames=5)
    refused(plus, "width", "multiple of 16.* 32 and 48", width=40)
    refused(plus, "image", "give one", image=None)
    refused("qwen_image", "image", "Edit model", references=())
    refused("qwen_edit", "references", "2509 or 2511")
    refused(plus, "references", "no such file", references=(tmp_path / "gone.png",))
    assert opened(plus).plan(recipe).chain.total == 1
    assert opened("qwen_image").plan(recipe.but(**alone)).steps == (3,)


class Enough(Exception):
    pass


def test_a_cancel_ends_a_step_in_its_middle_and_leaves_nothing_behind(opened, recipe, monkeypatch):
    monkeypatch.setattr(watch, "BETWEEN", 0.0)
    pipeline = opened("qwen_image")
    recipe = recipe.but(image=None, references=())
    inputs = encode(pipeline, recipe)
    expected = pipeline.generate(recipe, inputs, 0, None, seeded(1)).frames
    seen = []

    def cancel(step):
        seen.append(step.step)
        if seen.count(1) == 2:
            raise Enough

    with pytest.raises(Enough):
        pipeline.generate(recipe, inputs, 0, None, seeded(1), cancel)
    assert seen[-2:] == [1, 1] and 2 not in seen
    transformer = pipeline.components["transformer"]
    assert not any(m._forward_pre_hooks for m in transformer.modules())
    assert (pipeline.generate(recipe, inputs, 0, None, seeded(1)).frames == expected).all()


def test_a_folder_is_known_by_its_kind(opened):
    from pipelines.catalogue import find, size_multiple

    found = {kind: find(str(opened(kind).checkpoint.folder)) for kind in tiny_qwen.KINDS}
    assert [model.tasks for model in found.values()] == [("T2I",), ("I2I",), ("I2I",)]
    assert {model.family for model in found.values()} == {"qwen_image"}
    assert "references" in found["qwen_edit_plus"].capabilities.extras
    assert size_multiple(found["qwen_edit"]) == {"width": 16, "height": 16}

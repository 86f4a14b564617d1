"""Qwen-Image in stages: what is in memory when, what is made again, what its encoder is told."""

from __future__ import annotations

import pytest
import torch
from conftest import (
    assert_can_be_cancelled_in_a_step,
    assert_encodes_each_part_alone,
    assert_holds_no_encoder,
    encode,
    seeded,
    without_encoders,
)

from pipelines.base import joined
from tests.fixtures import tiny_qwen

pytestmark = pytest.mark.usefixtures("small_pictures")


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
    pipeline = without_encoders(whole, tmp_path / "without")
    picture.unlink()
    last_picture.unlink()
    pictures = []

    def on_step(step):
        assert_holds_no_encoder(pipeline)
        pictures.append(step.preview())

    for _ in range(2):
        frames = pipeline.generate(recipe, inputs, 0, None, seeded(1), on_step).frames
        assert (frames == expected).all()
    assert pictures[:3] == [None] * 3
    assert [picture.shape for picture in pictures[3:]] == [(4, 6, 3)] * 3


def test_each_part_is_encoded_by_itself_and_to_the_same_bits(opened, recipe):
    assert_encodes_each_part_alone(opened("qwen_edit_plus"), recipe)


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


def test_what_does_not_fit_is_refused_by_name_with_the_nearest(opened, refused, recipe, tmp_path):
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


def test_a_cancel_ends_a_step_in_its_middle_and_leaves_nothing_behind(opened, recipe, monkeypatch):
    recipe = recipe.but(image=None, references=())
    assert_can_be_cancelled_in_a_step(opened("qwen_image"), recipe, monkeypatch)


def test_a_folder_is_known_by_its_kind(opened):
    from pipelines.catalogue import find, size_multiple

    found = {kind: find(str(opened(kind).checkpoint.folder)) for kind in tiny_qwen.KINDS}
    assert [model.tasks for model in found.values()] == [("T2I",), ("I2I",), ("I2I",)]
    assert {model.family for model in found.values()} == {"qwen_image"}
    assert "references" in found["qwen_edit_plus"].capabilities.extras
    assert size_multiple(found["qwen_edit"]) == {"width": 16, "height": 16}

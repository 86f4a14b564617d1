"""Wan in stages: what is in memory when, what is computed again, how it ends early."""

from __future__ import annotations

import shutil

import pytest
import torch
from conftest import (
    assert_can_be_cancelled_in_a_step,
    assert_encodes_each_part_alone,
    assert_holds_no_encoder,
    encode,
    reopened,
    seeded,
    without_encoders,
)

from pipelines.base import joined
from tests.fixtures import tiny_wan

ENCODERS = {"tokenizer", "text_encoder", "image_encoder", "image_processor", "vae_encoder"}


@pytest.fixture
def recipe(recipe, picture):
    return recipe.but(
        segments=1, overlap=0, frames=9, width=32, height=32, shift=3.0, image=picture
    )


def test_encoders_and_transformer_are_never_in_memory_together(opened, recipe):
    pipeline = opened("wan21_i2v")
    parts = pipeline.encoder_inputs(recipe)
    assert set(parts) == {"prompt", "negative_prompt", "image", "condition"}
    inputs = joined(pipeline.encode(recipe, parts))
    assert pipeline.loaded == ENCODERS
    pipeline.generate(recipe, inputs, 0, None, seeded(1))
    assert pipeline.loaded == {"transformer", "scheduler", "vae"}
    pipeline.load_encoders(["prompt"])
    assert pipeline.loaded == {"tokenizer", "text_encoder"}


def test_from_stored_parts_no_encoder_is_loaded_and_no_file_of_one_is_read(
    opened, recipe, picture, tmp_path
):
    whole = opened("wan21_i2v")
    inputs = encode(whole, recipe)
    pipeline = without_encoders(whole, tmp_path / "without")
    picture.unlink()
    steps = []

    def on_step(step):
        steps.append(step.step)
        assert_holds_no_encoder(pipeline)

    pipeline.generate(recipe, inputs, 0, None, seeded(1), on_step)
    assert steps == [1, 2, 3]
    assert all(p.device.type == "cpu" for p in pipeline.components["vae"].parameters())


def test_each_part_is_encoded_by_itself_and_to_the_same_bits(opened, recipe, last_picture):
    pipeline = opened("wan21_flf2v")
    recipe = recipe.but(last_image=last_picture)
    parts = list(pipeline.encoder_inputs(recipe))
    assert parts == ["prompt", "negative_prompt", "image", "last_image", "condition"]
    assert_encodes_each_part_alone(pipeline, recipe)


def test_a_processor_of_pictures_and_words_is_as_good_as_one_of_pictures(
    checkpoint_of, opened, recipe, tmp_path
):
    folder = shutil.copytree(checkpoint_of("wan21_i2v"), tmp_path / "wan")
    index = folder / "model_index.json"
    index.write_text(index.read_text().replace("CLIPImageProcessor", "CLIPProcessor"))
    seen = [one.encode(recipe, ["image"]) for one in (opened("wan21_i2v"), reopened(folder))]
    assert torch.equal(seen[0]["image"]["embeds"], seen[1]["image"]["embeds"])


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"prompt": "a dog"}, {"prompt"}),
        ({"negative_prompt": "dull"}, {"negative_prompt"}),
        ({"width": 48}, {"image", "condition"}),
        ({"frames": 13}, {"condition"}),
        ({"steps": 9, "guidance_scale": 7.0, "shift": 2.0, "fps": 8}, set()),
    ],
)
def test_a_change_counts_for_the_parts_that_depend_on_it(opened, recipe, change, parts):
    pipeline = opened("wan21_i2v")
    before, after = (pipeline.encoder_inputs(one) for one in (recipe, recipe.but(**change)))
    assert {part for part in before if before[part] != after[part]} == parts


def test_both_prompts_go_by_one_key(opened, recipe):
    parts = opened("wan22_t2v").encoder_inputs(
        recipe.but(image=None, prompt=" a  cat ", negative_prompt="a cat")
    )
    assert parts["prompt"] == parts["negative_prompt"]


def test_what_does_not_fit_is_refused_by_name_with_the_nearest(
    opened, refused, recipe, last_picture
):
    refused("wan21_i2v", "segments", "one piece", segments=2)
    refused("wan21_i2v", "overlap", "use 0", overlap=5)
    refused("wan21_i2v", "frames", "the nearest: 9 and 13", frames=10)
    refused("wan21_i2v", "width", "multiple of 16.* 32 and 48", width=40)
    refused("wan22_ti2v", "height", "multiple of 32.* 32 and 64", height=48)
    refused("wan21_i2v", "image", "give one", image=None)
    refused("wan21_t2v", "image", "takes no picture")
    refused("wan21_i2v", "last_image", "FLF2V", last_image=last_picture)
    refused("wan22_t2v", "guidance_scale_2", "is guided", guidance_scale=1, guidance_scale_2=3)
    refused("wan21_flf2v", "last_image", "between two pictures", last_image=None)
    refused("wan21_flf2v", "frames", "least is 5", last_image=last_picture, frames=1)
    refused("wan21_i2v", "guidance_scale_2", "one transformer", guidance_scale_2=2.0)
    refused("wan21_i2v", "offload", "no GPU", offload="model")
    refused("wan21_i2v", "weights", "GGUF|gguf", weights="gguf")
    assert opened("wan21_i2v").plan(recipe).steps == (3,)


def test_a_cancel_ends_a_step_in_its_middle_and_leaves_nothing_behind(opened, recipe, monkeypatch):
    assert_can_be_cancelled_in_a_step(opened("wan21_i2v"), recipe, monkeypatch)


def test_two_transformers_share_the_steps_at_the_boundary(opened, recipe):
    pipeline = opened("wan22_t2v")
    recipe = recipe.but(image=None, steps=4, guidance_scale_2=1.5)
    inputs = encode(pipeline, recipe)
    pipeline.load_denoiser(recipe)
    calls = {name: [] for name in pipeline.transformers}
    handles = [
        pipeline.components[name].register_forward_pre_hook(
            lambda _, args, kwargs, name=name: calls[name].append(float(kwargs["timestep"][0])),
            with_kwargs=True,
        )
        for name in calls
    ]
    output = pipeline.generate(recipe, inputs, 0, None, seeded(1))
    for handle in handles:
        handle.remove()
    assert calls["transformer"] and calls["transformer_2"]
    assert min(calls["transformer"]) >= 875 > max(calls["transformer_2"])
    assert output.forwards == 8
    other = pipeline.generate(recipe.but(guidance_scale_2=6.0), inputs, 0, None, seeded(1))
    assert (other.frames != output.frames).any()
    keys = [pipeline.segment_inputs(recipe.but(guidance_scale_2=g)) for g in (1.5, 6.0, None)]
    assert keys[0] != keys[1] and keys[2]["guidance_scale_2"] == recipe.guidance_scale


def test_a_preview_shows_the_clean_estimate_once_something_was_decoded(opened, recipe):
    pipeline = opened("wan21_i2v")
    inputs = encode(pipeline, recipe)
    pictures = []
    for _ in range(2):
        pipeline.generate(
            recipe, inputs, 0, None, seeded(1), lambda step: pictures.append(step.preview())
        )
    assert pictures[:3] == [None] * 3
    assert {picture.shape for picture in pictures[3:]} == {(4, 4, 3)}


def test_a_folder_is_known_by_its_kind(opened):
    from pipelines.catalogue import find

    tasks = {kind: find(str(opened(kind).checkpoint.folder)).tasks for kind in tiny_wan.KINDS}
    assert tasks["wan21_t2v"] == ("T2V",) and tasks["wan22_ti2v"] == ("T2V", "I2V")
    assert tasks["wan21_flf2v"] == ("I2V",)
    model = find(str(opened("wan22_i2v").checkpoint.folder))
    assert model.family == "wan" and model.defaults["guidance_scale_2"] == 3.5
    assert {"last_image", "guidance_scale_2", "loras"} <= set(model.capabilities.extras)

"""Qwen-Image from stored encoder outputs against the plain call of diffusers: no difference."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from conftest import assert_replay_equals, seeded

from pipelines.images import read_whole_image
from tests.fixtures import tiny_qwen

DTYPES = ("float32", "bfloat16")


pytestmark = pytest.mark.usefixtures("small_pictures")


@pytest.fixture(params=tiny_qwen.KINDS)
def kind(request):
    return request.param


def recipe_of(kind, recipe, picture, last_picture):
    recipe = recipe.but(segments=1, overlap=0, frames=1, fps=1, width=48, height=32, steps=2)
    if kind == "qwen_edit":
        return recipe.but(image=picture)
    if kind == "qwen_edit_plus":
        return recipe.but(image=picture, references=(last_picture,))
    return recipe


def plain(folder, recipe, dtype):
    """Pixels by seed, of diffusers' own pipeline, loaded and called as its documentation says."""
    import diffusers

    from pipelines.qwen_image.encoder import load_processor, tell_positions

    kind = diffusers.DiffusionPipeline.load_config(folder)["_class_name"]
    edits = "Edit" in kind
    more = {"processor": load_processor(folder / "processor")} if edits else {}
    pipe = getattr(diffusers, kind).from_pretrained(
        folder, torch_dtype=getattr(torch, dtype), **more
    )
    pipe.set_progress_bar_config(disable=True)

    def call(seed):
        pictures = {}
        if recipe.image is not None:
            given = [read_whole_image(p) for p in (recipe.image, *recipe.references)]
            pictures = {"image": given if "Plus" in kind else given[0]}
        with tell_positions(pipe.text_encoder) if edits else nullcontext():
            return pipe(
                prompt=recipe.prompt,
                negative_prompt=recipe.negative_prompt,
                width=recipe.width,
                height=recipe.height,
                num_inference_steps=recipe.steps,
                true_cfg_scale=recipe.guidance_scale,
                generator=seeded(seed),
                output_type="np",
                **pictures,
            ).images

    return call


@pytest.mark.parametrize("dtype", DTYPES)
def test_replay_equals_the_plain_call(
    kind, checkpoint_of, recipe, picture, last_picture, dtype, one_thread
):
    recipe = recipe_of(kind, recipe, picture, last_picture)
    assert_replay_equals(plain, checkpoint_of(kind), recipe, dtype)

"""Wan from stored encoder outputs against the plain call of diffusers: no difference at all."""

from __future__ import annotations

import pytest
import torch
from conftest import assert_replay_equals, seeded

from pipelines.images import read_image
from tests.fixtures import tiny_wan

DTYPES = ("float32", "bfloat16")


@pytest.fixture(params=tiny_wan.KINDS)
def kind(request):
    return request.param


def recipes(kind, recipe, picture, last_picture):
    """The recipes that a checkpoint of this kind can make."""
    recipe = recipe.but(segments=1, overlap=0, frames=9, width=32, height=32, shift=3.0)
    if "22" in kind and kind != "wan22_ti2v":
        recipe = recipe.but(guidance_scale_2=2.0, steps=4)
    if kind in ("wan21_t2v", "wan22_t2v"):
        return [recipe]
    first = recipe.but(image=picture)
    return {
        "wan21_flf2v": [first.but(last_image=last_picture)],
        "wan22_ti2v": [recipe, first],
        "wan22_i2v": [first, first.but(last_image=last_picture)],
    }.get(kind, [first])


def plain(folder, recipe, dtype):
    """Frames by seed, of diffusers' own pipeline, loaded and called as its documentation says."""
    from diffusers import WanImageToVideoPipeline, WanPipeline

    kind = WanPipeline if recipe.image is None else WanImageToVideoPipeline
    dtypes = {"default": getattr(torch, dtype), "vae": torch.float32}
    if kind is WanImageToVideoPipeline:
        dtypes["image_encoder"] = torch.float32
    pipe = kind.from_pretrained(folder, torch_dtype=dtypes)
    pipe.set_progress_bar_config(disable=True)
    config = pipe.scheduler.config
    pipe.scheduler = type(pipe.scheduler).from_config(config, flow_shift=recipe.shift)
    size = (recipe.width, recipe.height)
    pictures = {
        name: read_image(path, *size)
        for name in ("image", "last_image")
        if (path := getattr(recipe, name)) is not None
    }
    return lambda seed: pipe(
        prompt=recipe.prompt,
        negative_prompt=recipe.negative_prompt,
        width=recipe.width,
        height=recipe.height,
        num_frames=recipe.frames,
        num_inference_steps=recipe.steps,
        guidance_scale=recipe.guidance_scale,
        guidance_scale_2=recipe.guidance_scale_2,
        generator=seeded(seed),
        **pictures,
    ).frames[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_replay_equals_the_plain_call(
    kind, checkpoint_of, recipe, picture, last_picture, dtype, one_thread
):
    for one in recipes(kind, recipe, picture, last_picture):
        assert_replay_equals(plain, checkpoint_of(kind), one, dtype)

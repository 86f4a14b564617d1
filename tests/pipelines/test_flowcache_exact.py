"""FlowCache's mode `exact` is the plain pipeline: not a bit of difference in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import chain

from pipelines.flowcache import FlowCacheConfig, disable_flowcache, enable_flowcache
from pipelines.skyreels_v2 import SkyReelsV2
from studio.flops import FlopCount

BLOCKS = {"frames": 21, "causal_block": 2}
TWO = {"frames": 13, "causal_block": 2}
STAGGERED = {**BLOCKS, "ar_step": 2}
ONE_BY_ONE = {**BLOCKS, "ar_step": 3}
LONG = {"frames": 37, "causal_block": 2, "ar_step": 2, "segments": 1}
NOISY = {**STAGGERED, "condition_noise": 20}
BIDIRECTIONAL = {"frames": 21}
EXACT = FlowCacheConfig("exact")


@pytest.fixture(scope="module")
def double(tiny, one_thread):
    """A pipeline of its own whose transformer computes in double precision."""
    pipeline = SkyReelsV2.open(tiny, device="cpu")
    pipeline.load_denoiser()
    pipeline.components["transformer"].double()
    return pipeline


def run(pipeline, recipe, config=None, on_step=None):
    """Every segment of a recipe, with FlowCache if there is a config."""
    if config is None:
        disable_flowcache(pipeline)
        return chain(pipeline, recipe, on_step=on_step)
    enable_flowcache(pipeline, config)
    try:
        return chain(pipeline, recipe, on_step=on_step)
    finally:
        disable_flowcache(pipeline)


def difference(a, b) -> float:
    """max|d| of what segments leave behind."""
    return max(
        (x.boundary["latents"] - y.boundary["latents"]).abs().max().item()
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("guidance_scale", [1.0, 3.0])
@pytest.mark.parametrize(
    "mode", [BLOCKS, STAGGERED, ONE_BY_ONE, LONG, NOISY, BIDIRECTIONAL], ids=str
)
def test_exact_is_the_plain_pipeline(double, recipe, mode, guidance_scale):
    recipe = recipe.but(guidance_scale=guidance_scale, **mode)
    plain, exact = run(double, recipe), run(double, recipe, EXACT)
    assert difference(plain, exact) == 0.0
    assert all(output.skip_map.exact for output in exact)
    assert all(output.skip_map is None for output in plain)


@pytest.mark.parametrize("condition_noise", [0, 20])
def test_exact_is_the_plain_pipeline_from_a_picture(double, recipe, picture, condition_noise):
    recipe = recipe.but(image=picture, frames=21, condition_noise=condition_noise)
    plain, exact = run(double, recipe), run(double, recipe, EXACT)
    assert difference(plain, exact) == 0.0
    assert all(output.skip_map.exact for output in exact)


@pytest.mark.parametrize("mode", [BLOCKS, STAGGERED], ids=str)
def test_in_single_precision_it_differs_by_rounding(pipeline, recipe, mode):
    recipe = recipe.but(**mode)
    assert difference(run(pipeline, recipe), run(pipeline, recipe, EXACT)) < 2e-5


@pytest.mark.parametrize(("ar_step", "double"), [(0, False), (2, True)])
def test_the_starter_makes_the_same_video(one_thread, recipe, ar_step, double):
    from pipelines.catalogue import find, open_pipeline

    starter = find("starter")
    pipeline = open_pipeline(starter, device="cpu")
    settings = {"segments": 2, "steps": 3, "ar_step": ar_step}
    recipe = recipe.but(prompt="a red boat at sunset", **{**starter.defaults, **settings})
    if double:
        pipeline.load_denoiser()
        pipeline.components["transformer"].double()
    plain, exact = run(pipeline, recipe), run(pipeline, recipe, EXACT)
    assert difference(plain, exact) <= (0.0 if double else 1e-4)
    for a, b in zip(plain, exact, strict=True):
        assert np.abs(a.frames.astype(int) - b.frames).max() <= (0 if double else 1)


def test_a_chunk_runs_while_it_moves_and_once_more_when_it_is_clean(pipeline, recipe):
    outputs = run(pipeline, recipe.but(**STAGGERED), EXACT)
    assert outputs[0].skip_map.lines() == ["###k...", "..###k.", "....###"]
    # The first chunk of the second segment is given.
    assert outputs[1].skip_map.lines() == ["k....", "###k.", "..###"]
    assert outputs[0].skip_map.passes == 2 * 11
    assert outputs[0].skip_map.plain_passes == 2 * 21
    assert outputs[0].forwards == 14
    assert outputs[0].forwards_skipped == 0


def test_noise_on_the_given_frames_makes_all_that_look_at_them_run_in_every_step(pipeline, recipe):
    second = run(pipeline, recipe.but(**NOISY), EXACT)[1]
    assert second.skip_map.lines() == ["kkkkk", "###kk", "..###"]


def test_without_causal_blocks_exact_runs_everything_and_says_so(pipeline, recipe):
    outputs = run(pipeline, recipe, EXACT)
    assert all(o.skip_map.passes == o.skip_map.plain_passes for o in outputs)


def test_no_mask_is_built_and_the_block_size_is_put_back(pipeline, recipe):
    transformer = pipeline.components["transformer"]
    transformer._set_ar_attention(7)
    masks = []
    hooks = [
        block.register_forward_pre_hook(lambda _, args: masks.append(args[4]))
        for block in transformer.blocks
    ]
    run(pipeline, recipe.but(segments=1, **STAGGERED), EXACT)
    for hook in hooks:
        hook.remove()
    assert masks and not any(isinstance(mask, torch.Tensor) for mask in masks)
    assert transformer.config.num_frame_per_block == 7


@pytest.mark.parametrize("mode", [TWO, BLOCKS, STAGGERED, LONG, NOISY], ids=str)
def test_it_takes_fewer_operations_than_the_plain_pipeline(pipeline, recipe, mode):
    recipe = recipe.but(**mode)
    taken = []
    for config in (None, EXACT):
        with FlopCount() as counted:
            run(pipeline, recipe, config)
        taken.append(counted.total)
    plain, exact = taken
    assert exact < plain

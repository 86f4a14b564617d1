"""What a recipe comes to, and what is refused with the nearest that fits. No weights involved."""

from __future__ import annotations

import re

import pytest

from pipelines.errors import BadInput
from pipelines.skyreels_v2 import SkyReelsV2


@pytest.fixture(scope="module")
def opened(tiny):
    return SkyReelsV2.open(tiny, device="cpu")


BLOCKS = {"causal_block": 3, "frames": 33, "overlap": 9}

REFUSED = [
    ({"width": 30}, "width", "multiple of 16; the nearest: 16 and 32"),
    ({"height": 0}, "height", "multiple of 16; the nearest: 16."),
    ({"width": 1000}, "width", "at most 512; the nearest: 512"),
    ({"frames": 18}, "frames", "1 more than a multiple of 4; the nearest: 17 and 21"),
    ({"frames": 0}, "frames", "the nearest: 1."),
    ({"frames": 500}, "frames", "at most 125; the nearest: 125"),
    (BLOCKS | {"frames": 29}, "frames", "must be 9, 21, 33…; the nearest: 21 and 33"),
    (BLOCKS | {"overlap": 13}, "overlap", "the nearest: 9 and 21"),
    ({"overlap": 4}, "overlap", "the nearest: 1 and 5"),
    ({"overlap": 0}, "overlap", "the nearest: 1"),
    ({"overlap": -3}, "overlap", "the nearest: 1"),
    ({"overlap": 17}, "overlap", "less than frames (13); the nearest is 9"),
    (BLOCKS | {"frames": 9}, "overlap", "less than frames (9): use more frames"),
    ({"segments": 0}, "segments", "The least is 1"),
    ({"steps": 0}, "steps", "The least is 1"),
    ({"steps": 1001}, "steps", "The most is 1000"),
    ({"fps": 0}, "fps", "The least is 1"),
    ({"causal_block": 0}, "causal_block", "The least is 1"),
    ({"ar_step": -1}, "ar_step", "The least is 0"),
    ({"ar_step": 2}, "ar_step", "needs causal_block > 1; use 0"),
    (BLOCKS | {"ar_step": 4}, "ar_step", "At 3 steps it is at most 3"),
    ({"condition_noise": 61}, "condition_noise", "The most is 60"),
    ({"guidance_scale": float("nan")}, "guidance_scale", "positive"),
    ({"shift": 0.0}, "shift", "positive"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "field", "fix"), REFUSED, ids=lambda v: str(v)[:40])
def test_what_does_not_fit_is_refused_with_the_nearest_that_does(
    opened, recipe, changes, field, fix
):
    with pytest.raises(BadInput, match=re.escape(fix)) as refusal:
        opened.plan(recipe.but(**changes))
    assert refusal.value.field == field
    assert opened.loaded == frozenset()


def test_a_picture_with_causal_blocks_is_refused_by_name(opened, recipe, picture):
    with pytest.raises(BadInput, match="needs causal_block = 1") as refusal:
        opened.plan(recipe.but(image=picture, **BLOCKS))
    assert refusal.value.field == "causal_block"


def test_a_plan_has_the_frames_of_the_chain(opened, recipe):
    plan = opened.plan(recipe.but(segments=3, frames=81, overlap=9))
    assert [plan.chain.P(n) for n in range(4)] == [0, 81, 153, 225]
    assert (plan.width, plan.height, plan.fps) == (32, 16, 24)
    assert plan.steps == (3, 3, 3)


def test_staggered_steps_are_the_rows_of_the_timestep_matrix_of_diffusers(opened, recipe):
    import torch
    from diffusers import SkyReelsV2DiffusionForcingPipeline

    rows = SkyReelsV2DiffusionForcingPipeline.generate_timestep_matrix
    for block in (2, 3, 5):
        for blocks in (2, 3, 4):
            for ar_step in (0, 1, 3, 7):
                frames = (block * blocks - 1) * 4 + 1
                overlap = (block - 1) * 4 + 1
                settings = recipe.but(
                    causal_block=block, ar_step=ar_step, frames=frames, overlap=overlap, steps=7
                )
                latents = block * blocks
                template = torch.arange(7, 0, -1)
                matrices = [
                    rows(None, latents, template, latents, ar_step, ready, block)[0]
                    for ready in (0, block)
                ]
                assert opened.plan(settings).steps == tuple(len(matrix) for matrix in matrices)

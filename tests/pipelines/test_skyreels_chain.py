"""A chain of segments: each depends on its seed and its boundary, and on nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Recipe, assert_same, chain, encode, seeded
from safetensors.torch import save_file

from pipelines.errors import BadInput
from pipelines.skyreels_v2 import SkyReelsV2

STAGGERED = {"frames": 21, "causal_block": 2, "ar_step": 2, "condition_noise": 20}


@pytest.fixture(scope="module")
def whole(pipeline):
    """The recipe's own two segments, made once."""
    return chain(pipeline, Recipe())


@pytest.mark.parametrize("mode", [{}, STAGGERED], ids=str)
def test_any_segment_made_again_from_its_boundary_is_bit_identical(pipeline, recipe, mode):
    recipe = recipe.but(segments=3, **mode)
    whole = chain(pipeline, recipe)
    inputs = encode(pipeline, recipe)
    for i in (2, 0, 1):  # in another order, and after whatever ran before
        boundary = whole[i - 1].boundary if i else None
        assert_same(pipeline.generate(recipe, inputs, i, boundary, seeded(i + 1)), whole[i])


def test_another_seed_changes_its_segment_and_leaves_the_one_before(pipeline, recipe, whole):
    other = chain(pipeline, recipe, seeds=(1, 3))
    assert_same(whole[0], other[0])
    assert not np.array_equal(whole[1].frames, other[1].frames)


def test_a_longer_chain_begins_with_the_shorter_one_and_its_frames_add_up(pipeline, recipe, whole):
    outputs = chain(pipeline, recipe.but(segments=3))
    assert_same(outputs[0], whole[0])
    assert_same(outputs[1], whole[1])
    assert [len(o.frames) for o in outputs] == [13, 8, 8]
    assert pipeline.plan(recipe.but(segments=3)).chain.total == 29
    assert outputs[0].frames.dtype == np.uint8
    assert outputs[0].frames.shape == (13, 16, 32, 3)
    assert pipeline.segment_inputs(recipe) == pipeline.segment_inputs(recipe.but(segments=3))


def test_the_global_generator_is_neither_read_nor_moved(pipeline, recipe):
    recipe = recipe.but(condition_noise=20)
    first = chain(pipeline, recipe)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = chain(pipeline, recipe)
    assert torch.equal(before, torch.get_rng_state())
    assert_same(first[1], second[1])


def test_the_causal_block_of_one_job_does_not_reach_the_next(pipeline, recipe, whole):
    chain(pipeline, recipe.but(segments=1, **STAGGERED))
    assert_same(chain(pipeline, recipe)[1], whole[1])


def test_the_number_of_threads_does_not_show(pipeline, recipe, whole):
    torch.set_num_threads(2)
    try:
        assert_same(chain(pipeline, recipe)[1], whole[1])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_a_fresh_process_makes_the_same_bits(whole, tiny, tmp_path):
    save_file(whole[0].boundary, tmp_path / "boundary.safetensors")
    script = """
import sys, torch, numpy
sys.path.insert(0, sys.argv[3])
from conftest import Recipe, encode, seeded
from safetensors.torch import load_file
from pipelines.skyreels_v2 import SkyReelsV2
pipeline = SkyReelsV2.open(sys.argv[1], device="cpu")
boundary = load_file(sys.argv[2] + "/boundary.safetensors")
inputs = encode(pipeline, Recipe())
output = pipeline.generate(Recipe(), inputs, 1, boundary, seeded(2))
numpy.save(sys.argv[2] + "/frames.npy", output.frames)
"""
    here = Path(__file__).parent
    subprocess.run(
        [sys.executable, "-c", script, tiny, tmp_path, here], check=True, cwd=here.parent.parent
    )
    assert np.array_equal(np.load(tmp_path / "frames.npy"), whole[1].frames)


def test_generating_loads_no_encoder_and_needs_none_on_disk(tiny, recipe, tmp_path, one_thread):
    folder = shutil.copytree(tiny, tmp_path / "a model, für später")
    pipeline = SkyReelsV2.open(folder, device="cpu")
    assert pipeline.loaded == frozenset()
    inputs = encode(pipeline, recipe)
    assert pipeline.loaded == {"tokenizer", "text_encoder"}
    pipeline.free_encoders()
    assert pipeline.loaded == frozenset()

    shutil.rmtree(folder / "text_encoder")
    second = SkyReelsV2.open(folder, device="cpu")
    second.generate(recipe, inputs, 0, None, seeded(1))
    assert second.loaded == {"transformer", "scheduler", "vae"}
    with pytest.raises(BadInput, match="text_encoder is missing"):
        encode(second, recipe)


def test_weights_that_change_on_disk_are_read_again(tiny, recipe, whole, tmp_path, one_thread):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(tiny, tmp_path / "model")
    pipeline = SkyReelsV2.open(folder, device="cpu")
    assert_same(chain(pipeline, recipe)[1], whole[1])
    file = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    weights = load_file(file)
    save_file({name: weight * 1.1 for name, weight in weights.items()}, file)
    assert not np.array_equal(chain(pipeline, recipe)[1].frames, whole[1].frames)


class Cancelled(Exception):
    pass


def test_raising_from_on_step_cancels_within_a_step_and_leaves_the_pipeline_usable(
    pipeline, recipe, whole
):
    seen = []

    def stop(step):
        seen.append((step.step, step.steps))
        if step.step == 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        chain(pipeline, recipe, on_step=stop)
    assert seen == [(1, 3), (2, 3)]
    assert_same(chain(pipeline, recipe)[1], whole[1])


def test_a_failure_inside_the_model_leaves_the_pipeline_usable(pipeline, recipe, whole):
    transformer = pipeline.components["transformer"]

    def fail(*args):
        raise RuntimeError("out of luck")

    hook = transformer.blocks[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        chain(pipeline, recipe)
    hook.remove()
    assert_same(chain(pipeline, recipe)[1], whole[1])


def test_steps_are_counted_as_planned(pipeline, recipe):
    recipe = recipe.but(**STAGGERED)
    seen = []
    chain(pipeline, recipe, on_step=lambda step: seen.append((step.step, step.steps)))
    first, second = pipeline.plan(recipe).steps
    assert (first, second) == (7, 5)
    assert seen == [(n + 1, first) for n in range(first)] + [(n + 1, second) for n in range(second)]


def test_previews_are_small_pictures_once_there_is_something_to_learn_from(tiny, recipe):
    pipeline = SkyReelsV2.open(tiny, device="cpu")
    previews = []
    chain(pipeline, recipe, on_step=lambda step: previews.append(step.preview()))
    assert previews[:3] == [None, None, None]
    assert [p.shape for p in previews[3:]] == [(2, 4, 3)] * 3
    assert previews[3].dtype == np.uint8


def test_a_boundary_that_does_not_fit_is_refused(pipeline, recipe):
    inputs = encode(pipeline, recipe)
    first = pipeline.generate(recipe, inputs, 0, None, seeded(1))
    with pytest.raises(BadInput, match=r"boundary.*needs that of segment 0"):
        pipeline.generate(recipe, inputs, 1, None, seeded(1))
    with pytest.raises(BadInput, match=r"boundary.*\(1, 16, 3, 2, 4\)"):
        pipeline.generate(recipe.but(overlap=9), inputs, 1, first.boundary, seeded(1))


def test_a_video_of_one_segment_may_have_no_overlap(pipeline, recipe):
    recipe = recipe.but(segments=1, overlap=0, frames=1)
    (output,) = chain(pipeline, recipe)
    assert output.frames.shape == (1, 16, 32, 3)
    assert output.boundary == {}


def test_a_strong_shift_runs(pipeline, recipe):
    # The first timesteps round to the same integer there, and diffusers begins at the second.
    recipe = recipe.but(segments=1, frames=1, overlap=0, steps=20, guidance_scale=1.0, shift=60.0)
    (output,) = chain(pipeline, recipe)
    assert output.forwards == 20


def test_bfloat16_runs(tiny, recipe, one_thread):
    pipeline = SkyReelsV2.open(tiny, dtype="bfloat16", device="cpu")
    outputs = chain(pipeline, recipe)
    assert outputs[1].boundary["latents"].dtype == torch.float32
    assert torch.isfinite(outputs[1].boundary["latents"]).all()
    assert pipeline.segment_inputs(recipe)["dtype"] == "bfloat16"
    assert_same(chain(pipeline, recipe)[1], outputs[1])


def test_weights_stored_in_half_precision_run_in_single_on_the_cpu(tiny, recipe, tmp_path):
    from diffusers import SkyReelsV2Transformer3DModel

    folder = shutil.copytree(tiny, tmp_path / "half")
    model = SkyReelsV2Transformer3DModel.from_pretrained(folder / "transformer")
    model.half().save_pretrained(folder / "transformer")
    pipeline = SkyReelsV2.open(folder, device="cpu")
    pipeline.load_denoiser()
    assert pipeline.components["transformer"].dtype == torch.float32
    assert pipeline.dtype == "float32"

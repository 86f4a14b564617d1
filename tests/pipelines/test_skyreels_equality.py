"""Our segment loop against diffusers' own pipelines on the same noise: no difference at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import encode, seeded
from PIL import Image

SYNCHRONOUS = {}
BLOCKS = {"frames": 21, "causal_block": 2}
STAGGERED = {"frames": 21, "causal_block": 2, "ar_step": 2}


@pytest.fixture(scope="module")
def reference(tiny, one_thread):
    """Calls diffusers' pipeline, T2V or I2V, with a recipe: final latents or frames."""
    from diffusers import SkyReelsV2DiffusionForcingPipeline

    return caller(SkyReelsV2DiffusionForcingPipeline.from_pretrained(tiny), 512)


def caller(t2v, max_sequence_length):
    from diffusers import SkyReelsV2DiffusionForcingImageToVideoPipeline

    i2v = SkyReelsV2DiffusionForcingImageToVideoPipeline(**t2v.components)

    def call(recipe, generator, num_frames=None, output_type="latent"):
        pipe, extra = t2v, {}
        if recipe.image is not None:
            pipe, extra = i2v, {"image": Image.open(recipe.image)}
        pipe.set_progress_bar_config(disable=True)
        config = t2v.scheduler.config
        pipe.register_modules(
            scheduler=type(t2v.scheduler).from_config(config, flow_shift=recipe.shift)
        )
        return pipe(
            prompt=recipe.prompt,
            negative_prompt=recipe.negative_prompt,
            height=recipe.height,
            width=recipe.width,
            num_frames=num_frames or recipe.frames,
            base_num_frames=recipe.frames,
            overlap_history=recipe.overlap if num_frames else None,
            num_inference_steps=recipe.steps,
            guidance_scale=recipe.guidance_scale,
            ar_step=recipe.ar_step,
            causal_block_size=recipe.causal_block,
            addnoise_condition=recipe.condition_noise,
            fps=recipe.fps,
            max_sequence_length=max_sequence_length,
            generator=generator,
            output_type=output_type,
            **extra,
        ).frames

    return call


def ours(pipeline, recipe, generator):
    """Segments with one generator for all of them, as the long call of diffusers draws."""
    inputs, boundary, outputs = encode(pipeline, recipe), None, []
    for i in range(recipe.segments):
        outputs.append(pipeline.generate(recipe, inputs, i, boundary, generator))
        boundary = outputs[-1].boundary
    return outputs


def assert_tail_equals(latents, boundary):
    tail = boundary["latents"]
    assert tail.abs().max() > 0.1
    difference = (latents[:, :, -tail.shape[2] :] - tail).abs().max().item()
    print(f"max|d| = {difference}")
    assert difference == 0.0


@pytest.mark.parametrize("guidance_scale", [1.0, 3.0])
@pytest.mark.parametrize("mode", [SYNCHRONOUS, BLOCKS, STAGGERED], ids=str)
def test_one_segment_equals_diffusers(pipeline, reference, recipe, mode, guidance_scale):
    recipe = recipe.but(segments=1, guidance_scale=guidance_scale, **mode)
    (output,) = ours(pipeline, recipe, seeded(7))
    assert_tail_equals(reference(recipe, seeded(7)), output.boundary)
    rows = pipeline.plan(recipe).steps[0]
    assert output.forwards == rows * (2 if guidance_scale > 1 else 1)


@pytest.mark.parametrize("ar_step", [0, 2])
def test_a_segment_of_the_starter_equals_diffusers(one_thread, recipe, ar_step):
    from diffusers import SkyReelsV2DiffusionForcingPipeline

    from pipelines.catalogue import find, open_pipeline

    starter = find("starter")
    pipeline = open_pipeline(starter, device="cpu")
    settings = {"segments": 1, "steps": 4, "ar_step": ar_step}
    recipe = recipe.but(prompt="a red boat at sunset", **{**starter.defaults, **settings})
    (output,) = ours(pipeline, recipe, seeded(7))
    # diffusers cannot load the codec by its name in model_index.json: it gets ours.
    theirs = caller(SkyReelsV2DiffusionForcingPipeline(**pipeline.components), 32)
    assert_tail_equals(theirs(recipe, seeded(7)), output.boundary)


def test_the_frames_equal_those_of_diffusers(pipeline, reference, recipe):
    recipe = recipe.but(segments=1)
    (output,) = ours(pipeline, recipe, seeded(7))
    frames = reference(recipe, seeded(7), output_type="np")[0]
    assert np.array_equal(output.frames, (frames * 255).round().astype(np.uint8))


@pytest.mark.parametrize("guidance_scale", [1.0, 3.0])
def test_a_segment_from_a_picture_equals_diffusers(
    pipeline, reference, recipe, picture, guidance_scale
):
    recipe = recipe.but(segments=1, image=picture, overlap=9, guidance_scale=guidance_scale)
    (output,) = ours(pipeline, recipe, seeded(7))
    assert_tail_equals(reference(recipe, seeded(7)), output.boundary)


@pytest.mark.parametrize("mode", [SYNCHRONOUS, BLOCKS, STAGGERED], ids=str)
def test_two_segments_equal_the_long_call_of_diffusers(pipeline, reference, recipe, mode):
    recipe = recipe.but(**mode)
    outputs = ours(pipeline, recipe, seeded(7))
    total = pipeline.plan(recipe).chain.total
    assert sum(len(output.frames) for output in outputs) == total
    assert_tail_equals(reference(recipe, seeded(7), num_frames=total), outputs[-1].boundary)


def test_two_segments_from_a_picture_equal_the_long_call_of_diffusers(
    pipeline, reference, recipe, picture
):
    recipe = recipe.but(image=picture)
    outputs = ours(pipeline, recipe, seeded(7))
    total = pipeline.plan(recipe).chain.total
    assert_tail_equals(reference(recipe, seeded(7), num_frames=total), outputs[-1].boundary)


def test_condition_noise_equals_diffusers_once_its_global_draws_come_from_the_generator(
    pipeline, reference, recipe, monkeypatch
):
    recipe = recipe.but(condition_noise=20)
    outputs = ours(pipeline, recipe, seeded(7))
    generator = seeded(7)
    monkeypatch.setattr(
        torch, "randn_like", lambda x: torch.randn(x.shape, generator=generator, dtype=x.dtype)
    )
    total = pipeline.plan(recipe).chain.total
    assert_tail_equals(reference(recipe, generator, num_frames=total), outputs[-1].boundary)


def test_the_frame_rate_reaches_a_model_that_was_trained_on_two(pipeline, reference, recipe):
    recipe = recipe.but(segments=1, fps=16)
    (slow,) = ours(pipeline, recipe, seeded(7))
    (fast,) = ours(pipeline, recipe.but(fps=24), seeded(7))
    assert not torch.equal(slow.boundary["latents"], fast.boundary["latents"])
    assert_tail_equals(reference(recipe, seeded(7)), slow.boundary)


def test_prompts_encode_as_in_diffusers(pipeline, reference, tiny, recipe):
    from diffusers import SkyReelsV2DiffusionForcingPipeline

    from pipelines.skyreels_v2.encoders import pad_prompt

    theirs = SkyReelsV2DiffusionForcingPipeline.from_pretrained(tiny)
    messy = "  a cat &amp;amp; a dog\n\tbaking a “cakeâ€™s” \u3000 "
    with torch.no_grad():
        embeds, negative = theirs.encode_prompt(messy, "", max_sequence_length=512)
    inputs = encode(pipeline, recipe.but(prompt=messy, negative_prompt=""))
    assert inputs["prompt_embeds"].shape[0] < 40
    assert torch.equal(pad_prompt(inputs["prompt_embeds"], 512), embeds)
    assert torch.equal(pad_prompt(inputs["negative_prompt_embeds"], 512), negative)

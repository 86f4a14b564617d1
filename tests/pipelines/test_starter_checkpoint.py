"""The shipped checkpoint in assets/starter."""

import json
import subprocess
import sys

import pytest
import torch

from pipelines.starter.codec import FrameStackCodec
from pipelines.starter.evaluate import CHECKPOINT
from pipelines.starter.text import encode_prompts


@pytest.fixture(scope="module")
def pipeline():
    from diffusers import SkyReelsV2DiffusionForcingPipeline

    pipeline = SkyReelsV2DiffusionForcingPipeline.from_pretrained(CHECKPOINT)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def test_its_weights_are_small_half_precision_and_no_pickle():
    files = [path for path in CHECKPOINT.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 25_000_000
    assert not [path for path in files if path.suffix in {".bin", ".pt", ".pth", ".pkl"}]
    assert len([path for path in files if path.suffix == ".safetensors"]) == 3


def test_it_loads_with_the_classes_that_it_names(pipeline):
    index = json.loads((CHECKPOINT / "model_index.json").read_text())
    for name, (_, kind) in ((k, v) for k, v in index.items() if not k.startswith("_")):
        if name != "tokenizer":
            assert type(getattr(pipeline, name)).__name__ == kind
    assert isinstance(pipeline.vae, FrameStackCodec)
    assert (pipeline.vae_scale_factor_temporal, pipeline.vae_scale_factor_spatial) == (4, 8)
    assert pipeline.transformer.config.num_frame_per_block == 3


def test_diffusers_own_pipeline_runs_it(pipeline):
    video = pipeline(
        "a red boat drifting left over the sea at noon",
        height=64,
        width=96,
        num_frames=33,
        base_num_frames=33,
        num_inference_steps=2,
        guidance_scale=2.0,
        max_sequence_length=32,
        causal_block_size=3,
        generator=torch.Generator().manual_seed(0),
        output_type="np",
    ).frames
    assert video.shape == (1, 33, 64, 96, 3)


@torch.no_grad()
def test_unknown_words_do_not_break_the_encoder(pipeline):
    prompts = ["", "ZXQ völlig 漢字 🚀 !!", "a crimson sailboat at dusk " * 40]
    embeds = encode_prompts(pipeline.tokenizer, pipeline.text_encoder, prompts)
    assert embeds.shape == (3, 32, 64) and torch.isfinite(embeds).all()


@torch.no_grad()
def test_upper_case_is_read_as_lower_case(pipeline):
    loud, quiet = encode_prompts(
        pipeline.tokenizer, pipeline.text_encoder, ["A RED Boat", "a red boat"]
    )
    assert torch.equal(loud, quiet)


def test_the_training_help_tells_how_to_make_the_weights_again():
    command = [sys.executable, "-m", "pipelines.starter.train", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for step in ("data", "codec", "text", "transformer", "export", "--resume"):
        assert step in text

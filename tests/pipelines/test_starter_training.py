"""Diffusion forcing, the optimiser, and training that resumes."""

import numpy as np
import pytest
import torch

from pipelines.starter import forcing
from pipelines.starter.captions import random_caption
from pipelines.starter.dataset import random_scene
from pipelines.starter.export import export_checkpoint, new_transformer
from pipelines.starter.forcing import STAGES, WindowKind, draw_sigmas, draw_starts
from pipelines.starter.muon import orthogonalise
from pipelines.starter.sample import SampleSettings, load_starter, sample_clips
from pipelines.starter.shards import load_shards, write_shard
from pipelines.starter.text import encode_prompts, new_text_encoder, train_tokenizer
from pipelines.starter.trainer import Trainer, TrainSettings, averaged_models

CAPTIONS = ["a red boat drifting left over the sea", "a kite, right, at noon, desert sand"]


@pytest.fixture(scope="module")
def codec():
    from pipelines.starter.codec import FrameStackCodec

    torch.manual_seed(0)
    return FrameStackCodec(block_out_channels=(8, 8, 8, 8))


@pytest.fixture(scope="module")
def folder(codec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("latents")
    write_shard(folder / "clips_057_000001.safetensors", codec, clips=2, frames=57, seed=1)
    return folder


@pytest.fixture(scope="module")
def tokenizer():
    rng = np.random.default_rng(0)
    return train_tokenizer([random_caption(random_scene(rng), rng)[0] for _ in range(1500)])


@pytest.fixture
def small_stage(monkeypatch):
    kinds = (WindowKind(3, 2, 0.5), WindowKind(1, 2, 0.5))
    monkeypatch.setitem(forcing.STAGES, "films", kinds)


def make_trainer(codec, tokenizer, max_steps):
    torch.manual_seed(1)
    transformer = new_transformer(dim=48, layers=1, heads=2)
    settings = TrainSettings(max_steps=max_steps, warmup_steps=2)
    encoder = new_text_encoder(len(tokenizer))
    return Trainer(transformer, tokenizer, encoder, codec.config, settings)


def test_a_shard_holds_latents_cells_and_scenes(folder):
    clips = load_shards(folder, 57)
    assert clips["latents"].shape == (2, 24, 15, 8, 12)
    assert clips["cells"].shape == (2, 15, 8, 12) and clips["cells"].max() == 1
    assert clips["scenes"].shape == (2, 5)


def test_training_resumes_at_its_step_with_its_weights(
    codec, tokenizer, folder, tmp_path, small_stage
):
    first = make_trainer(codec, tokenizer, max_steps=3)
    first.run(folder, tmp_path, log=lambda line: None)
    again = make_trainer(codec, tokenizer, max_steps=5)
    again.load(tmp_path)
    assert again.step == first.step == 3
    for name, parameter in again.models.named_parameters():
        assert torch.equal(parameter, dict(first.models.named_parameters())[name])
    for one, two in zip(first.optimizers, again.optimizers, strict=True):
        assert len(one.state) == len(two.state) > 0
    again.run(folder, tmp_path, log=lambda line: None)
    assert again.step == 5


def test_a_trained_checkpoint_exports_loads_and_samples(
    codec, tokenizer, folder, tmp_path, small_stage
):
    trainer = make_trainer(codec, tokenizer, max_steps=2)
    trainer.run(folder, tmp_path / "run", log=lambda line: None)
    transformer, encoder = new_transformer(48, 1, 2), new_text_encoder(len(tokenizer))
    averaged_models(tmp_path / "run", transformer, encoder)
    export_checkpoint(tmp_path / "out", transformer, encoder, tokenizer, codec)
    starter = load_starter(tmp_path / "out")
    for chunkwise in (False, True):
        settings = SampleSettings(segments=2, steps=2, chunkwise=chunkwise)
        clips = sample_clips(starter, CAPTIONS, settings)
        assert clips.shape == (2, 57, 64, 96, 3) and clips.dtype == np.uint8


def test_chunks_are_as_noisy_as_sampling_will_find_them():
    rng = np.random.default_rng(0)
    starts = rng.integers(0, 4, 400)
    sigmas, learn = draw_sigmas(starts, 3, rng)
    assert sigmas.shape == learn.shape == (400, 9)
    assert sigmas.min() >= 0 and sigmas.max() <= 1
    chunks = sigmas.reshape(400, 3, 3)
    later = starts > 0
    assert (chunks[later, 0] < 0.1).all(), "later windows begin with clean history"
    assert not learn.reshape(400, 3, 3)[later, 0].any(), "and nothing is learned from it"
    assert (np.diff(chunks[:, :, 2], axis=1) >= -0.1).all(), "noise never falls along a window"
    pictured = (chunks[:, 0, 0] == 0) & (chunks[:, 0, 1] > 0)
    assert pictured.any() and not learn[pictured, 0].any(), "a picture may stand at the start"


def test_short_windows_begin_at_the_start_of_the_video():
    rng = np.random.default_rng(0)
    assert not draw_starts(WindowKind(3, 50, 1.0), 15, rng).any()
    starts = draw_starts(WindowKind(9, 200, 1.0), 15, rng)
    assert 0.3 < (starts == 0).mean() < 0.55 and starts.max() == 6
    for kinds in STAGES.values():
        assert sum(kind.share for kind in kinds) == pytest.approx(1)


def test_muons_update_is_nearly_orthogonal():
    generator = torch.Generator().manual_seed(0)
    for shape in ((2, 32, 96), (2, 96, 32)):
        values = torch.linalg.svdvals(orthogonalise(torch.randn(shape, generator=generator)))
        assert values.min() > 0.3 and values.max() < 1.7


def test_prompts_are_padded_with_zeros(tokenizer):
    encoder = new_text_encoder(len(tokenizer))
    embeds = encode_prompts(tokenizer, encoder, ["", CAPTIONS[0]])
    assert embeds.shape == (2, 32, 64)
    used = (embeds.abs().sum(-1) > 0).sum(1)
    assert used[0] == 1 and 1 < used[1] < 32
    assert not embeds[0, 1:].any()


def test_the_shipped_checkpoint_can_be_trained_on(folder, tmp_path, small_stage):
    """It is fp16, training is not: --from must raise it."""
    from pipelines.starter.evaluate import CHECKPOINT
    from pipelines.starter.train import load_codec, load_text, load_transformer

    tokenizer, encoder = load_text(tmp_path, CHECKPOINT)
    codec = load_codec(tmp_path, CHECKPOINT)
    settings = TrainSettings(max_steps=1)
    transformer = load_transformer(CHECKPOINT)
    trainer = Trainer(transformer, tokenizer, encoder, codec.config, settings)
    trainer.run(folder, tmp_path / "run", log=lambda line: None)
    assert trainer.step == 1

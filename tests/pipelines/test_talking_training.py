"""Training of the talking starter, on as little as shows that it works."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipelines.infinitetalk.speech import speech_features
from pipelines.infinitetalk.windows import audio_windows
from pipelines.starter.codec import stack_frames
from pipelines.starter.training_run import load_average
from pipelines.talking.batches import draw_batch, person_masks, velocity_loss
from pipelines.talking.captions import MOODS, random_caption, train_text_encoder
from pipelines.talking.codec import PatchCodec
from pipelines.talking.codec_fitting import draw_stacks, fidelity, fit_axes, to_float
from pipelines.talking.hearing import feature_windows, hear, new_ear
from pipelines.talking.parts import new_image_encoder, new_transformer
from pipelines.talking.shards import MOTION, SEGMENT, load_shards, write_shard
from pipelines.talking.trainer import BatchKind, Trainer, TrainSettings, constants_of
from pipelines.talking.voices import normalised, random_voice, speak


@pytest.fixture(scope="module")
def codec():
    torch.manual_seed(0)
    codec = PatchCodec(detail_width=8).eval()
    fit_axes(codec, *draw_stacks(6, seed=1))
    return codec


@pytest.fixture(scope="module")
def ear():
    torch.manual_seed(0)
    return new_ear().eval()


@pytest.fixture(scope="module")
def work(tmp_path_factory, codec, ear):
    folder = tmp_path_factory.mktemp("talking")
    for people in (1, 2):
        write_shard(folder / f"people_{people}_000000.safetensors", codec, ear, 2, people, seed=0)
    return folder


@pytest.fixture(scope="module")
def constants(codec):
    tokenizer, encoder, _ = train_text_encoder(1, log=lambda line: None)
    return constants_of(codec, tokenizer, encoder, captions=6)


def trainer(codec, constants, steps, **settings):
    torch.manual_seed(1)
    kinds = (BatchKind(1, 5, 2, 0.5), BatchKind(2, 5, 2, 0.5))
    return Trainer(
        new_transformer(dim=32, layers=1, heads=2),
        new_image_encoder(),
        codec,
        constants,
        TrainSettings(minutes=60, max_steps=steps, kinds=kinds, warmup_steps=1, **settings),
    )


def test_principal_axes_alone_return_faces_recognisably(codec):
    assert fidelity(codec, 2, seed=9).whole > 22


def test_axes_are_orthonormal_so_that_a_latent_survives_a_round_trip(codec):
    stacks, _ = draw_stacks(1, seed=2)
    z = codec.encoder(to_float(stacks))
    assert torch.allclose(codec.encoder(codec.decoder(z)), z, atol=1e-4)


def test_frames_of_a_stack_keep_their_own_pictures(codec):
    video = torch.rand(1, 3, 9, 16, 16) * 2 - 1
    latents = codec.encode(video).latent_dist.mode()
    assert latents.shape == (1, 24, 3, 2, 2)
    assert codec.decode(latents).sample.shape == video.shape
    assert torch.equal(latents[:, :, 1], codec.encoder(stack_frames(video))[1:2])


def test_the_ear_hears_what_the_pipeline_hears(ear):
    wave = speak(random_voice(np.random.default_rng(0)), 1.0, np.random.default_rng(1))
    with torch.inference_mode():
        ours = hear(ear, torch.from_numpy(normalised(wave)).float()[None], 25)[0]
        theirs = speech_features(ear, wave, 25, do_normalize=True)
    assert torch.allclose(ours, theirs, atol=1e-4)
    windows = audio_windows(theirs[None].repeat(1, 3, 1, 1), 1, SEGMENT, MOTION)[0]
    inside = feature_windows(theirs.repeat(3, 1, 1), SEGMENT - MOTION, SEGMENT)
    assert torch.equal(windows, inside)


def test_a_batch_is_conditioned_as_the_segment_loop_does_it(work, constants):
    clips = load_shards(work, 2)
    images = torch.zeros(len(clips["latents"]), 17, 32)
    batch = draw_batch(clips, images, 8, 9, (("mouths", 3.0),), constants, np.random.default_rng(0))
    assert batch.audio.shape == (8, 2, SEGMENT, 5, 2, 64)
    assert batch.condition.shape == (8, 28, 9, 8, 12)
    assert batch.condition[:, :4, 0].eq(1).all() and batch.condition[:, :4, 1:].eq(0).all()
    known = (1 - batch.learn).sum(1)
    assert set(known.tolist()) == {1.0, 3.0}
    first = known == 1
    assert torch.equal(batch.known[first, :, 0], batch.condition[first, 4:, 0])


def test_without_boxes_the_persons_are_the_halves_of_the_pipeline():
    from pipelines.infinitetalk.persons import boxed, halves
    from pipelines.infinitetalk.persons import person_masks as masks_of_boxes

    ours = person_masks(torch.zeros(1, 2, 4), None)[0]
    assert torch.equal(ours, masks_of_boxes(boxed(halves((64, 96)), (64, 96)), (64, 96), 8).float())


def test_training_learns_and_goes_on_where_it_stopped(work, codec, constants, tmp_path):
    first = trainer(codec, constants, steps=6)
    clips = load_shards(work, 1)
    images = torch.zeros(len(clips["latents"]), 17, 32)
    batch = draw_batch(clips, images, 4, 5, (("mouths", 3.0),), constants, np.random.default_rng(0))
    noise = torch.randn(batch.latents.shape)
    with torch.no_grad():
        before = velocity_loss(first.models, batch, noise)
    first.run(work, tmp_path, log=lambda line: None)
    with torch.no_grad():
        assert velocity_loss(first.models, batch, noise) < before
    again = trainer(codec, constants, steps=7)
    again.load(tmp_path)
    assert again.step == 6
    again.run(work, tmp_path, log=lambda line: None)
    assert again.step == 7
    average = new_transformer(dim=32, layers=1, heads=2)
    load_average(tmp_path, average)
    assert torch.equal(average.proj_out.weight, again.average.proj_out.weight)


def test_captions_of_every_mood_can_be_told_apart():
    rng = np.random.default_rng(0)
    captions = {mood: {random_caption(mood, rng) for _ in range(40)} for mood in MOODS}
    assert all(len(found) > 20 for found in captions.values())
    assert not captions["calm"] & captions["lively"]

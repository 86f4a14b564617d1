"""The talking starter as it ships: its size, its format, and that its mouths move with voices."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TalkRecipe, chain, encode, seeded
from PIL import Image

from pipelines.infinitetalk import InfiniteTalk
from pipelines.infinitetalk.checkpoint import Checkpoint
from pipelines.infinitetalk.defaults import defaults
from pipelines.talking.judge import new_scenes, score
from pipelines.talking.samples import write_wave

TALKING = Path(__file__).parents[2] / "assets" / "talking"


@pytest.fixture(scope="module")
def talking() -> InfiniteTalk:
    return InfiniteTalk.open(TALKING, device="cpu")


def recipe(talking, **changes) -> TalkRecipe:
    """The checkpoint's own settings."""
    known = {field.name for field in dataclasses.fields(TalkRecipe)}
    settings = {
        name: value for name, value in defaults(talking.checkpoint).items() if name in known
    }
    return TalkRecipe(**{**settings, **changes})


def film(talking, asked: TalkRecipe, seed: int) -> np.ndarray:
    outputs = chain(talking, asked, seeds=range(seed, seed + 10))
    return np.concatenate([output.frames for output in outputs])


def test_all_of_it_is_under_15_megabytes():
    assert sum(path.stat().st_size for path in TALKING.rglob("*") if path.is_file()) < 15e6


def test_it_is_whole_and_in_the_format():
    checkpoint = Checkpoint.read(TALKING)
    checkpoint.check()
    assert not checkpoint.published and checkpoint.sees_picture and checkpoint.normalises_voice


def test_mouths_of_new_faces_follow_new_voices(talking, one_thread, tmp_path):
    scenes, clips = new_scenes(3, segments=2, people=1, seed=1), []
    for k, scene in enumerate(scenes):
        Image.fromarray(scene.draw(np.arange(1))[0]).save(tmp_path / f"{k}.png")
        write_wave(tmp_path / f"{k}.wav", scene.waves[0])
        asked = recipe(talking, image=tmp_path / f"{k}.png", audio=tmp_path / f"{k}.wav")
        clips.append(film(talking, asked, seed=10 * k))
        assert len(clips[-1]) == scene.num_frames
    scores = score(clips, scenes)
    assert scores.follows > 0.7
    assert abs(scores.shuffled) < 0.3


def test_the_sample_faces_have_a_voice_each(talking, one_thread):
    both = recipe(
        talking,
        image=TALKING / "faces.png",
        audio=TALKING / "voice_left.wav",
        audio_2=TALKING / "voice_right.wav",
        segments=1,
        steps=2,
    )
    given = encode(talking, both)
    exchanged = dataclasses.replace(both, audio=both.audio_2, audio_2=both.audio)
    one, other = (
        talking.generate(asked, data, 0, None, seeded(1)).frames
        for asked, data in ((both, given), (exchanged, encode(talking, exchanged)))
    )
    assert not np.array_equal(one, other)
    assert torch.equal(given["faces_masks"], encode(talking, exchanged)["faces_masks"])

"""Drawn faces and made-up voices of the talking starter, and the judge that reads them."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.talking.faces import FPS, HEIGHT, WIDTH
from pipelines.talking.judge import new_scenes, score
from pipelines.talking.reading import correlation, count_blinks, mouth_opening
from pipelines.talking.samples import write_samples
from pipelines.talking.scenes import random_scene
from pipelines.talking.voices import RATE, loudness, openness


def test_a_seed_draws_the_same_faces_and_voices_again():
    first, again = (random_scene(np.random.default_rng(4), 1.0, people=2) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first.waves, again.waves, strict=True))
    frames = np.arange(5)
    assert np.array_equal(first.draw(frames), again.draw(frames))
    assert first.draw(frames).shape == (5, HEIGHT, WIDTH, 3)


def test_a_silent_person_keeps_the_mouth_shut():
    assert openness(np.zeros(RATE, np.float32)).max() == 0


def test_a_mouth_opens_with_any_sound_at_any_loudness():
    time = np.arange(2 * RATE) / RATE
    tone = np.sin(2 * np.pi * 300 * time) * (time % 0.5 < 0.25)
    assert np.allclose(openness(tone), openness(0.01 * tone), atol=1e-2)
    assert correlation(openness(tone), loudness(tone)) > 0.9


@pytest.mark.parametrize("people", [1, 2])
def test_the_judge_finds_the_drawn_mouths_and_tells_the_voices_apart(people):
    scenes = new_scenes(8, segments=3, people=people, seed=3)
    scores = score([scene.draw(np.arange(scene.num_frames)) for scene in scenes], scenes)
    assert scores.follows > 0.9
    assert abs(scores.shuffled) < 0.2
    assert abs(scores.other) < 0.5
    assert scores.background < 0.5
    assert scores.blinks > 5


def test_the_judge_sees_no_mouth_move_in_a_still_picture():
    (scene,) = new_scenes(1, segments=2, people=1, seed=5)
    still = scene.draw(np.arange(1)).repeat(scene.num_frames, 0)
    assert np.ptp(mouth_opening(still, scene.faces[0])) == 0
    assert count_blinks(still, scene.faces[0]) == 0
    assert score([still], [scene]).follows == 0


def test_the_sample_files_are_those_of_the_script(tmp_path):
    from pathlib import Path

    assets = Path(__file__).parents[2] / "assets" / "talking"
    write_samples(tmp_path)
    for path in tmp_path.iterdir():
        assert path.suffix == ".png" or path.read_bytes() == (assets / path.name).read_bytes()
    assert len(list(tmp_path.iterdir())) == 5
    assert (tmp_path / "voice.wav").stat().st_size == 44 + 2 * 5 * RATE
    assert FPS == 25

"""The judge, on clips whose truth is known."""

import numpy as np
import pytest

from pipelines.starter.dataset import Scene, draw_clip
from pipelines.starter.evaluate import draw_scenes, drawn_clips, score
from pipelines.starter.judge import judge, largest_jump

CLIPS = 40


@pytest.fixture(scope="module")
def truth():
    scenes = draw_scenes(CLIPS, seed=77)
    return scenes, list(drawn_clips(scenes, segments=1, seed=77))


@pytest.fixture(scope="module")
def scores(truth):
    scenes, clips = truth
    return score(scenes, [judge(clip) for clip in clips])


@pytest.mark.parametrize("attribute", ["land", "time", "actor", "colour", "direction"])
def test_the_judge_reads_drawn_clips_rightly(scores, attribute):
    assert getattr(scores, attribute) >= 0.97


def test_drawn_clips_are_smooth_and_hold_with_a_visible_actor(scores):
    assert scores.smooth == 1 and scores.holds == 1 and scores.visible >= 0.95


def test_a_clip_without_its_actor_is_seen_to_have_none(truth):
    rng = np.random.default_rng(5)
    clip = draw_clip(Scene("desert", "noon", "balloon", "red", "left"), 17, rng)
    frames = clip.frames.copy()
    for frame, (x0, y0, x1, y1) in zip(frames, clip.boxes.round().astype(int), strict=True):
        frame[max(0, y0 - 3) : y1 + 3, max(0, x0 - 3) : x1 + 3] = frame[2, 2]
    assert judge(clip.frames).visible == 1
    assert judge(frames).visible < 0.5


def test_a_clip_played_backwards_goes_the_other_way(truth):
    scenes, clips = truth
    turned = [judge(clip[::-1]).direction for clip in clips[:10]]
    assert all(t != s.direction for t, s in zip(turned, scenes, strict=False))


def test_a_cut_is_a_jump(truth):
    _, clips = truth
    assert largest_jump(np.concatenate([clips[0], clips[1]])) > 3
    assert not judge(np.concatenate([clips[0], clips[1]])).smooth


def test_a_change_of_scene_is_drift():
    rng = np.random.default_rng(3)
    day = draw_clip(Scene("desert", "noon", "kite", "red", "left"), 17, rng).frames
    night = draw_clip(Scene("sea", "night", "kite", "red", "left"), 17, rng).frames
    assert judge(day).holds
    assert not judge(np.concatenate([day, night])).holds


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="64, 96, 3"):
        judge(np.zeros((5, 32, 32, 3), np.uint8))

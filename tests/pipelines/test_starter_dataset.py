"""The drawn scenes and their captions."""

from collections import Counter

import numpy as np
import pytest

from pipelines.starter.captions import drop_words, plain_caption, random_caption
from pipelines.starter.dataset import (
    ACTORS,
    COLOURS,
    HEIGHT,
    WIDTH,
    Scene,
    all_scenes,
    draw_clip,
    random_scene,
)
from pipelines.starter.shards import actor_cells, row_to_scene, scene_to_row


def test_a_boat_sails_only_on_the_sea():
    assert all(s.land == "sea" for s in all_scenes() if s.actor == "boat")
    rng = np.random.default_rng(0)
    assert all(
        s.land == "sea" for s in (random_scene(rng) for _ in range(300)) if s.actor == "boat"
    )


def test_every_actor_and_colour_is_about_equally_frequent():
    rng = np.random.default_rng(1)
    scenes = [random_scene(rng) for _ in range(1200)]
    for attribute, values in (("actor", ACTORS), ("colour", COLOURS)):
        counts = Counter(getattr(s, attribute) for s in scenes)
        assert set(counts) == set(values)
        assert max(counts.values()) < 1.4 * min(counts.values())


def test_the_same_seed_draws_the_same_clip():
    scene = Scene("desert", "noon", "kite", "red", "left")
    one, two = (draw_clip(scene, 5, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(one.frames, two.frames)
    assert one.frames.shape == (5, HEIGHT, WIDTH, 3) and one.frames.dtype == np.uint8


@pytest.mark.parametrize("actor", ACTORS)
def test_the_box_holds_what_the_actor_changes(actor):
    """Two colours of one scene differ inside the box, and hardly anywhere else."""
    red, blue = (
        draw_clip(Scene("sea", "noon", actor, colour, "right"), 9, np.random.default_rng(8))
        for colour in ("red", "blue")
    )
    changed = np.abs(red.frames.astype(int) - blue.frames).sum(-1) > 30
    for frame, (x0, y0, x1, y1) in zip(changed, red.boxes, strict=True):
        rows, columns = np.nonzero(frame)
        assert len(rows) > 60, "the actor is large enough to see"
        assert rows.min() >= y0 - 2 and rows.max() <= y1 + 2
        assert columns.min() >= x0 - 2 and columns.max() <= x1 + 2


def test_the_actors_cells_follow_its_box():
    boxes = np.tile(np.array([[16.0, 8.0, 40.0, 24.0]], np.float32), (9, 1))
    cells = actor_cells(boxes, HEIGHT, WIDTH)
    assert cells.shape == (3, 8, 12)
    assert cells[0, 1:3, 2:5].all() and cells.sum() == 3 * 6


def test_scenes_survive_being_numbers():
    for scene in all_scenes()[::37]:
        assert row_to_scene(scene_to_row(scene)) == scene


def test_captions_of_one_scene_vary():
    scene, rng = Scene("sea", "sunset", "boat", "red", "left"), np.random.default_rng(0)
    captions = [random_caption(scene, rng)[0] for _ in range(200)]
    assert len(set(captions)) > 190
    text = " ".join(captions).lower()
    for word in ("crimson", "ship", "ocean", "dusk", "boat", "sunset"):
        assert word in text
    assert any(c.isupper() for c in captions) and any(c.islower() for c in captions)


def test_a_caption_says_what_it_claims_to_say():
    rng, scene = np.random.default_rng(2), Scene("desert", "night", "kite", "white", "right")
    for _ in range(300):
        caption, (_, _, _, colour, direction) = random_caption(scene, rng)
        assert ("right" in caption.lower()) == direction
        if "white" in caption.lower():
            assert colour


def test_words_can_be_lost():
    words = plain_caption(Scene("sea", "noon", "boat", "red", "left"))
    lost = drop_words(words, np.random.default_rng(0), rate=0.5)
    assert len(lost.split()) < len(words.split())

"""A retake keeps its prefix to the bit, and everything that was there before is never redone."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from PIL import Image

from pipelines.frames import Chain
from studio import actions, verify
from studio.engine import Engine
from studio.errors import BadInput
from studio.library import Library
from tests.studio.conftest import PROMPT, frames_of, segment_state
from tests.studio.histories import make_take, publish


def test_frame_arithmetic_is_that_of_the_design():
    chain = Chain(segments=3, F=81, M=9)
    assert [chain.P(n) for n in range(4)] == [0, 81, 153, 225]
    assert [chain.new_frames(i) for i in range(3)] == [(0, 81), (81, 153), (153, 225)]
    assert chain.start(2) == 144 and chain.total == 225


def test_a_take_has_as_many_frames_as_its_chain_says(library, generate):
    for segments in (1, 3):
        take = generate([5], segments=segments).take
        assert len(frames_of(library, take)) == take.total_frames
        assert take.total_frames == Chain(segments, take.recipe.frames, take.recipe.overlap).total


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_the_old_seeds_computed_again_give_the_old_bits(library, generate, retake, tmp_path, keep):
    parent = generate([11]).take
    with Library(tmp_path / "other") as other:
        # Only the prefix goes along: whatever comes after it must be computed.
        for part in parent.segments[:keep]:
            shutil.copytree(
                library.store.folder("segments", part.id), other.store.folder("segments", part.id)
            )
        engine = Engine()
        again = actions.generate(
            other,
            engine,
            "starter",
            parent.recipe.model_dump(exclude={"model"}),
            parent.seeds,
            parent.session,
        )
        assert again.sources == ["reused"] * keep + ["generated"] * (3 - keep)
        assert again.take.id == parent.id
        assert np.array_equal(frames_of(other, again.take), frames_of(library, parent))
        for index in range(3):
            assert segment_state(other, again.take, index) == segment_state(library, parent, index)


def test_recompute_finds_every_segment_the_same(library, engine, generate):
    take = generate([3]).take
    found = verify.recompute(library, engine, take)
    assert [part.index for part in found] == [0, 1, 2]
    assert not any(part.differs for part in found)


def test_recompute_names_the_segment_that_was_made_from_another_seed(library, engine, generate):
    one, two = generate([3]).take, generate([4]).take
    mine = library.store.folder("segments", one.segments[1].id)
    theirs = library.store.folder("segments", two.segments[1].id)
    for name in ("video.mp4", "boundary_rank_00000.safetensors"):
        shutil.copyfile(theirs / name, mine / name)
    found = verify.recompute(library, engine, one)
    assert {part.index: bool(part.differs) for part in found} == {0: False, 1: True, 2: False}
    assert {"file", "boundary", "video"} <= set(found[1].differs)


def test_the_prefix_stays_bit_identical_through_ten_retakes_in_a_row(library, generate, retake):
    take = generate([1], segments=4).take
    prefix = Chain(4, take.recipe.frames, take.recipe.overlap).P(2)
    first = frames_of(library, take)
    for n in range(10):
        rendered = retake(take, 2, [100 + n])
        assert rendered.sources == ["reused", "reused", "generated", "generated"]
        take = rendered.take
        frames = frames_of(library, take)
        assert np.array_equal(frames[:prefix], first[:prefix])
        assert not np.array_equal(frames[prefix:], first[prefix:])


def test_keep_0_with_a_new_seed_loads_no_encoder_and_changes_every_segment(library, generate):
    parent = generate([1]).take
    fresh = Engine()
    rendered = actions.retake(library, fresh, parent.id, 0, [2])
    assert "text_encoder" not in fresh.pipeline("starter").loaded
    assert "tokenizer" not in fresh.pipeline("starter").loaded
    assert "transformer" in fresh.pipeline("starter").loaded
    assert rendered.encoder_source == "reused"
    assert rendered.sources == ["generated"] * 3
    for index in range(3):
        assert segment_state(library, parent, index) != segment_state(library, rendered.take, index)


def test_the_same_request_again_computes_nothing(library, generate):
    first = generate([8])
    again = generate([8])
    assert again.take == first.take
    assert again.sources == ["reused"] * 3
    assert again.encoder_source == "reused"
    assert again.forwards == {"computed": 0, "skipped": 0}


def test_a_longer_take_reuses_the_shorter_one(generate, retake):
    short = generate([8], segments=2).take
    longer = retake(short, 2, [9], segments=4)
    assert longer.sources == ["reused", "reused", "generated", "generated"]
    assert longer.take.seeds == [8, 8, 9, 9]


def test_a_retake_with_the_old_seeds_is_its_parent(generate, retake):
    parent = generate([1]).take
    again = retake(parent, 1, [1])
    assert again.take == parent and again.parent == parent.id


def test_takes_with_a_common_beginning_share_its_segments(library, generate, retake):
    parent = generate([1]).take
    child = retake(parent, 1, [2]).take
    assert child.parent == parent.id and child.keep == 1
    assert child.segments[0].id == parent.segments[0].id
    assert len(list(library.store.keys("segments"))) == 5


def test_a_drawn_seed_is_recorded_and_gives_the_same_take_again(generate):
    drawn = generate()
    assert len(set(drawn.take.seeds)) == 1
    assert generate([drawn.take.seeds[0]]).take.id == drawn.take.id


def test_each_segment_may_have_its_own_seed_and_order_does_not_matter(library, generate):
    mixed = generate([4, 5, 6]).take
    assert mixed.seeds == [4, 5, 6]
    first = generate([4], segments=1).take
    assert segment_state(library, mixed, 0) == segment_state(library, first, 0)


def test_keep_0_may_change_the_recipe(generate, retake):
    parent = generate([1]).take
    changed = retake(parent, 0, [1], prompt="a blue kite over a desert at noon")
    assert changed.take.parent == parent.id
    assert changed.encoder_source == "computed"


def test_keeping_more_than_there_is_to_keep_is_bad_input(generate, retake):
    parent = generate([1]).take
    for keep in (-1, 3, 99):
        with pytest.raises(BadInput, match="keep"):
            retake(parent, keep, [2])


@pytest.mark.parametrize("count", [8, pytest.param(20, marks=pytest.mark.thorough)])
def test_the_seam_is_no_rougher_than_the_inside_of_a_segment(library, generate, count):
    """Mean difference of frames at the seams over the median inside, on average of takes."""
    ratios = []
    for seed in range(count):
        take = generate([seed], segments=2, steps=10).take
        frames = frames_of(library, take).astype(np.float32)
        steps = np.abs(np.diff(frames, axis=0)).mean((1, 2, 3))
        seam = take.segments[1].frames[0] - 1
        ratios.append(steps[seam] / max(np.median(np.delete(steps, seam)), 1e-6))
    assert np.mean(ratios) <= 1.3, ratios


def test_the_picture_can_be_taken_away_before_a_retake_from_the_first_segment(
    library, engine, tiny, tmp_path
):
    Image.new("RGB", (64, 64), "navy").save(tmp_path / "a.png")
    given = {"prompt": PROMPT, "segments": 1, "steps": 1, "image": tmp_path / "a.png"}
    order = actions.order_take(library, engine, str(tiny), given, [1])
    take = make_take(1).model_copy(update={"recipe": order.recipe})
    publish(library, library.portable(take))
    asked = actions.order_retake(library, engine, take.id, 0, [1], {"image": None})
    assert asked.recipe == order.recipe.model_copy(update={"image": None})
    assert actions.order_retake(library, engine, take.id, 0, [1], {}).recipe == order.recipe

"""Before a job runs it is known what it will compute and about how long that takes."""

from __future__ import annotations

import shutil

import pytest

from pipelines.frames import Chain
from studio import actions
from studio.chapter import chapters_of, plan_of
from studio.database import Database
from studio.engine import Engine
from studio.errors import NotCompatible
from studio.pace import KEPT, Pace
from studio.recipe import Recipe
from tests.studio.conftest import PROMPT

KITE = "a blue kite over a desert at noon"


@pytest.fixture
def pace(tmp_path):
    database = Database(tmp_path / "history.sqlite")
    yield Pace(database)
    database.close()


@pytest.fixture
def asked(engine):
    """`asked(segments=3)`: a recipe and its plan on the starter."""

    def make(**given):
        recipe = Recipe.make("starter", prompt=PROMPT, **given)
        return recipe, plan_of(engine.pipeline("starter"), chapters_of(recipe))

    return make


def test_the_pace_is_the_median_of_the_newest_segments_of_a_setting(pace, asked):
    recipe, plan = asked(segments=3, steps=10)
    assert pace.seconds(recipe, plan, [0]) is None
    for denoise in (90.0, 9.0, 4.0, 4.0, 5.0, 6.0):
        pace.learn(recipe, recipe.frames, 10, denoise, 1.0)
    # The oldest is no longer believed: 0.5 s a step.
    assert pace.seconds(recipe, plan, [0]) == pytest.approx(10 * 0.5 + 1)
    assert pace.seconds(recipe, plan, [1, 2]) == pytest.approx(2 * (10 * 0.5 + 1))
    assert pace.seconds(recipe, plan, []) == 0


def test_another_size_goes_by_the_nearest_known_one_in_proportion(pace, asked):
    small, _ = asked(width=48, height=32, steps=10)
    pace.learn(small, small.frames, 10, 1.0, 0.5)
    big, plan = asked(width=192, height=128, steps=20)
    assert pace.seconds(big, plan, [0]) == pytest.approx(16 * (20 * 0.1 + 0.5))
    near, _ = asked(width=192, height=64, steps=10)
    pace.learn(near, near.frames, 10, 10.0, 3.0)
    assert pace.seconds(big, plan, [0]) == pytest.approx(2 * (20 * 1.0 + 3.0))


def test_without_guidance_a_step_takes_half(pace, asked):
    guided, _ = asked(steps=10, guidance_scale=3.0)
    pace.learn(guided, guided.frames, 10, 4.0, 1.0)
    plain, plan = asked(steps=10, guidance_scale=1.0)
    assert pace.seconds(plain, plan, [0]) == pytest.approx(2.0 + 1.0)


def test_only_the_newest_rows_of_a_setting_stay(pace, asked):
    recipe, _ = asked()
    other, _ = asked(width=48)
    pace.learn(other, other.frames, 10, 1.0, 0.5)
    for _ in range(KEPT + 5):
        pace.learn(recipe, recipe.frames, 10, 1.0, 0.5)
    rows = pace.database.rows("SELECT width, count(*), max(id) FROM pace GROUP BY width")
    assert rows == [(48, 1, 1), (96, KEPT, KEPT + 6)]


def test_an_estimate_says_what_is_there_and_learns_from_what_ran(library, engine, generate, retake):
    given = {"prompt": PROMPT, "segments": 3, "steps": 2}
    order = actions.order_take(library, engine, "starter", given, [1])
    before = actions.estimate(library, Engine(), order)
    assert (before.segments, before.new, before.reused) == (3, 3, 0)
    assert before.seconds is None and before.loads and before.take is None
    take = generate([1], steps=2).take
    after = actions.estimate(library, Engine(), order)
    assert (after.new, after.reused, after.seconds, after.loads) == (0, 3, 0, False)
    assert after.take == take.id

    longer = actions.order_retake(library, engine, take.id, 2, [2], {"segments": 5})
    told = actions.estimate(library, engine, longer)
    assert (told.segments, told.new, told.reused, told.loads) == (5, 3, 2, False)
    one = actions.estimate(library, engine, actions.order_retake(library, engine, take.id, 2, [2]))
    assert told.seconds == pytest.approx(3 * one.seconds) and one.seconds > 0


def test_an_estimate_counts_the_steps_of_each_chapter(library, engine, generate):
    take = generate([1], segments=2, steps=1).take

    def seconds(**changes):
        order = actions.order_retake(library, engine, take.id, 1, [2], changes)
        return actions.estimate(library, engine, order).seconds

    step = seconds(steps=2) - seconds(steps=1)
    assert step > 0
    assert seconds(steps=11, prompt=KITE) == pytest.approx(seconds(steps=1) + 10 * step)


def test_segments_that_an_interrupted_run_left_count_as_there(library, engine, generate):
    take = generate([1], steps=1).take
    shutil.rmtree(library.store.folder("takes", take.id))
    shutil.rmtree(library.store.folder("segments", take.segments[1].id))
    order = actions.order_take(
        library, engine, "starter", take.recipe.model_dump(exclude={"model"}), [1]
    )
    told = actions.estimate(library, engine, order)
    assert (told.new, told.reused, told.take) == (1, 2, None)


def test_an_estimate_refuses_what_the_render_would(library, engine, generate):
    take = generate([1], segments=2, steps=1).take
    order = actions.order_retake(library, engine, take.id, 1, [2])
    other = order.model_copy(update={"seeds": (5, 2)})
    with pytest.raises(NotCompatible, match="segment id"):
        actions.estimate(library, engine, other)


def test_a_render_goes_on_if_its_pace_cannot_be_remembered(library, generate):
    with library.database.writing():
        library.database.execute("DROP TABLE pace")
    take = generate([1], segments=1, steps=1).take
    assert take.total_frames == Chain(1, take.recipe.frames, take.recipe.overlap).total

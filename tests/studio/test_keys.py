"""Whether the files that keys were made of have changed is seen without making all keys anew."""

from __future__ import annotations

import time

import pytest

from studio.chapter import chapters_of
from studio.keys import Keys
from studio.recipe import Recipe
from tests.studio.conftest import PROMPT


@pytest.fixture
def chapters():
    return chapters_of(Recipe.make("starter", prompt=PROMPT))


def test_looking_at_the_files_again_costs_the_same_for_any_number_of_segments(
    library, engine, chapters
):
    pipeline = engine.pipeline("starter")
    began = time.perf_counter()
    keys = Keys.of(pipeline, chapters, range(3000), "sea", library.hashes)
    made = time.perf_counter() - began
    began = time.perf_counter()
    assert keys.hold(pipeline, chapters, library.hashes)
    assert time.perf_counter() - began < made / 4


def test_keys_do_not_hold_for_another_recipe(library, engine, chapters):
    pipeline = engine.pipeline("starter")
    keys = Keys.of(pipeline, chapters, [1, 2], "sea", library.hashes)
    for change in ({"prompt": "a kite"}, {"steps": 1}):
        recipe = chapters[0].recipe.model_copy(update=change)
        assert not keys.hold(pipeline, chapters_of(recipe), library.hashes)

"""Several seeds at once, sessions that are called by themselves, and a take in a new session."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from studio import actions, media
from studio.errors import BadInput
from studio.session_name import MAX_SESSION, next_name
from tests.studio.conftest import PROMPT, frames_of


def test_copies_differ_in_the_seeds_of_their_new_segments_alone(library, engine, generate):
    take = generate([1, 2, 3], steps=1).take
    orders = actions.order_retakes(library, engine, take.id, 1, [8, 9], copies=4)
    assert orders[0].seeds == (1, 8, 9)
    for order in orders[1:]:
        first, second, third = order.seeds
        assert first == 1 and second == third and second not in (8, 9)
    assert len({order.seeds for order in orders}) == 4
    assert {order.model_copy(update={"seeds": ()}) for order in orders} == {
        orders[0].model_copy(update={"seeds": ()})
    }


def test_copies_of_a_new_take_each_have_a_drawn_seed(library, engine):
    given = {"prompt": PROMPT, "segments": 2}
    orders = actions.order_takes(library, engine, "starter", given, None, "sea", 3)
    assert len({order.seeds for order in orders}) == 3
    assert all(len(set(order.seeds)) == 1 for order in orders)
    assert {order.session for order in orders} == {"sea"}


@pytest.mark.parametrize("copies", [0, -1, 9])
def test_more_copies_than_eight_are_bad_input(library, engine, copies):
    with pytest.raises(BadInput, match="copies"):
        actions.order_takes(
            library, engine, "starter", {"prompt": PROMPT, "segments": 1}, [1], None, copies
        )


def test_a_free_session_is_one_that_neither_history_nor_the_queue_has(library, engine, generate):
    assert actions.free_session(library, "A red boat") == "a-red-boat"
    generate([1], segments=1, steps=1, session="a-red-boat")
    assert actions.free_session(library, "A red boat") == "a-red-boat 2"
    given = {"prompt": "A red boat", "segments": 1}
    order = actions.order_take(library, engine, "starter", given, [1], "a-red-boat 2")
    library.jobs.submit(order)
    assert actions.free_session(library, "A red boat") == "a-red-boat 3"
    # Headless, the same words go on in the same session.
    assert actions.order_take(library, engine, "starter", given).session == "a-red-boat"


def test_names_count_on_and_stay_short_enough():
    assert next_name("sea", {"sea"}) == "sea 2"
    assert next_name("sea 2", {"sea", "sea 2", "sea 3"}) == "sea 4"
    long = "x" * MAX_SESSION
    assert next_name(long, {long}) == "x" * (MAX_SESSION - 2) + " 2"


def test_a_fork_is_the_same_take_as_the_first_of_a_new_session(library, generate, retake):
    first = generate([1], segments=2, steps=1, session="sea").take
    take = retake(first, 1, [2], prompt="a blue kite at noon").take
    segments = set(library.store.keys("segments"))
    fork = actions.fork(library, take.id)
    assert (fork.session, fork.parent, fork.keep) == ("sea 2", take.id, 2)
    assert fork.id != take.id and fork.segments == take.segments
    assert fork.chapters == take.chapters and fork.encoder_keys == take.encoder_keys
    assert np.array_equal(frames_of(library, fork), frames_of(library, take))
    assert media.read_metadata(library.result(fork))["session"] == "sea 2"
    assert library.history.baseline("sea 2") == fork.id
    assert library.history.baseline("sea") == first.id
    assert set(library.store.keys("segments")) == segments
    assert list(library.store.verify()) == []
    assert actions.fork(library, take.id).session == "sea 3"
    named = actions.fork(library, fork.id, "my  hills")
    assert named.session == "my hills"
    again = retake(named, 1, [5])
    assert again.take.session == "my hills" and again.sources == ["reused", "generated"]


def test_a_fork_into_a_session_that_there_is_is_refused(library, generate):
    take = generate([1], segments=1, steps=1, session="sea").take
    with pytest.raises(BadInput, match="such a session"):
        actions.fork(library, take.id, " sea ")
    assert list(library.store.keys("takes")) == [take.id]


def test_a_fork_of_a_take_whose_files_are_gone_is_refused_in_words(library, generate):
    take = generate([1], segments=2, steps=1).take
    shutil.rmtree(library.store.folder("segments", take.segments[1].id))
    with pytest.raises(BadInput, match="segment 2 are gone"):
        actions.fork(library, take.id)
    assert list(library.store.keys("takes")) == [take.id]


def test_orders_with_chapters_survive_the_queue(library, engine, generate):
    take = generate([1], segments=2, steps=1).take
    order = actions.order_retake(library, engine, take.id, 1, [2], {"prompt": "a kite"})
    job = library.jobs.submit(order)
    assert library.jobs.get(job).order == order
    assert len(order.chapters) == 2

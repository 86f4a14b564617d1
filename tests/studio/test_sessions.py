"""Sessions keep what a person was about to do, what is locked, and the way back."""

from __future__ import annotations

import json

import pytest

from studio.errors import BadInput, TakeUnknown
from studio.history import MAX_DRAFT, DraftChanged
from tests.studio.histories import fill, make_take, opened


@pytest.fixture
def history(tmp_path):
    with opened(tmp_path) as history:
        yield history


@pytest.fixture
def three(history):
    """Three takes of one session; the first is its baseline."""
    takes = [make_take(number) for number in (1, 2, 3)]
    history.record(*takes)
    return [take.id for take in takes]


def test_a_session_is_there_as_soon_as_a_draft_is_saved(history):
    assert history.session_state("new") is None and history.draft("new") is None
    draft = {"recipe": {"prompt": "${x} <b> 船 🌊"}, "seed": {"locked": True}}
    assert history.save_draft("new", draft) == 1
    assert history.draft("new") == draft
    assert history.session_state("new")["draft_rev"] == 1
    assert history.session_names(9) == ["new"]
    assert history.save_draft("new", {}) == 2
    assert history.draft("new") == {}


def test_its_first_take_becomes_the_baseline_and_leaves_the_draft(history):
    history.save_draft("sea", {"a": 1})
    history.record(make_take(1))
    assert history.baseline("sea") == make_take(1).id
    assert history.draft("sea") == {"a": 1}


@pytest.mark.parametrize(
    "draft",
    [
        ["no object"],
        "text",
        None,
        {"long": "x" * MAX_DRAFT},
        {"wide": "船" * (MAX_DRAFT // 2)},
        {"odd": float("nan")},
        {"odd": object()},
    ],
)
def test_what_is_no_small_json_object_is_no_draft(history, draft):
    history.save_draft("sea", {"a": 1})
    with pytest.raises(BadInput, match="draft"):
        history.save_draft("sea", draft)
    assert history.draft("sea") == {"a": 1}
    assert history.session_state("sea")["draft_rev"] == 1


def test_half_a_character_does_not_spoil_a_draft(history):
    history.save_draft("sea", json.loads('{"prompt": "boat \\ud83c"}'))
    assert history.draft("sea") == {"prompt": "boat ?"}


def test_a_draft_outlives_a_rebuild_and_the_last_take(history):
    history.record(make_take(1))
    history.save_draft("sea", {"a": 1})
    history.save_draft("empty", {"b": 2})
    history.rebuild(lambda: [])
    assert history.draft("sea") == {"a": 1} and history.draft("empty") == {"b": 2}
    assert history.baseline("sea") is None


def test_undo_goes_back_step_by_step(history, three):
    one, two, three = three
    assert not history.can_undo("sea")
    for take in (two, three, one):
        history.accept(take)
    assert [history.undo("sea") for _ in range(3)] == [three, two, one]
    assert not history.can_undo("sea")
    with pytest.raises(BadInput, match="nothing to undo"):
        history.undo("sea")
    assert history.baseline("sea") == one


def test_accepting_the_baseline_again_is_no_step(history, three):
    history.accept(three[1])
    history.accept(three[1])
    assert history.undo("sea") == three[0]
    assert not history.can_undo("sea")


def test_undo_passes_over_takes_that_are_gone(history, three):
    one, two, three = three
    history.accept(two)
    history.accept(three)
    history.forget([two])
    assert history.undo("sea") == one
    assert not history.can_undo("sea")


def test_undo_survives_a_restart_and_a_rebuild(tmp_path):
    takes = [make_take(1), make_take(2)]
    with opened(tmp_path) as history:
        history.record(*takes)
        history.accept(takes[1].id)
    with opened(tmp_path) as history:
        history.rebuild(lambda: takes)
        assert history.undo("sea") == takes[0].id


def test_unknown_names_are_named(history):
    for ask in (history.undo, history.can_undo, lambda name: history.lock(name, 0)):
        with pytest.raises(TakeUnknown, match="nowhere"):
            ask("nowhere")
    with pytest.raises(TakeUnknown):
        history.accept("nothing")


def test_as_many_segments_are_locked_as_the_baseline_has(history, three):
    assert history.lock("sea", 2) == 2
    assert history.session_state("sea")["locked"] == 2
    for count in (-1, 3, 10**30):
        with pytest.raises(BadInput, match="0 to 2"):
            history.lock("sea", count)
    history.save_draft("empty", {})
    with pytest.raises(BadInput, match="0 to 0"):
        history.lock("empty", 1)


def test_the_session_used_last_comes_first(history):
    history.record(make_take(1, "one"), make_take(2, "two"), make_take(3, "three"))
    assert history.session_names(2) == ["three", "two"]
    history.save_draft("one", {})
    history.accept(make_take(2, "two").id)
    assert history.session_names(9) == ["two", "one", "three"]


def test_sessions_are_listed_with_counts_and_posters(history):
    history.record(make_take(1, "Über den Wolken"), make_take(2, "Über den Wolken"))
    history.save_draft("海の船", {})
    first, second = history.session_cards()
    assert (first["name"], first["takes"], first["poster"]) == ("海の船", 0, None)
    assert (second["takes"], second["baseline"], second["poster"]) == (2, make_take(1).id, "s1")
    assert [found["name"] for found in history.session_cards("uber wolk")] == ["Über den Wolken"]
    assert [found["name"] for found in history.session_cards("船")] == ["海の船"]
    assert history.session_cards("%") == []
    assert len(history.session_cards(limit=1)) == 1


def test_a_card_tells_all_that_the_timeline_shows(history):
    take = make_take(2, parent=make_take(1).id, prompt="a boat", later="a balloon")
    history.record(make_take(1), take)
    history.rate(take.id, 3)
    card = history.cards("sea", 10)[0]
    assert card == history.card(take.id)
    assert card["segment_ids"] == ["s2", "t2"] and card["frames"] == [[0, 33], [33, 57]]
    assert card["chapters"] == [
        {"first": 0, "prompt": "a boat"},
        {"first": 1, "prompt": "a balloon"},
    ]
    assert (card["parent"], card["seeds"], card["stars"]) == (make_take(1).id, [2, 2], 3)
    recipe = take.recipe
    assert (card["width"], card["height"]) == (recipe.width, recipe.height)
    assert (card["fps"], card["result"], card["poster"]) == (recipe.fps, "result.mp4", "s2")
    assert card["baseline"] is False and history.cards("sea", 10)[1]["baseline"] is True
    assert len(history.cards("sea", 1)) == 2


CHANGES = {
    "a take": lambda history: history.record(make_take(9)),
    "stars": lambda history: history.rate(make_take(1).id, 2),
    "a note": lambda history: history.note(make_take(1).id, "x"),
    "the baseline": lambda history: history.accept(make_take(2).id),
    "the lock": lambda history: history.lock("sea", 1),
    "a take that is gone": lambda history: history.forget([make_take(2).id]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_poller_sees_what_another_process_changed(tmp_path, history, three, change):
    history.record(make_take(5, "other"))
    before, other = history.session_state("sea"), history.session_state("other")
    total = history.revision()
    with opened(tmp_path) as elsewhere:
        change(elsewhere)
    assert history.session_state("sea")["takes_rev"] > before["takes_rev"]
    assert history.session_state("other") == other
    assert history.revision() > total


def test_a_draft_and_the_progress_of_jobs_are_no_change_of_takes(history, three):
    history.save_draft("sea", {})
    before, total = history.session_state("sea"), history.revision()
    history.save_draft("sea", {"a": 1})
    history.database.execute("INSERT INTO jobs (progress) VALUES ('{}')")
    history.database.execute("UPDATE jobs SET progress = '{1}'")
    after = history.session_state("sea")
    assert after["takes_rev"] == before["takes_rev"] and after["draft_rev"] == 2
    assert history.revision() == total


def test_cards_and_state_need_few_questions(history):
    fill(history.database, 500, sessions=1)
    asked: list[str] = []
    history.database._connection.set_trace_callback(asked.append)
    assert len(history.cards("session 0", 500)) == 500
    assert len(asked) == 1
    history.session_state("session 0")
    history.revision()
    history.session_cards()
    assert len(asked) == 4


def test_a_draft_that_another_tab_changed_is_not_written_over(history):
    assert history.save_draft("new", {"a": 1}, base=0) == 1
    assert history.save_draft("new", {"a": 2}, base=1) == 2
    with pytest.raises(DraftChanged) as refusal:
        history.save_draft("new", {"a": 3}, base=1)
    assert (refusal.value.draft, refusal.value.rev) == ({"a": 2}, 2)
    assert history.draft("new") == {"a": 2}
    assert history.save_draft("new", {"a": 4}) == 3


def test_the_lock_shrinks_to_what_the_new_baseline_shares(history):
    one, two = make_take(1), make_take(2, parent=make_take(1).id)
    shared = two.model_copy(update={"segments": (one.segments[0], two.segments[1])})
    history.record(one, shared, make_take(3))
    history.lock("sea", 2)
    history.accept(one.id)
    assert history.session_state("sea")["locked"] == 2
    history.accept(shared.id)
    assert history.session_state("sea")["locked"] == 1
    history.lock("sea", 2)
    history.undo("sea")
    assert history.session_state("sea")["locked"] == 1
    history.accept(make_take(3).id)
    assert history.session_state("sea")["locked"] == 0


def test_the_baseline_is_among_the_cards_however_old_it_is(history, three):
    cards = history.cards("sea", 1)
    assert [card["id"] for card in cards] == [three[2], three[0]]
    assert cards[1]["baseline"] and history.count("sea") == 3

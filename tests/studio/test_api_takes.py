"""The routes of sessions, takes, history, trash and presets, through the whole app."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from studio.api.app import create_app
from tests.studio.conftest import PROMPT
from tests.studio.histories import make_take, publish


@pytest.fixture
def page(library):
    """The studio as a browser on this machine reaches it."""
    with TestClient(create_app(library, "127.0.0.1"), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def takes(library):
    """Three takes of the session `sea`; the second came from the first."""
    one = make_take(1)
    children = [make_take(number, parent=one.id, prompt="a café") for number in (2, 3)]
    return [publish(library, take).id for take in (one, *children)]


def refused(answer, status: int = 422) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]
    return answer.json()


def told(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()


def of_page(page, session: str = "sea") -> dict:
    """What a poll tells of a session."""
    return told(page.get("/api/state", params={"session": session}))


def test_a_session_shows_its_takes_newest_first(page, takes):
    session = told(page.get("/api/session", params={"name": "sea"}))
    assert [card["id"] for card in session["takes"]] == takes[::-1]
    assert session["baseline"] == takes[0] and session["draft"] is None
    card = session["takes"][0]
    assert card["parent"] == takes[0] and card["segment_ids"] == ["s3", "t3"]
    assert card["chapters"] == [{"first": 0, "prompt": "a café"}]


def test_a_name_that_no_session_has_yet_is_an_empty_one(page):
    session = told(page.get("/api/session", params={"name": "soon"}))
    assert session["takes"] == [] and session["baseline"] is None
    refused(page.get("/api/session", params={"name": " "}))
    refused(page.get("/api/session"))
    assert told(page.get("/api/sessions")) == []


def test_a_take_tells_its_whole_recipe(page, generate):
    take = generate([1], segments=1).take
    shown = told(page.get(f"/api/takes/{take.id}"))
    assert shown["recipe"]["prompt"] == PROMPT and shown["recipe"]["steps"] == 3
    assert shown["chapters"] == [{"first": 0, "recipe": shown["recipe"]}]
    assert shown["segment_ids"] == [take.segments[0].id] and shown["frames"] == [[0, 33]]
    assert shown["timings"]["total"] > 0 and shown["software"]["torch"]


@pytest.mark.parametrize("take", ["nothing", "0" * 40, "latest", "..%2f..%2fhistory.sqlite", "%00"])
def test_what_is_no_take_is_not_found(page, takes, take):
    asked = [
        page.get(f"/api/takes/{take}"),
        page.delete(f"/api/takes/{take}"),
        page.post(f"/api/takes/{take}/accept"),
        page.post(f"/api/takes/{take}/restore"),
        page.post(f"/api/takes/{take}/fork", json={"session": None}),
        page.put(f"/api/takes/{take}/stars", json={"stars": 1}),
        page.put(f"/api/takes/{take}/note", json={"note": "x"}),
    ]
    assert {answer.status_code for answer in asked} <= {404, 405}
    assert len(told(page.get("/api/session", params={"name": "sea"}))["takes"]) == 3


def test_a_draft_is_kept_and_a_poll_tells(page):
    draft = {"prompt": "<script>${x}</script> 🌊", "seeds": [1, None]}
    saved = told(page.put("/api/session/draft", json={"session": "new", "draft": draft}))
    assert saved == {"session": "new", "draft_rev": 1}
    session = told(page.get("/api/session", params={"name": "new"}))
    assert session["draft"] == draft and session["draft_rev"] == 1
    state = of_page(page, "new")
    assert state["session"]["draft_rev"] == 1 and state["sessions"] == ["new"]
    for bad in ([1], "x", None, {"long": "x" * 300_000}):
        refused(page.put("/api/session/draft", json={"session": "new", "draft": bad}))
    refused(page.put("/api/session/draft", json={"session": "", "draft": {}}))
    half = b'{"session": "new", "draft": {"prompt": "\\ud83c"}}'
    as_json = {"Content-Type": "application/json"}
    told(page.put("/api/session/draft", content=half, headers=as_json))
    told(page.get("/api/session", params={"name": "new"}))


def test_accept_and_undo(page, takes):
    one, two, _ = takes
    before = of_page(page)["session"]
    accepted = told(page.post(f"/api/takes/{two}/accept"))
    assert accepted == {"baseline": two, "before": one, "can_undo": True}
    assert of_page(page)["session"]["takes_rev"] > before["takes_rev"]
    undone = told(page.post("/api/session/undo", json={"session": "sea"}))
    assert undone == {"baseline": one, "can_undo": False}
    assert refused(page.post("/api/session/undo", json={"session": "sea"}))["field"] == "session"
    refused(page.post("/api/session/undo", json={"session": "nowhere"}), 404)


def test_lock(page, takes):
    assert told(page.put("/api/session/lock", json={"session": "sea", "count": 1})) == {"locked": 1}
    assert of_page(page)["session"]["locked"] == 1
    assert refused(page.put("/api/session/lock", json={"session": "sea", "count": 3}))
    refused(page.put("/api/session/lock", json={"session": "nowhere", "count": 0}), 404)


def test_stars_and_a_note_are_found_again(page, takes):
    told(page.put(f"/api/takes/{takes[1]}/stars", json={"stars": 4}))
    told(page.put(f"/api/takes/{takes[1]}/note", json={"note": "the wave is 美しい"}))
    for bad in ({"stars": 6}, {"stars": -1}, {"stars": "many"}, {}):
        refused(page.put(f"/api/takes/{takes[1]}/stars", json=bad))
    refused(page.put(f"/api/takes/{takes[1]}/note", json={"note": "x" * 20_001}))
    for wanted in (
        {"search": "wav"},
        {"search": "しい"},
        {"stars": 4},
        {"search": "cafe", "stars": 1},
    ):
        found = told(page.get("/api/history", params=wanted))
        assert [card["id"] for card in found["takes"]] == [takes[1]], wanted
        assert found["takes"][0]["note"] == "the wave is 美しい"


def test_history_comes_in_pages(page, takes):
    first = told(page.get("/api/history", params={"limit": 2}))
    assert first["total"] == 3 and [card["id"] for card in first["takes"]] == takes[:0:-1]
    second = told(page.get("/api/history", params={"limit": 2, "after": first["next"]}))
    assert [card["id"] for card in second["takes"]] == takes[:1] and second["next"] is None
    assert second["takes"][0]["poster"] == "s1"
    assert told(page.get("/api/history/models")) == ["starter"]
    for bad in ({"since": "soon"}, {"limit": 0}, {"after": "x"}, {"stars": 9}, {"limit": 10**30}):
        refused(page.get("/api/history", params=bad))
    assert told(page.get("/api/history", params={"search": '"(* AND'}))["total"] == 0


def test_sessions_are_listed(page, takes):
    listed = told(page.get("/api/sessions"))
    assert [(found["name"], found["takes"], found["poster"]) for found in listed] == [
        ("sea", 3, "s1")
    ]
    assert told(page.get("/api/sessions", params={"search": "hills"})) == []
    refused(page.get("/api/sessions", params={"limit": -1}))


def test_delete_restore_and_empty(page, takes):
    before = told(page.get("/api/disk"))["bytes"]
    assert before["takes"] > 1500 and before["trash"] == 0
    rev = of_page(page)["history_rev"]
    assert told(page.delete(f"/api/takes/{takes[0]}")) == {}
    assert of_page(page)["history_rev"] > rev
    refused(page.get(f"/api/takes/{takes[0]}"), 404)
    assert page.get(f"/api/takes/{takes[0]}/result").status_code == 404
    in_trash = told(page.get("/api/trash"))
    after = told(page.get("/api/disk"))["bytes"]
    assert in_trash == {"takes": 1, "bytes": after["trash"]} and after["trash"] > 500
    assert told(page.post(f"/api/takes/{takes[0]}/restore")) == {}
    assert told(page.get("/api/session", params={"name": "sea"}))["baseline"] == takes[0]
    told(page.delete(f"/api/takes/{takes[2]}"))
    assert told(page.delete("/api/trash"))["removed"] == 1
    refused(page.post(f"/api/takes/{takes[2]}/restore"), 404)
    disk = told(page.get("/api/disk"))
    assert disk["bytes"]["trash"] == 0 and disk["free"] > 0


def test_a_fork_is_the_same_take_in_a_new_session(page, generate):
    take = generate([1], segments=2).take
    forked = told(page.post(f"/api/takes/{take.id}/fork", json={"session": "Other"}))
    assert forked["session"] == "Other" and forked["take"] != take.id
    session = told(page.get("/api/session", params={"name": "Other"}))
    assert session["baseline"] == forked["take"]
    assert session["takes"][0]["segment_ids"] == [part.id for part in take.segments]
    refused(page.post(f"/api/takes/{take.id}/fork", json={"session": "Other"}))
    named = told(page.post(f"/api/takes/{take.id}/fork", json={"session": None}))
    assert named["session"] not in (take.session, "Other")


def test_presets_over_http(page):
    name = "Sunset / 夕日 ?#"
    path = "/api/presets/Sunset%20%2F%20%E5%A4%95%E6%97%A5%20%3F%23"
    saved = told(page.put(path, json={"recipe": {"steps": 4, "prompt": "x"}}))
    assert saved == {"name": name, "recipe": {"steps": 4, "prompt": "x"}}
    assert told(page.get("/api/presets")) == [saved]
    assert refused(page.put(path, json={"recipe": {"steps": 0}}))["field"] == "steps"
    assert refused(page.put(path, json={"recipe": {"stepps": 1}}))["field"] == "stepps"
    refused(page.put(path, json={"recipe": [1]}))
    told(page.delete(path))
    assert told(page.get("/api/presets")) == []
    refused(page.delete(path))


def test_a_draft_of_another_tab_comes_back_instead_of_being_lost(page):
    def save(draft, **base):
        return page.put("/api/session/draft", json={"session": "new", "draft": draft, **base})

    assert told(save({"a": 1}, base_rev=0))["draft_rev"] == 1
    stale = refused(save({"a": 2}, base_rev=0), 409)
    assert (stale["draft"], stale["draft_rev"]) == ({"a": 1}, 1)
    assert told(page.get("/api/session", params={"name": "new"}))["draft"] == {"a": 1}
    assert told(save({"a": 3}, base_rev=None))["draft_rev"] == 2


def test_a_session_says_how_many_takes_it_has(page, takes):
    assert told(page.get("/api/session", params={"name": "sea"}))["total"] == 3
    assert told(page.get("/api/session", params={"name": "soon"}))["total"] == 0


def test_a_damaged_take_is_told_to_be_damaged(page, library, takes):
    (library.takes_folder / takes[0] / "manifest.json").write_text("{")
    assert "damaged" in refused(page.get(f"/api/takes/{takes[0]}"), 410)["error"]

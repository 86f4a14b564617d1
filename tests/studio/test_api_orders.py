"""Orders over HTTP: what they may name, and how those of several tabs stay apart."""

from __future__ import annotations

import io
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from PIL import Image

from pipelines.errors import BadInput
from reuse import Damaged, DiskFull, FileChanging, NotInLibrary
from studio import media
from studio.api.app import _tell_errors
from studio.api.orders import routes
from studio.api.studio import Studio
from studio.models import Models
from tests.studio.conftest import PROMPT
from tests.studio.histories import make_take, publish


@pytest.fixture
def page(library, engine):
    """The routes of orders, with no worker: what is ordered waits."""
    app = FastAPI()
    _tell_errors(app)
    app.include_router(routes(Studio(library, engine)))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def order(page, **changes):
    recipe = {"prompt": PROMPT, "segments": 2, "steps": 1, **changes.pop("recipe", {})}
    body = {"kind": "generate", "model": "starter", "recipe": recipe, **changes}
    return page.post("/api/orders", json=body)


def refusal(page, path: str, body: dict) -> dict:
    """What an order or the estimate of one is refused with."""
    answer = page.post(path, json=body)
    if path == "/api/estimate":
        assert answer.status_code == 200
        return answer.json()["refused"]
    assert answer.status_code == 422
    return answer.json()


def test_tabs_that_order_at_once_each_get_a_session(page, library):
    with ThreadPoolExecutor(6) as tabs:
        answers = list(tabs.map(lambda _: order(page, copies=2).json(), range(6)))
    assert len({answer["session"] for answer in answers}) == 6
    for answer in answers:
        found = {library.jobs.get(job).order.session for job in answer["jobs"]}
        assert found == {answer["session"]}
        first, second = answer["jobs"]
        assert second == first + 1


def test_a_model_that_is_not_listed_is_refused_before_its_folder_is_looked_at(
    page, library, tiny, tmp_path
):
    there = shutil.copytree(tiny, tmp_path / "there")
    take = publish(library, make_take(1))
    retake = {"kind": "retake", "take": take.id, "keep": 0}
    for model in (str(there), str(tmp_path / "nowhere"), "someone/else", "", " starter"):
        for path in ("/api/orders", "/api/estimate"):
            body = {"kind": "generate", "model": model, "recipe": {"prompt": "a"}}
            for asked in (body, {**retake, "changes": {"model": model}}):
                refused = refusal(page, path, asked)
                assert refused["field"] == "model"
                assert refused["fix"] == "Add its folder in Models first."
    answer = page.post("/api/orders", json={**retake, "changes": {"model": ["starter"]}})
    assert answer.status_code == 422
    Models(library.folder).add_folder(str(there))
    assert order(page, model=str(there), recipe={"steps": 2}).status_code == 200


def test_the_model_of_a_take_may_be_used_again_unlisted(page, library, tiny):
    take = make_take(1)
    recipe = take.recipe.model_copy(update={"model": str(tiny)})
    publish(library, take.model_copy(update={"recipe": recipe}))
    asked = {"kind": "retake", "take": take.id, "keep": 0, "changes": {"model": str(tiny)}}
    answer = page.post("/api/orders", json=asked)
    assert answer.status_code == 200 or answer.json()["field"] != "model", answer.text


def test_pictures_have_to_be_copies_in_the_library(page, library, tmp_path):
    data = io.BytesIO()
    Image.new("RGB", (32, 32), "navy").save(data, "PNG")
    (tmp_path / "mine.png").write_bytes(data.getvalue())
    outside = (str(tmp_path / "mine.png"), "/etc/passwd", "inputs/../history.sqlite", 7, ["x"])
    for value in outside:
        for path in ("/api/orders", "/api/estimate"):
            body = {"kind": "generate", "model": "starter", "recipe": {"image": value}}
            refused = refusal(page, path, body)
            assert refused["field"] == "image"
            assert "Give the file to the studio first" in refused["error"]
    take = publish(library, make_take(1))
    asked = {"kind": "retake", "take": take.id, "keep": 0, "changes": {"audio": "/etc/passwd"}}
    assert refusal(page, "/api/estimate", asked)["field"] == "audio"
    copy = library.adopt_file("image", tmp_path / "mine.png")
    told = order(page, recipe={"image": str(copy)}).json()
    # The file is known; it is the model that has no use for it.
    assert told["field"] == "image" and "takes no picture" in told["error"]


def test_locked_segments_are_not_made_anew(page, library):
    one, two = publish(library, make_take(1)), publish(library, make_take(2))
    library.history.lock("sea", 1)
    for path in ("/api/orders", "/api/estimate"):
        refused = refusal(page, path, {"kind": "retake", "take": one.id, "keep": 0})
        assert refused["field"] == "keep"
        assert "unlock" in refused["fix"] and "fork" in refused["fix"]
    asked = {"kind": "retake", "take": two.id, "keep": 0}
    assert page.post("/api/orders", json=asked).status_code == 200
    library.history.lock("sea", 0)
    assert page.post("/api/orders", json={**asked, "take": one.id}).status_code == 200


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadInput("steps", 0, "More."), 422),
        (NotInLibrary("takes/x"), 404),
        (Damaged("takes/x", "it is not JSON"), 410),
        (DiskFull("takes/x", 5), 507),
        (media.DiskFull("The disk is full."), 507),
        (FileChanging("x.png"), 500),
    ],
)
def test_each_failure_has_its_status(error, status):
    app = FastAPI()
    _tell_errors(app)

    @app.get("/")
    def fail() -> None:
        raise error

    answer = TestClient(app, raise_server_exceptions=False).get("/")
    assert (answer.status_code, answer.json()["error"]) == (status, str(error))


def test_a_name_on_the_hub_is_no_way_to_a_file_of_this_machine(page):
    """Neither by a path that climbs, nor by one that lies where the studio runs."""
    for file in ("assets/page/../../../../etc/hostname", "org/name/../../x", "assets/page/api.js"):
        body = {"kind": "generate", "model": "starter", "recipe": {"loras": [{"file": file}]}}
        assert refusal(page, "/api/orders", body)["field"] == "loras"

"""Media over HTTP: chains joined on demand, exports with speaking names, nothing left behind."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from studio import actions, media
from studio.api import create_app
from studio.assemble import VIDEO
from studio.engine import Engine
from studio.library import Library
from studio.take import Take
from tests.studio.conftest import PROMPT

SESSION = "a 猫/boat: “one” \u202e"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    with Library(tmp_path_factory.mktemp("media") / "library") as opened:
        yield opened


@pytest.fixture(scope="module")
def takes(library: Library, engine: Engine) -> list[Take]:
    """A take, and a retake that keeps its first segment."""
    recipe = {"prompt": PROMPT, "segments": 3, "steps": 1}
    first = actions.generate(library, engine, "starter", recipe, [7], SESSION.strip(" \u202e"))
    second = actions.retake(library, engine, first.take.id, 1, [8], {})
    return [first.take, second.take]


@pytest.fixture(scope="module")
def client(library: Library) -> Iterator[TestClient]:
    with TestClient(create_app(library, "127.0.0.1"), base_url="http://127.0.0.1") as opened:
        yield opened


def scratch() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("retake-*/*"))


def name_in(answer) -> str:
    told = answer.headers["content-disposition"]
    assert told.startswith("attachment")
    return unquote(told.partition("filename*=utf-8''")[2]) or told.split('"')[1]


def test_the_prefix_of_a_segment_is_its_chain_up_to_there(client, library, takes, tmp_path):
    second = takes[1]
    whole = media.decode(library.result(second))
    for count in (1, 2, 3):
        segment = second.segments[count - 1]
        answer = client.get(f"/api/prefix/{segment.id}/video")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "video/mp4"
        (tmp_path / "prefix.mp4").write_bytes(answer.content)
        assert np.array_equal(media.decode(tmp_path / "prefix.mp4"), whole[: segment.frames[1]])
        assert media.probe(tmp_path / "prefix.mp4").fps == second.recipe.fps


def test_a_prefix_tells_which_frames_belong_to_which_segment(client, takes):
    told = client.get(f"/api/prefix/{takes[1].segments[2].id}").json()
    assert told["segment_ids"] == [segment.id for segment in takes[1].segments]
    assert told["frames"] == [list(segment.frames) for segment in takes[1].segments]


def test_a_prefix_is_sent_in_the_ranges_that_players_ask_for(client, takes):
    address = f"/api/prefix/{takes[0].segments[1].id}/video"
    whole = client.get(address).content
    part = client.get(address, headers={"Range": "bytes=100-199"})
    assert part.status_code == 206
    assert part.content == whole[100:200]
    assert part.headers["content-range"] == f"bytes 100-199/{len(whole)}"


def test_a_prefix_with_a_gap_or_without_a_segment_is_refused_in_words(client, library, takes):
    for name in ("nothing", "0" * 40, "..%2f..%2fhistory.sqlite"):
        assert client.get(f"/api/prefix/{name}/video").status_code == 404
    moved = library.folder / "segments" / takes[0].segments[1].id
    away = library.folder / "away"
    shutil.move(moved, away)
    try:
        answer = client.get(f"/api/prefix/{takes[0].segments[2].id}/video")
    finally:
        shutil.move(away, moved)
    assert answer.status_code == 404
    assert moved.name in answer.json()["detail"]


def test_a_damaged_segment_is_not_joined(client, library, engine):
    recipe = {"prompt": PROMPT, "segments": 2, "steps": 1}
    take = actions.generate(library, engine, "starter", recipe, [50], "damaged").take
    path = library.folder / "segments" / take.segments[1].id / VIDEO
    path.write_bytes(path.read_bytes()[:500])
    answer = client.get(f"/api/prefix/{take.segments[1].id}/video")
    assert answer.status_code == 404
    assert "cannot be joined" in answer.json()["detail"]


def test_a_take_is_exported_as_it_is_under_a_name_that_says_what_it_is(client, library, takes):
    answer = client.get("/api/export", params={"takes": takes[0].id, "format": "mp4"})
    assert answer.status_code == 200
    assert answer.content == library.result(takes[0]).read_bytes()
    name = name_in(answer)
    assert name == f"a 猫 boat “one” {takes[0].id[:8]} seed 7.mp4"


def test_takes_are_exported_side_by_side_and_larger(client, takes, tmp_path):
    ids = ",".join(take.id for take in takes)
    answer = client.get("/api/export", params={"takes": ids, "format": "mp4", "scale": 2})
    (tmp_path / "reel.mp4").write_bytes(answer.content)
    found, recipe = media.probe(tmp_path / "reel.mp4"), takes[0].recipe
    assert found.frames == takes[0].total_frames
    assert found.width == 2 * 2 * recipe.width
    assert found.height > 2 * recipe.height
    assert "seed" not in name_in(answer)


def test_a_gif_of_a_take_moves(client, takes):
    answer = client.get("/api/export", params={"takes": takes[0].id, "format": "gif"})
    assert answer.headers["content-type"] == "image/gif"
    assert Image.open(io.BytesIO(answer.content)).n_frames > 1


def test_what_cannot_be_exported_is_refused_with_the_field(client, takes):
    one = takes[0].id
    for field, asked in {
        "format": {"takes": one, "format": "avi"},
        "scale": {"takes": one, "scale": 4000},
        "takes": {"takes": ",".join([one] * 5)},
    }.items():
        answer = client.get("/api/export", params=asked)
        assert answer.status_code == 422
        assert answer.json()["field"] == field
    assert client.get("/api/export", params={"takes": one, "format": "png"}).status_code == 422
    assert client.get("/api/export", params={"takes": one, "scale": "big"}).status_code == 422
    assert client.get("/api/export", params={"takes": "0" * 40}).status_code == 404


def test_a_take_whose_file_is_gone_says_so(client, library, engine):
    recipe = {"prompt": PROMPT, "segments": 1, "steps": 1}
    take = actions.generate(library, engine, "starter", recipe, [60], "gone").take
    library.result(take).unlink()
    answer = client.get(f"/api/takes/{take.id}/result")
    assert answer.status_code == 404
    assert "gone" in answer.json()["detail"]
    refused = client.get("/api/export", params={"takes": take.id})
    assert refused.status_code == 422
    assert "damaged" in refused.json()["error"]


def test_exports_leave_no_file_behind_and_the_end_of_the_server_none_at_all(library, takes):
    before = scratch()
    app = create_app(library, "127.0.0.1")
    with TestClient(app, base_url="http://127.0.0.1") as client:
        client.get("/api/export", params={"takes": takes[0].id, "format": "webm"})
        client.get("/api/export", params={"takes": takes[0].id, "format": "mp4", "scale": 4000})
        assert scratch() == before
        client.get(f"/api/prefix/{takes[0].segments[1].id}/video")
        assert len(scratch() - before) == 1
    assert scratch() == before

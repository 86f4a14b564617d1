"""Videos from the page, where a picture may stand: checked, copied by content, served."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from studio.api import files
from studio.library import Library
from tests.fixtures.films import write_film
from tests.fixtures.voices import hum, write_wav


@pytest.fixture(scope="module")
def library(served_library: Library) -> Library:
    return served_library


def give(client: TestClient, kind: str, data: bytes, name: str):
    return client.post(f"/api/inputs?kind={kind}", files={"file": (name, data)})


def film(folder: Path, ending: str = ".mp4", count: int = 5, height: int = 24) -> bytes:
    pictures = np.random.default_rng(0).integers(0, 255, (count, height, 32, 3), np.uint8)
    return write_film(folder / f"film{ending}", pictures, "25", "-an").read_bytes()


@pytest.mark.parametrize(
    ("ending", "kind"),
    [(".mp4", "video/mp4"), (".mov", "video/quicktime"), (".webm", "video/webm")],
)
def test_a_video_is_copied_by_content_and_served_as_what_it_is(
    client, library, tmp_path, ending, kind
):
    data = film(tmp_path, ending)
    first = give(client, "image", data, "me talking.MP4").json()
    assert first["name"] == "me talking.MP4" and first["url"].endswith(f"/image{ending}")
    assert Path(first["path"]).is_relative_to(library.folder / "inputs")
    assert give(client, "image", data, "other.mp4").json()["path"] == first["path"]
    served = client.get(first["url"])
    assert served.content == data and served.headers["content-type"] == kind
    assert served.headers["x-content-type-options"] == "nosniff"
    part = client.get(first["url"], headers={"Range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, data[:4])


def test_the_size_of_a_picture_or_a_video_is_told_as_it_is_read(client, tmp_path):
    turned, upright = Image.new("RGB", (40, 20)), Image.Exif()
    upright[0x0112] = 6
    turned.save(tmp_path / "turned.webp", exif=upright)
    pictures = np.zeros((3, 32, 72, 3), np.uint8)
    narrow = write_film(tmp_path / "narrow.mp4", pictures, "25", "-vf", "setsar=8/9")
    for file, size in ((tmp_path / "turned.webp", (20, 40)), (narrow, (64, 32))):
        url = give(client, "image", file.read_bytes(), file.name).json()["url"]
        assert client.get(f"{url}/size").json() == dict(zip(("width", "height"), size, strict=True))
    assert client.get(f"{url[:-1]}5/size").status_code == 404


@pytest.mark.parametrize("field", ["last_image", "references", "masks"])
def test_where_only_a_picture_may_stand_a_video_is_refused(client, tmp_path, field):
    answer = give(client, field, film(tmp_path), "film.mp4")
    assert answer.status_code == 422 and answer.json()["field"] == field
    assert "not a picture" in answer.json()["error"]


def test_videos_that_cannot_be_used_are_refused_by_the_name_they_came_under(
    client, library, tmp_path
):
    before = set(library.store.keys("inputs"))
    cut = film(tmp_path, count=30)
    small = film(tmp_path, ".mkv", height=8)
    voice = write_wav(tmp_path / "voice.wav", hum(0.5)).read_bytes()
    for data, words in (
        (cut[: len(cut) // 2], "damaged"),
        (small, "32 x 8 pixels: too small"),
        (voice, "not a picture"),
        (b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n", "takes a voice takes mp4, mov"),
    ):
        answer = give(client, "image", data, "mine.mp4")
        assert answer.status_code == 422 and answer.json()["field"] == "image"
        assert words in answer.json()["error"] and "mine.mp4" in answer.json()["error"]
    assert set(library.store.keys("inputs")) == before


def test_a_video_may_be_larger_than_a_picture(client, tmp_path, monkeypatch):
    data = film(tmp_path)
    monkeypatch.setattr(files, "MOST_INPUT_BYTES", 1)
    monkeypatch.setattr(files, "MOST_VIDEO_BYTES", len(data))
    assert give(client, "image", data, "film.mp4").status_code == 200
    monkeypatch.setattr(files, "MOST_VIDEO_BYTES", len(data) - 1)
    refused = give(client, "image", data, "film.mp4")
    assert refused.status_code == 422 and "too large" in refused.json()["error"]

"""Files from the page: results whose recipe comes back, pictures and voices for a recipe."""

from __future__ import annotations

import io
import json
import struct
import wave
import zlib
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from studio import media
from studio.api import create_app, files
from studio.library import Library
from studio.recipe import MAX_SEED, Recipe
from studio.take import embedded

MARKUP = '<img src=x onerror="alert(1)"> ${1+1} {{7*7}} 🪁 \u202eשלום'


@pytest.fixture(scope="module")
def library(served_library: Library) -> Library:
    return served_library


def send(client: TestClient, data: bytes, name: str = "result.mp4"):
    return client.post("/api/open", files={"file": (name, data)})


def give(client: TestClient, kind: str, data: bytes, name: str):
    return client.post("/api/inputs", data={"kind": kind}, files={"file": (name, data)})


def png(told: dict | str | None = None, size: tuple[int, int] = (32, 32)) -> bytes:
    info = PngInfo()
    if told is not None:
        text = told if isinstance(told, str) else json.dumps({"retake": told})
        info.add_itxt("Comment", text)
    out = io.BytesIO()
    Image.new("RGB", size, "navy").save(out, "PNG", pnginfo=info)
    return out.getvalue()


def sound() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((np.sin(np.arange(16_000) / 20) * 9000).astype("<i2").tobytes())
    return out.getvalue()


def told(**changes) -> dict:
    """What a file says of itself, with some of it replaced."""
    recipe = Recipe.make("starter", prompt="a boat", segments=2).model_dump(mode="json")
    recipe |= changes.pop("recipe", {})
    return {"id": "0" * 40, "session": "x", "recipe": recipe, "seeds": [1, 2], **changes}


def scratch(library: Library) -> list[Path]:
    """What is being written now; the lock of the worker is no such thing."""
    return [path for path in (library.folder / "staging").iterdir() if path.is_dir()]


def test_a_result_brings_back_its_recipe_its_seeds_and_its_session(client, library, generate):
    take = generate([7, 8], prompt=MARKUP, session="מפרש 🪁", segments=2, steps=1).take
    answer = send(client, library.result(take).read_bytes(), "../../evil name.mp4")
    assert answer.status_code == 200
    found = answer.json()
    assert found["recipe"]["prompt"] == take.recipe.prompt and found["seeds"] == [7, 8]
    assert (found["take"], found["session"]) == (take.id, "מפרש 🪁")
    assert found["chapters"] == [{"first": 0, "recipe": found["recipe"]}]
    assert found["model_problem"] is None and found["lost"] == []
    assert scratch(library) == []


def test_in_another_library_only_the_recipe_comes_back(client, generate, library, tmp_path):
    take = generate([7], segments=1, steps=1).take
    data = library.result(take).read_bytes()
    with (
        Library(tmp_path / "other") as other,
        TestClient(create_app(other, "127.0.0.1"), base_url="http://127.0.0.1") as elsewhere,
    ):
        found = send(elsewhere, data).json()
    assert found["take"] is None and found["session"] is None
    assert found["recipe"]["prompt"] == take.recipe.prompt and found["seeds"] == take.seeds


def test_a_take_in_the_trash_is_not_offered(client, library, generate):
    take = generate([7], segments=1, steps=1).take
    data = library.result(take).read_bytes()
    client.delete(f"/api/takes/{take.id}")
    assert send(client, data).json()["take"] is None


def test_chapters_come_back(client):
    later = Recipe.make("starter", prompt="a storm", segments=2).model_dump(mode="json")
    recipe = told()["recipe"]
    chapters = [{"first": 0, "recipe": recipe}, {"first": 1, "recipe": later}]
    found = send(client, png(told(chapters=chapters)), "a.png").json()
    assert [c["first"] for c in found["chapters"]] == [0, 1]
    assert found["chapters"][1]["recipe"]["prompt"] == "a storm"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("plain.png", png()),
        ("other.png", png('{"parameters": "Steps: 20"}')),
        ("nothing.mp4", b""),
        ("text.mp4", b"hello there, this is no video at all"),
        ("cut.png", png(told())[:60]),
        ("bomb.mp4", struct.pack(">I4s", 0xFFFFFFFF, b"moov") * 9),
    ],
)
def test_a_file_without_a_recipe_is_told_to_hold_none(client, library, name, data):
    answer = send(client, data, name)
    assert answer.status_code == 422 and answer.json()["field"] == "file"
    assert "holds no recipe of Retake" in answer.json()["error"]
    assert scratch(library) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": {"prompt": ""}},
        {"recipe": {"width": 10**9}},
        {"recipe": {"run": "rm -rf"}},
        {"recipe": {"segments": 3}},
        {"seeds": [1, -2]},
        {"seeds": [1, MAX_SEED + 1]},
        {"seeds": [1, "2"]},
        {"seeds": [True, 2]},
        {"seeds": "12"},
        {"chapters": [{"first": 1, "recipe": told()["recipe"]}]},
        {"chapters": [{"first": 0, "recipe": told()["recipe"]}] * 2},
        {"chapters": 7},
        {"recipe": {"prompt": "x" * 20_001}},
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused_in_words(client, changes):
    answer = send(client, png(told(**changes)), "a.png")
    assert answer.status_code == 422
    assert answer.json()["field"] == "file" and "damaged" in answer.json()["error"]


def test_a_file_may_name_no_file_but_the_copies_in_the_library(client, library, tmp_path):
    mine = give(client, "image", png(), "my cat.png").json()["path"]
    inside = str(Path(mine).relative_to(library.folder))
    for path in (mine, inside):
        found = send(client, png(told(recipe={"image": path})), "a.png").json()
        assert (found["recipe"]["image"], found["lost"]) == (mine, [])
    secret = tmp_path / "inputs" / Path(mine).parent.name / "image.png"
    secret.parent.mkdir(parents=True)
    secret.write_bytes(png())
    for path in (
        "/etc/passwd",
        str(secret),
        f"../{inside}",
        inside.replace("inputs/", "inputs/../inputs/"),
        "inputs/../../history.sqlite",
        f"{Path(inside).parent}/manifest.json",
        f"inputs/{'0' * 40}/image.png",
        "//evil.example/share/image.png",
    ):
        found = send(client, png(told(recipe={"image": path})), "a.png").json()
        assert (found["recipe"]["image"], found["lost"]) == (None, ["image"]), path


def test_a_folder_that_a_file_names_as_its_model_is_not_opened(client, tiny):
    found = send(client, png(told(recipe={"model": str(tiny)})), "a.png").json()
    assert "not among the models" in found["model_problem"]
    client.post("/api/models/folder", json={"folder": str(tiny)})
    assert (
        send(client, png(told(recipe={"model": str(tiny)})), "a.png").json()["model_problem"]
        is None
    )
    absent = told(recipe={"model": "skyreels-v2-df-14b-720p"})
    assert "not on this machine" in send(client, png(absent), "a.png").json()["model_problem"]


def test_a_file_that_is_too_large_is_refused_and_leaves_nothing(client, library, monkeypatch):
    monkeypatch.setattr(files, "MOST_RESULT_BYTES", 100_000)
    assert "too large" in send(client, b"x" * 100_001).json()["error"]

    def pieces():
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n'
        for _ in range(300):
            yield b"x" * 1000

    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    unknown_length = client.post("/api/open", content=pieces(), headers=kind)
    assert unknown_length.status_code == 422 and "too large" in unknown_length.json()["error"]
    assert scratch(library) == []


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"--b"),
        ("multipart/form-data; boundary=b", b"no boundary here"),
        ("multipart/form-data; boundary=b", b"--b--\r\n"),
    ],
)
def test_a_request_that_is_no_upload_is_refused(client, kind, body):
    answer = client.post("/api/open", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 422 and answer.json()["field"] == "file"


@pytest.mark.parametrize(
    ("name", "form", "kind"),
    [
        ("Foto é.JPG", "JPEG", "image/jpeg"),
        ("a.png", "PNG", "image/png"),
        ("x", "WEBP", "image/webp"),
    ],
)
def test_a_picture_is_copied_by_content_and_served(client, library, name, form, kind):
    out = io.BytesIO()
    Image.new("RGB", (40, 20), "teal").save(out, form)
    first = give(client, "image", out.getvalue(), name).json()
    assert first["name"] == name and Path(first["path"]).is_relative_to(library.folder / "inputs")
    assert give(client, "image", out.getvalue(), "other name.png").json()["path"] == first["path"]
    served = client.get(first["url"])
    assert served.content == out.getvalue()
    assert served.headers["content-type"] == kind
    assert served.headers["x-content-type-options"] == "nosniff"
    recipe = Recipe.make("skyreels-v2-df-1.3b-540p", prompt="a", image=first["path"])
    assert library.adopt(recipe).image == Path(first["path"])


def test_a_picture_is_served_as_what_it_is_whatever_it_is_called(client):
    told = give(client, "image", png(), "page.html").json()
    assert told["url"].endswith("/image.png")
    assert client.get(told["url"]).headers["content-type"] == "image/png"


def test_a_sound_is_checked_copied_and_served(client):
    told = give(client, "audio", sound(), "voice.wav").json()
    assert client.get(told["url"]).headers["content-type"] == "audio/wav"
    part = client.get(told["url"], headers={"Range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, b"RIFF")


@pytest.mark.parametrize(
    ("kind", "name", "data", "words"),
    [
        ("image", "a.png", b"<svg onload=alert(1)>", "not a picture"),
        ("image", "a.png", png()[:-30], "damaged"),
        ("image", "a.png", png(size=(8, 8)), "too small"),
        ("image", "a.png", b"", "not a picture"),
        ("audio", "a.wav", png(), "not a sound"),
        ("audio", "a.wav", b"RIFF\0\0\0\0WAVE" + b"\0" * 99, "no sound"),
        ("audio", "a.mp3", b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n", "not a sound"),
        ("audio", "a.wav", b"ffconcat version 1.0\nfile /etc/passwd\n", "not a sound"),
        ("video", "a.mp4", b"x", "image, last_image"),
    ],
)
def test_what_is_no_picture_or_no_sound_is_refused(client, library, kind, name, data, words):
    before = set(library.store.keys("inputs"))
    answer = give(client, kind, data, name)
    assert answer.status_code == 422 and words in answer.json()["error"]
    assert answer.json()["field"] in (kind, "kind")
    assert set(library.store.keys("inputs")) == before


def test_a_picture_with_too_many_pixels_is_refused_by_its_header(client):
    data = bytearray(png())
    data[16:24] = struct.pack(">II", 60_000, 60_000)
    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    answer = give(client, "image", bytes(data), "bomb.png")
    assert answer.status_code == 422 and "too large" in answer.json()["error"]


def test_only_pictures_and_sounds_are_served_from_the_inputs(client, library, generate):
    take = generate([1], segments=1, steps=1).take
    key = next(iter(take.encoder_keys.values()))
    names = [path.name for path in (library.folder / "inputs" / key).iterdir()]
    for name in [*names, "../../history.sqlite", "image.png", "..%2f..%2fhistory.sqlite"]:
        assert client.get(f"/api/inputs/{key}/{name}").status_code == 404


def test_a_sound_in_a_result_is_kept_by_the_recipe(client, library, generate):
    told = give(client, "audio", sound(), "voice.wav").json()
    take = generate([1], segments=1, steps=1).take
    named = take.model_copy(
        update={"recipe": take.recipe.model_copy(update={"audio": Path(told["path"])})}
    )
    data = png(embedded(library.portable(named)))
    assert send(client, data, "a.png").json()["recipe"]["audio"] == told["path"]
    media.check_audio(Path(told["path"]))


def test_too_many_fields_and_fields_without_an_end_are_refused(client, library, monkeypatch):
    monkeypatch.setattr(files, "MOST_INPUT_BYTES", 100_000)
    few = {f"field {number}": "x" for number in range(7)}
    one_file = {"file": ("a.png", png())}
    fine = client.post("/api/inputs?kind=image", data={"kind": "image", **few}, files=one_file)
    assert fine.status_code == 200
    many = {f"field {number}": "x" for number in range(9)}
    refused = client.post("/api/inputs?kind=image", data=many, files=one_file)
    assert refused.status_code == 422 and "at most 8 fields" in refused.json()["error"]

    def pieces():
        yield b'--b\r\nContent-Disposition: form-data; name="kind"\r\n\r\n'
        for _ in range(400):
            yield b"x" * 1000

    kind = {"Content-Type": "multipart/form-data; boundary=b"}
    endless = client.post("/api/inputs", content=pieces(), headers=kind)
    assert endless.status_code == 422 and "too large" in endless.json()["error"]
    assert scratch(library) == []


def test_a_sample_fills_prompt_picture_and_voice(client):
    told = client.post("/api/samples", json={"model": "talking", "number": 0}).json()
    assert told["recipe"]["prompt"] == "a person talks"
    for field, name in (("image", "face.png"), ("audio", "voice.wav")):
        path = told["recipe"][field]
        assert told["files"][path] == name
        url = "/api/inputs/" + "/".join(Path(path).parts[-2:])
        assert client.get(url).content == (Path("assets/talking") / name).read_bytes()


def test_a_folder_that_was_not_added_gives_no_sample(client, tmp_path):
    asked = {"model": str(tmp_path), "number": 0}
    assert client.post("/api/samples", json=asked).status_code == 422

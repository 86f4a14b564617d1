"""What people are told of a file that cannot be used: by the name that they know it by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipelines.errors import BadInput
from studio import actions
from studio.engine import Engine
from studio.library import Library
from studio.recipe import Recipe
from tests.fixtures.voices import hum, write_wav
from tests.studio.talking import TALKING

SIZE = (384, 256)


@pytest.fixture
def voices(tmp_path) -> dict[str, Path]:
    written = [write_wav(tmp_path / f"{n}.wav", hum(1.0, pitch=150 + 50 * n)) for n in (1, 2)]
    return dict(zip(("audio", "audio_2"), written, strict=True))


def mask(path: Path, left: int, right: int, size: tuple[int, int] = SIZE) -> Path:
    """White between two columns."""
    pixels = np.zeros(size[::-1], np.uint8)
    pixels[:, left:right] = 255
    Image.fromarray(pixels).save(path)
    return path


def upload(client, field: str, path: Path) -> str:
    with path.open("rb") as file:
        answer = client.post(f"/api/inputs?kind={field}", files={"file": (path.name, file)})
    return answer.json()["path"]


def test_a_mask_that_cannot_be_used_is_refused_by_its_own_name(
    client, served_library, voices, tmp_path
):
    recipe = {name: upload(client, name, path) for name, path in voices.items()}
    recipe |= {"prompt": "two people", "image": upload(client, "image", TALKING / "faces.png")}
    good = upload(client, "masks", mask(tmp_path / "good.png", 0, 192))
    for bad, words in (
        (mask(tmp_path / "small.png", 0, 9, (40, 40)), "Mask 2 is 40 x 40 pixels"),
        (mask(tmp_path / "white.png", 0, 384), "Mask 2 is white all over"),
        (mask(tmp_path / "black.png", 0, 0), "Mask 2 is black all over"),
    ):
        given = {**recipe, "masks": [good, upload(client, "masks", bad)]}
        body = {"kind": "generate", "model": "talking", "recipe": given}
        answer = client.post("/api/orders", json=body)
        assert answer.status_code == 422 and answer.json()["field"] == "masks"
        assert answer.json()["error"].startswith(f"masks: '{bad.name}' cannot be used. {words}")
        refused = client.post("/api/estimate", json=body).json()["refused"]
        assert refused == answer.json()
    # Somebody else opens the library, and gives what they call otherwise.
    with Library(served_library.folder) as again:
        copy = Path(given["masks"][1])
        assert again.called(copy) == "black.png"
        again.adopt_file("image", bad, "night.png")
        assert again.called(copy) == "night.png"


def test_a_voice_that_turns_out_to_be_silent_is_named_as_it_was_given(library, tmp_path):
    voice = write_wav(tmp_path / "nobody.wav", np.zeros(16_000, np.float32))
    given = {"prompt": "a face", "image": TALKING / "face.png", "audio": voice, "segments": 1}
    with pytest.raises(BadInput, match="silent") as refused:
        actions.generate(library, Engine(), "talking", given, [1])
    assert (refused.value.field, refused.value.value) == ("audio", str(voice))


def test_a_damaged_copy_is_named_as_its_file_was_given(library):
    copy = library.adopt_file("image", TALKING / "face.png", "me.png")
    copy.write_bytes(copy.read_bytes()[:-20])
    with pytest.raises(BadInput, match=r"'me.png' cannot be used\. The copy in the library"):
        library.adopt(Recipe.make("talking", prompt="a face", image=copy))


def test_a_browser_is_told_of_a_damaged_copy_in_the_same_words(client, tmp_path):
    picture = mask(tmp_path / "me.png", 3, 9)
    copy = upload(client, "image", picture)
    Path(copy).write_bytes(picture.read_bytes()[:-20])
    body = {"kind": "generate", "model": "talking", "recipe": {"prompt": "a face", "image": copy}}
    for damage in (lambda: None, Path(copy).unlink):
        damage()
        told = client.post("/api/orders", json=body).json()["error"]
        assert told.startswith("image: 'me.png' cannot be used. The copy in the library is damaged")

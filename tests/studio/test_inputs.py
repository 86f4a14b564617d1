"""Files that a recipe names count by their content, never by their name."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from PIL import Image

from studio import actions
from studio.engine import Engine
from studio.errors import BadInput
from studio.library import Library
from tests.studio.conftest import PROMPT

SMALL = {"width": 32, "height": 32, "frames": 9, "overlap": 5, "segments": 2, "steps": 2}


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "my picture ü.png"
    Image.new("RGB", (48, 40), (200, 30, 30)).save(path)
    return path


def from_picture(library, engine, tiny, picture, seed=1, **given):
    recipe = {"prompt": PROMPT, "image": picture, **SMALL, **given}
    return actions.generate(library, engine, str(tiny), recipe, [seed])


def test_an_edited_picture_under_the_same_name_is_a_miss(library, engine, tiny, picture):
    first = from_picture(library, engine, tiny, picture)
    assert from_picture(library, engine, tiny, picture).encoder_source == "reused"
    Image.new("RGB", (48, 40), (30, 30, 200)).save(picture)
    edited = from_picture(library, engine, tiny, picture)
    assert edited.encoder_source == "computed"
    assert edited.sources == ["generated"] * 2
    assert edited.take.id != first.take.id


def test_the_same_picture_under_another_name_is_a_hit(library, engine, tiny, picture, tmp_path):
    first = from_picture(library, engine, tiny, picture)
    other = picture.rename(tmp_path / "renamed.png")
    again = from_picture(library, engine, tiny, other)
    assert again.take.id == first.take.id and again.sources == ["reused"] * 2


def test_a_take_can_be_continued_after_its_picture_is_gone(library, engine, tiny, picture):
    first = from_picture(library, engine, tiny, picture)
    picture.unlink()
    again = actions.retake(library, engine, first.take.id, 1, [9])
    assert again.sources == ["reused", "generated"] and again.encoder_source == "reused"


def test_a_library_with_pictures_can_be_moved(library, engine, tiny, picture, tmp_path):
    first = from_picture(library, engine, tiny, picture)
    library.close()
    moved = library.folder.rename(tmp_path / "moved")
    with Library(moved) as opened:
        again = actions.retake(opened, engine, first.take.id, 1, [9])
        assert again.sources == ["reused", "generated"]


def test_a_changed_picture_with_a_kept_prefix_is_refused_by_name(library, engine, tiny, picture):
    from studio.errors import NotCompatible

    first = from_picture(library, engine, tiny, picture)
    other = picture.with_name("other.png")
    Image.new("RGB", (48, 40), (1, 2, 3)).save(other)
    with pytest.raises(NotCompatible, match="image"):
        actions.retake(library, engine, first.take.id, 1, [9], {"image": other})


def test_a_new_prompt_goes_on_from_the_same_picture_under_another_name(
    library, engine, tiny, picture
):
    first = from_picture(library, engine, tiny, picture).take
    other = picture.rename(picture.with_name("other.jpeg"))
    changes = {"prompt": "a white kite at noon", "image": other}
    again = actions.retake(library, engine, first.id, 1, [9], changes)
    assert again.sources == ["reused", "generated"]
    images = {chapter.recipe.image for chapter in again.take.chapters}
    assert len(again.take.chapters) == 2 and images == {first.recipe.image}


def test_a_library_can_be_moved_after_the_prompt_changed(library, engine, tiny, picture, tmp_path):
    first = from_picture(library, engine, tiny, picture).take
    changed = actions.retake(library, engine, first.id, 1, [9], {"prompt": "a kite"}).take
    library.close()
    with Library(library.folder.rename(tmp_path / "moved")) as opened:
        take = opened.take(changed.id)
        for chapter in take.chapters:
            assert chapter.recipe.image.is_relative_to(tmp_path / "moved")
            assert chapter.recipe.image.is_file()


def test_a_damaged_copy_of_a_picture_is_named_and_never_used(library, engine, tiny, picture):
    first = from_picture(library, engine, tiny, picture)
    copy = library.read_take(first.take.id).recipe.image
    copy.write_bytes(copy.read_bytes()[:-20] + b"x" * 20)
    with pytest.raises(BadInput, match=r"image.*damaged"):
        actions.retake(library, engine, first.take.id, 0, [9])


def test_changing_only_the_prompt_encodes_only_the_prompt(library, engine, tiny, picture):
    from_picture(library, engine, tiny, picture)
    other = from_picture(library, engine, tiny, picture, prompt="a white kite at noon")
    assert other.encoders == {"prompt": "computed", "negative_prompt": "reused", "image": "reused"}


def test_a_manifest_cannot_point_out_of_the_library(library, engine, tiny, picture):
    from reuse import Damaged

    take = from_picture(library, engine, tiny, picture).take
    for path in (Path("/etc/passwd"), Path("../../secret")):
        recipe = take.recipe.model_copy(update={"image": path})
        with pytest.raises(Damaged):
            library.located(take.model_copy(update={"recipe": recipe}))


def test_a_file_that_is_no_picture_is_refused_before_a_model_is_loaded(library, tiny, tmp_path):
    engine = Engine()
    wrong = tmp_path / "notes.png"
    wrong.write_text("not a picture")
    with pytest.raises(BadInput, match="image"):
        from_picture(library, engine, tiny, wrong)
    assert engine.pipeline(str(tiny)).loaded == frozenset()
    assert list(library.store.keys("inputs")) == []


def test_a_model_without_pictures_or_voices_refuses_them(library, engine, picture):
    for field in ("image", "audio"):
        with pytest.raises(BadInput, match=field):
            actions.generate(library, engine, "starter", {"prompt": PROMPT, field: picture}, [1])


def test_a_copy_is_read_once_and_again_only_after_it_was_written_to(library, tmp_path):
    (tmp_path / "voice.wav").write_bytes(b"x" * 1000)
    copy = library.adopt_file("audio", tmp_path / "voice.wav")
    key = copy.parent.name
    time.sleep(2.1)  # Only a file at rest is remembered.
    assert library.has_input(key)
    with closing(sqlite3.connect(library.folder / "hashes.sqlite")) as remembered:
        names = {os.fsdecode(row[0]) for row in remembered.execute("SELECT path FROM hashes")}
    assert str(copy.resolve()) in names
    copy.chmod(0o600)
    copy.write_bytes(b"y" * 1000)
    assert not library.has_input(key)
    assert not library.has_input("0" * 40)

"""A video as reference and masks stay with a take: in its manifest, its retakes and its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipelines.errors import BadInput
from pipelines.infinitetalk.reference import moves
from studio import actions, inputs, media
from studio.engine import Engine
from studio.estimate import estimate
from studio.library import Library
from studio.opened import open_result
from tests.fixtures.films import write_film
from tests.fixtures.tiny_infinitetalk import build
from tests.fixtures.voices import hum, write_wav

SETTINGS = {
    "prompt": "a cat and a dog", "width": 48, "height": 32, "frames": 9, "overlap": 5, "steps": 1,
    "guidance_scale": 1.0, "audio_scale": 1.0,
}  # fmt: skip

MORE = pytest.mark.thorough


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(build(tmp_path_factory.mktemp("checkpoints") / "tiny-infinitetalk"))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


@pytest.fixture(scope="module")
def library(tmp_path_factory, one_thread):
    with Library(tmp_path_factory.mktemp("library") / "library") as opened:
        yield opened


@pytest.fixture(scope="module")
def film(tmp_path_factory) -> Path:
    """Another picture at each beginning of a segment: 0, 4, 8 and so on."""
    pictures = np.random.default_rng(0).integers(0, 255, (9, 40, 60, 3), np.uint8)
    return write_film(tmp_path_factory.mktemp("films") / "film.mp4", pictures.repeat(4, axis=0))


@pytest.fixture(scope="module")
def voice(tmp_path_factory) -> Path:
    """Of 17 frames: three segments."""
    return write_wav(tmp_path_factory.mktemp("voices") / "voice.wav", hum(17 / 25))


@pytest.fixture(scope="module")
def first(library, engine, model, film, voice):
    given = {**SETTINGS, "image": film, "audio": voice}
    return actions.generate(library, engine, model, given, (1, 2, 3))


def shown(library, one) -> np.ndarray:
    return media.decode(library.result(one.take))


def test_the_video_is_kept_in_the_library_and_named_by_the_take(library, first, film):
    kept = first.take.recipe.image
    assert kept.is_relative_to(library.folder / "inputs") and kept.name == "image.mp4"
    assert kept.read_bytes() == film.read_bytes()
    again = library.read_take(first.take.id)
    assert again.recipe == first.take.recipe


@pytest.mark.parametrize("keep", [pytest.param(0, marks=MORE), 1, pytest.param(2, marks=MORE)])
def test_a_retake_from_any_segment_with_the_old_seeds_is_the_same_to_the_bit(
    library, engine, model, first, film, voice, tmp_path, keep
):
    """Segments after the kept ones are made anew, in a library that has only those."""
    with Library(tmp_path / "other") as other:
        given = {**SETTINGS, "image": film, "audio": voice}
        base = actions.generate(other, engine, model, given, (*(1, 2, 3)[:keep], *[9] * (3 - keep)))
        again = actions.retake(other, engine, base.take.id, keep, (1, 2, 3)[keep:])
        assert again.sources == ["reused"] * keep + ["generated"] * (3 - keep)
        assert set(again.encoders.values()) == {"reused"}
        digests = [
            [one.store.manifest("segments", part.id)["frames_sha256"] for part in take.segments]
            for one, take in ((library, first.take), (other, again.take))
        ]
        assert digests[0] == digests[1]
        assert [part.id for part in again.take.segments] == [p.id for p in first.take.segments]


@pytest.mark.thorough
def test_a_new_ending_of_the_speech_keeps_the_segments_before_it(library, engine, first, tmp_path):
    longer = np.concatenate([hum(17 / 25)[: 12 * 640], hum(20 / 25, pitch=90)])
    changes = {"audio": write_wav(tmp_path / "longer.wav", longer)}
    second = actions.retake(library, engine, first.take.id, 1, (4,), changes)
    assert second.sources[0] == "reused" and len(second.take.segments) == 7
    frames = [shown(library, one) for one in (first, second)]
    assert np.array_equal(frames[0][:9], frames[1][:9])
    third = actions.retake(library, engine, second.take.id, 4, (5,))
    assert third.sources == ["reused"] * 4 + ["generated"] * 3
    assert np.array_equal(shown(library, third)[:21], frames[1][:21])


def test_more_segments_of_the_same_voice_keep_those_that_are_there(
    library, engine, model, film, voice
):
    given = {**SETTINGS, "image": film, "audio": voice, "segments": 2}
    short = actions.generate(library, engine, model, given, (11, 12))
    longer = actions.retake(library, engine, short.take.id, 2, (13,), {"segments": 3})
    assert longer.sources == ["reused", "reused", "generated"]
    assert set(longer.encoders.values()) == {"reused"}


def test_another_video_cannot_follow_a_segment_that_is_kept(library, engine, first, tmp_path):
    other = write_film(tmp_path / "other.mp4", np.zeros((9, 40, 60, 3), np.uint8))
    with pytest.raises(Exception, match="image"):
        actions.order_retake(library, engine, first.take.id, 1, (4,), {"image": other})
    order = actions.order_retake(library, engine, first.take.id, 0, (4,), {"image": other})
    assert order.recipe.image.read_bytes() == other.read_bytes()


def test_a_result_that_is_opened_brings_its_video_back(library, first, tmp_path):
    opened = open_result(library, library.result(first.take))
    assert opened.chapters[0].recipe == first.take.recipe and opened.lost == ()
    with Library(tmp_path / "other") as other:
        opened = open_result(other, library.result(first.take))
        assert opened.lost == ("image", "audio") and opened.chapters[0].recipe.image is None


def test_size_and_length_of_a_video_are_told_before_the_run(library, engine, model, film, voice):
    given = {**SETTINGS, "image": film, "audio": voice, "width": 640, "height": 640}
    order = actions.order_take(library, engine, model, given)
    told = estimate(library, engine, order)
    assert (told.width, told.height, told.frames, told.segments) == (768, 512, 17, 3)


def test_a_video_is_refused_by_name_before_there_is_a_take(library, engine, model, voice, tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"\0\0\0\x18ftypisom" + b"\0" * 80)
    before = set(library.history.take_ids())
    for path, words in ((broken, "damaged"), (voice, "neither a picture nor a video")):
        with pytest.raises(BadInput, match=words) as refusal:
            given = {**SETTINGS, "image": path, "audio": voice}
            actions.generate(library, engine, model, given, (1,))
        assert refusal.value.field == "image"
    assert set(library.history.take_ids()) == before


def test_a_model_without_a_voice_refuses_a_video(library, engine, film):
    with pytest.raises(BadInput, match="takes no picture") as refusal:
        actions.order_take(library, engine, "starter", {"prompt": "a boat", "image": film})
    assert refusal.value.field == "image"


def test_masks_stay_with_a_take_its_retakes_and_its_file(
    library, engine, model, film, voice, tmp_path
):
    masks = []
    for name, columns in (("left", slice(0, 30)), ("right", slice(30, 60))):
        pixels = np.zeros((40, 60), np.uint8)
        pixels[:, columns] = 255
        masks.append(tmp_path / f"{name}.png")
        Image.fromarray(pixels).save(masks[-1])
    given = {**SETTINGS, "image": film, "audio": voice, "audio_2": voice}
    take = actions.generate(library, engine, model, {**given, "masks": masks}, (1, 2, 3)).take
    kept = library.read_take(take.id).recipe.masks
    assert [path.read_bytes() for path in kept] == [path.read_bytes() for path in masks]
    assert all(path.is_relative_to(library.folder / "inputs") for path in kept)
    masks[0].unlink()

    again = actions.retake(library, engine, take.id, 2, (9,))
    assert again.sources == ["reused", "reused", "generated"]
    assert again.take.recipe.masks == kept
    opened = open_result(library, library.result(again.take))
    assert opened.chapters[0].recipe.masks == kept and opened.lost == ()

    swapped = {"masks": [str(path) for path in kept[::-1]]}
    other = actions.retake(library, engine, take.id, 1, (2,), swapped)
    assert other.sources == ["reused", "generated", "generated"]
    assert [chapter.recipe.masks for chapter in other.take.chapters] == [kept, kept[::-1]]
    boxes = {"masks": None, "faces": "0,0,30,40;30,0,60,40"}
    order = actions.order_retake(library, engine, take.id, 1, (2,), boxes)
    assert order.later[0].recipe.masks == () and order.recipe.masks == kept
    with pytest.raises(BadInput, match="one or the other"):
        actions.order_retake(library, engine, take.id, 0, (2,), {"faces": boxes["faces"]})


def test_a_moving_picture_that_was_cut_short_is_refused_when_it_is_given(library, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 255, (6, 64, 96, 3), np.uint8)
    first, *others = [Image.fromarray(one) for one in pixels]
    first.save(tmp_path / "whole.gif", save_all=True, append_images=others, duration=100)
    data = (tmp_path / "whole.gif").read_bytes()
    refused = 0
    for end in range(len(data) // 4, len(data), len(data) // 40):
        path = tmp_path / "cut.gif"
        path.write_bytes(data[:end])
        try:
            kept = inputs.adopt(library, "image", path, "cut.gif")
        except BadInput as error:
            refused += 1
            assert error.field == "image"
        else:
            assert moves(kept) in (True, False)
    assert refused


def test_a_video_by_any_name_is_kept_by_one_that_is_served(library, engine, model, film, voice):
    phone = film.with_name("phone.3gp")
    phone.write_bytes(film.read_bytes())
    given = {**SETTINGS, "image": phone, "audio": voice}
    kept = actions.order_take(library, engine, model, given).recipe.image
    assert kept.name == "image.mp4" and inputs.served_as(kept.name) == "video/mp4"

"""A video as reference: each segment is made after what is seen in it when the segment begins."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TalkRecipe, assert_same, chain, encode, seeded
from PIL import Image

from pipelines.errors import BadInput
from pipelines.infinitetalk import InfiniteTalk, plan
from pipelines.infinitetalk.encoders import encode_film
from pipelines.infinitetalk.reference import SEEN
from reuse import FileHashes, digest, resolve
from tests.fixtures.films import write_film
from tests.fixtures.tiny_infinitetalk import build
from tests.fixtures.voices import hum, write_wav

VERY_SMALL = {
    "segments": 9, "frames": 9, "overlap": 5, "width": 48, "height": 32, "fps": 25, "steps": 1,
    "guidance_scale": 1.0, "shift": 7.0, "audio_scale": 1.0, "color_correction": 1.0, "apg": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def talk(tmp_path_factory, one_thread) -> InfiniteTalk:
    folder = build(tmp_path_factory.mktemp("checkpoints") / "tiny-infinitetalk")
    return InfiniteTalk.open(folder, device="cpu")


@pytest.fixture(scope="module")
def faces() -> np.ndarray:
    """Two pictures that have little in common."""
    return np.random.default_rng(0).integers(0, 255, (2, 40, 60, 3), np.uint8)


@pytest.fixture(scope="module")
def films(faces, tmp_path_factory) -> dict[str, Path]:
    """17 pictures each: all alike, and another one from number 4 or 8 on. Segments begin there."""
    where = tmp_path_factory.mktemp("films")
    order = {"same": [0] * 17, "at 4": [0] * 4 + [1] * 13, "at 8": [0] * 8 + [1] * 9}
    found = {name: write_film(where / f"{name}.mkv", faces[one]) for name, one in order.items()}
    Image.fromarray(faces[0]).save(where / "still.png")
    return found | {"still": where / "still.png"}


def speech(path: Path, frames: int, pitch: float = 180.0) -> Path:
    return write_wav(path, hum(frames / 25, pitch=pitch))


@pytest.fixture(scope="module")
def voice(tmp_path_factory) -> Path:
    """Of 17 frames: three segments."""
    return speech(tmp_path_factory.mktemp("voices") / "voice.wav", 17)


@pytest.fixture(scope="module")
def asked(films, voice) -> TalkRecipe:
    return TalkRecipe(image=films["at 4"], audio=voice, **VERY_SMALL)


@pytest.fixture(scope="module")
def given(talk, asked):
    return encode(talk, asked)


@pytest.fixture(scope="module")
def whole(talk, asked, given):
    return chain(talk, asked, inputs=given)


@pytest.fixture(scope="module")
def still(talk, asked, films):
    return chain(talk, asked.but(image=films["still"]))


def test_a_video_of_one_picture_makes_what_the_picture_makes_to_the_bit(talk, asked, films, still):
    ours = chain(talk, asked.but(image=films["same"]))
    assert len(ours) == len(still) == 3
    for moving, picture in zip(ours, still, strict=True):
        assert_same(moving, picture)


def test_a_segment_is_made_after_what_is_seen_when_it_begins(talk, asked, films, whole, still):
    assert [len(output.frames) for output in whole] == [9, 4, 4]
    assert_same(whole[0], still[0])
    assert not np.array_equal(whole[1].frames, still[1].frames)
    later = chain(talk, asked.but(image=films["at 8"]))
    for same in (0, 1):
        assert_same(later[same], still[same])
    assert not np.array_equal(later[2].frames, still[2].frames)


@pytest.mark.parametrize("i", [2, 0, 1])
def test_any_segment_made_again_is_bit_identical(talk, asked, given, whole, i):
    boundary = whole[i - 1].boundary if i else None
    assert_same(talk.generate(asked, given, i, boundary, seeded(i + 1)), whole[i])


def test_what_is_stored_of_a_segment_is_its_picture_and_what_clip_sees(talk, given, faces, films):
    pictures = {name: tensor.shape for name, tensor in given.items() if name.startswith("image")}
    assert pictures == {"image_pixels": (3, 32, 48, 3), "image_clip": (3, 5, 40)}
    assert given["image_pixels"].dtype == torch.uint8
    assert torch.equal(given["image_pixels"][1], given["image_pixels"][2])
    assert not torch.equal(given["image_pixels"][0], given["image_pixels"][1])
    assert not torch.equal(given["image_clip"][0], given["image_clip"][1])


def test_colours_are_held_to_those_of_the_first_picture(talk, asked, films, faces, tmp_path):
    """As published: the second picture, darker all over, does not darken what is made after it."""
    dark = write_film(tmp_path / "dark.mkv", [*[faces[0]] * 4, *[faces[0] // 4] * 13])
    recipe = asked.but(image=dark)
    outputs = chain(talk, recipe)
    wanted = faces[0].mean()
    assert all(abs(output.frames.mean() - wanted) < 12 for output in outputs)


def test_a_video_that_is_shorter_holds_its_last_picture(talk, asked, faces, films, tmp_path):
    short = write_film(tmp_path / "short.mkv", faces[[0, 0, 1]])
    inputs = encode(talk, asked.but(image=short))
    pixels = inputs["image_pixels"]
    assert torch.equal(pixels[1], pixels[2]) and not torch.equal(pixels[0], pixels[1])
    single = write_film(tmp_path / "single.mkv", faces[:1])
    assert len(encode(talk, asked.but(image=single))["image_pixels"]) == 3


def key(pipeline, recipe) -> str:
    return digest("inputs", resolve(pipeline.encoder_inputs(recipe), FileHashes())["image"])


def test_the_key_is_made_of_what_decides_which_pictures_are_seen(
    talk, asked, films, voice, tmp_path
):
    before = key(talk, asked)
    for change in ({"frames": 13}, {"overlap": 1}, {"fps": 24}, {"width": 64}):
        assert key(talk, asked.but(**change)) != before, change
    assert key(talk, asked.but(image=films["at 8"])) != before
    copy = tmp_path / "copy.mkv"
    copy.write_bytes(films["at 4"].read_bytes())
    other_words = speech(tmp_path / "other.wav", 16, pitch=300)
    for change in (
        {"image": copy}, {"audio": other_words}, {"segments": 1}, {"steps": 7}, {"tiling": "on"},
    ):  # fmt: skip
        assert key(talk, asked.but(**change)) == before, change
    assert key(talk, asked.but(audio=speech(tmp_path / "long.wav", 18))) != before
    tiled = asked.but(tiling="on")
    assert talk.segment_inputs(tiled) != talk.segment_inputs(asked)
    assert talk.encoder_inputs(asked)["image"]["image_seen"] == SEEN
    assert talk.segment_inputs(asked) == talk.segment_inputs(asked.but(image=films["still"]))


def test_the_key_of_a_picture_is_what_it_was(talk, asked, films):
    parts = talk.encoder_inputs(asked.but(image=films["still"]))
    assert "fps" not in parts["image"] and "image_pictures" not in parts["image"]


def test_a_longer_speech_sees_the_same_at_its_beginning(talk, asked, given, whole, tmp_path):
    """So that kept segments fit before those of a new ending."""
    longer = asked.but(audio=speech(tmp_path / "long.wav", 30))
    inputs = encode(talk, longer)
    assert len(inputs["image_pixels"]) == 7
    for name in ("image_pixels", "image_clip"):
        assert torch.equal(inputs[name][:3], given[name])


def test_the_size_follows_the_proportions_of_the_video(talk, asked, tmp_path):
    tall = write_film(tmp_path / "tall.mp4", np.zeros((3, 64, 48, 3), np.uint8))
    plan = talk.plan(asked.but(image=tall, width=640, height=640))
    assert plan.height > plan.width


def test_a_video_that_cannot_be_used_is_refused_before_anything_is_loaded(talk, asked, tmp_path):
    talk.free_denoiser()
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"\0\0\0\x18ftypisom" + b"\0" * 80)
    with pytest.raises(BadInput, match="damaged") as refusal:
        talk.plan(asked.but(image=broken))
    assert refusal.value.field == "image"
    assert "transformer" not in talk.loaded


def test_more_pictures_than_memory_is_meant_for_are_refused(talk, asked, films, monkeypatch):
    """Each segment has 48 x 32 pixels and 5 tokens of 40 numbers: 5408 bytes."""
    monkeypatch.setattr(plan, "MOST_SEEN", 3 * 5408)
    talk.plan(asked)
    monkeypatch.setattr(plan, "MOST_SEEN", 3 * 5408 - 1)
    with pytest.raises(BadInput, match="each of the 3 segments") as refusal:
        talk.plan(asked)
    assert refusal.value.field == "image"
    talk.plan(asked.but(image=films["still"]))


def test_pictures_of_segments_are_in_memory_once(films):
    """30 of 1024 x 1024; the peak of the process is counted from here."""

    def megabytes(name: str) -> float:
        status = Path("/proc/self/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) / 1000

    times = [Fraction(n, 25) for n in range(30)]
    Path("/proc/self/clear_refs").write_text("5")
    before = megabytes("VmRSS")
    pixels = encode_film(films["at 8"], (1024, 1024), times, None, {})["pixels"]
    assert pixels.shape == (30, 1024, 1024, 3)
    assert megabytes("VmHWM") - before < 1.6 * pixels.nbytes / 1e6


def test_encoding_for_a_segment_alone_is_counted(whole, still):
    assert {tuple(output.seconds) for output in whole} == {("encode", "denoise", "decode")}
    assert {tuple(output.seconds) for output in still} == {("denoise", "decode")}


@pytest.mark.thorough
def test_what_waits_in_main_memory_makes_the_same_video(talk, asked, given, whole):
    talk.free_denoiser()
    talk.load_denoiser(asked)
    talk._held = (talk._held[0], "model", talk._held[2])
    assert_same(talk.generate(asked, given, 1, whole[0].boundary, seeded(2)), whole[1])
    talk.free_denoiser()


def test_other_models_refuse_a_video_in_words(refused, films):
    words = "It is a video, and this model takes a picture here"
    one = {"image": films["same"], "segments": 1, "overlap": 0}
    refused("wan21_i2v", "image", words, **one)
    refused("qwen_edit", "image", words, **one, frames=1)

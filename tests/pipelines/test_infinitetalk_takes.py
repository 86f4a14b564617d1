"""Takes of a talking video: how long they are, what is heard in them, and what a retake keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipelines.errors import BadInput
from pipelines.infinitetalk.sound import read_voice
from reuse import NotCompatible
from studio import actions, media
from studio.engine import Engine
from studio.errors import exit_code
from studio.estimate import estimate
from studio.library import Library
from studio.opened import open_result
from tests.fixtures.tiny_infinitetalk import build
from tests.fixtures.voices import RATE, hum, write_wav

SETTINGS = {
    "prompt": "a cat and a dog", "width": 48, "height": 32, "frames": 9, "overlap": 5, "steps": 1,
    "guidance_scale": 1.0, "audio_scale": 1.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(build(tmp_path_factory.mktemp("checkpoints") / "tiny-infinitetalk"))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


@pytest.fixture(scope="module")
def face(tmp_path_factory) -> Path:
    pixels = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)
    path = tmp_path_factory.mktemp("pictures") / "face.png"
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture(scope="module")
def studio(model, engine, face, tmp_path_factory, one_thread):
    """`studio(voice)` makes a take of a voice; the library is shared by the tests here."""
    with Library(tmp_path_factory.mktemp("library") / "library") as library:

        def take(voice: Path, seeds=(7,), **changes):
            given = {**SETTINGS, "image": face, "audio": voice, **changes}
            return actions.generate(library, engine, model, given, seeds)

        take.library = library
        yield take


def clapping(path: Path, frames: float, claps: tuple[int, ...]) -> Path:
    """A low hum with a loud beep at the beginning of some frames."""
    samples = hum(frames / 25) * 0.05
    for frame in claps:
        start = frame * RATE // 25
        length = min(320, len(samples) - start)
        time = np.arange(length) / RATE
        samples[start : start + length] += 0.8 * np.sin(2 * np.pi * 1000 * time)
    return write_wav(path, samples)


@pytest.mark.parametrize("frames", [3, 9, 17])
def test_a_take_is_as_long_as_its_voice_and_in_time_with_it(studio, tmp_path, frames):
    """Shorter than a segment, exactly one, and three segments."""
    claps = (1, frames - 2)
    take = studio(clapping(tmp_path / "voice.wav", frames, claps)).take
    result = studio.library.result(take)
    info = media.probe(result)
    assert info.frames == take.total_frames == frames and info.fps == 25
    assert info.seconds == frames / 25 and info.audio
    heard = read_voice(result)
    assert abs(len(heard) - frames * 640) <= 1024
    loud = np.flatnonzero(np.abs(heard) > 0.4)
    assert abs(loud[0] - claps[0] * 640) < 48  # 3 ms: AAC rings before a beep
    assert abs(loud[-1] - (claps[-1] * 640 + 320)) < 48


def test_a_minute_of_speech_is_as_long_as_it_is(studio, engine, model, face, tmp_path):
    voice = write_wav(tmp_path / "minute.wav", hum(60))
    given = {**SETTINGS, "image": face, "audio": voice, "frames": 81, "overlap": 9}
    order = actions.order_take(studio.library, engine, model, given)
    assert len(order.seeds) == 21
    plan = engine.pipeline(model).plan(order.recipe)
    assert plan.chain.total == 1500 and plan.chain.new_frames(20) == (1449, 1500)


def test_a_retake_keeps_its_prefix_and_encodes_nothing(studio, engine, tmp_path):
    voice = write_wav(tmp_path / "voice.wav", hum(17 / 25))
    first = studio(voice, seeds=(1, 2, 3))
    assert first.encoders.keys() == {"prompt", "negative_prompt", "image", "audio"}
    second = actions.retake(studio.library, engine, first.take.id, 2, (9,))
    assert second.sources == ["reused", "reused", "generated"]
    assert set(second.encoders.values()) == {"reused"}
    frames = [media.decode(studio.library.result(one.take)) for one in (first, second)]
    assert np.array_equal(frames[0][:13], frames[1][:13])
    assert not np.array_equal(frames[0][13:], frames[1][13:])
    third = actions.retake(studio.library, engine, second.take.id, 2, (3,))
    assert third.take.id == first.take.id


def test_another_prompt_keeps_what_the_voice_was_heard_as(studio, tmp_path):
    voice = write_wav(tmp_path / "voice.wav", hum(9 / 25))
    studio(voice)
    other = studio(voice, prompt="a dog and a cat")
    assert other.encoders == {
        "prompt": "computed", "negative_prompt": "reused", "image": "reused", "audio": "reused",
    }  # fmt: skip


def test_a_new_ending_of_the_speech_keeps_the_segments_before_it(studio, engine, tmp_path):
    speech = hum(17 / 25)
    first = studio(write_wav(tmp_path / "old.wav", speech), seeds=(1, 2, 3))
    longer = np.concatenate([speech[: 12 * 640], hum(10 / 25, pitch=90)])
    changes = {"audio": write_wav(tmp_path / "new.wav", longer)}
    second = actions.retake(studio.library, engine, first.take.id, 1, (4,), changes)
    assert second.sources == ["reused", *["generated"] * 4]
    assert second.take.total_frames == media.probe(studio.library.result(second.take)).frames == 22
    frames = [media.decode(studio.library.result(one.take)) for one in (first, second)]
    assert np.array_equal(frames[0][:9], frames[1][:9])
    heard = read_voice(studio.library.result(second.take))
    assert np.abs(heard[640:-1024] - longer[640 : len(heard) - 1024]).max() < 0.1
    again = actions.retake(studio.library, engine, second.take.id, 3, (5,))
    assert again.sources[:3] == ["reused"] * 3 and again.take.total_frames == 22

    with pytest.raises(BadInput, match="keep at most 1"):
        actions.retake(studio.library, engine, first.take.id, 2, (4,), changes)
    other = {"audio": write_wav(tmp_path / "other.wav", hum(17 / 25, pitch=300))}
    with pytest.raises(NotCompatible, match="audio"):
        actions.retake(studio.library, engine, first.take.id, 1, (4,), other)


def test_voices_that_differ_from_the_start_are_refused_in_words(studio, engine, tmp_path):
    voice = write_wav(tmp_path / "voice.wav", hum(17 / 25))
    other = write_wav(tmp_path / "other.wav", hum(17 / 25, pitch=300))
    take = studio(voice, seeds=(1, 2, 3)).take
    words = "audio: what is heard differs already in segment 1, .* Keep 0 works"
    with pytest.raises(NotCompatible, match=words) as refusal:
        actions.order_retake(studio.library, engine, take.id, 1, (4,), {"audio": other})
    assert "sha256" not in str(refusal.value) and "bytes" not in str(refusal.value)
    assert exit_code(refusal.value) == 3
    with pytest.raises(NotCompatible, match="audio_2: what is heard differs"):
        actions.order_retake(studio.library, engine, take.id, 1, (4,), {"audio_2": other})
    order = actions.order_retake(studio.library, engine, take.id, 0, (4,), {"audio": other})
    assert order.keep == 0


@pytest.mark.parametrize("field", ["audio", "audio_2"])
def test_a_voice_of_one_frame_is_refused_by_name(studio, engine, model, face, tmp_path, field):
    """One frame would be a picture without a sound."""
    voices = {"audio": hum(0.12), "audio_2": hum(0.11), field: hum(0.13)}
    files = {name: write_wav(tmp_path / f"{name}.wav", one) for name, one in voices.items()}
    given = {**SETTINGS, "image": face, **files}
    with pytest.raises(BadInput, match=f"{field}.* less than 2 frames at 15 fps") as refusal:
        actions.order_take(studio.library, engine, model, {**given, "fps": 15})
    assert refusal.value.field == field
    order = actions.order_take(studio.library, engine, model, {**given, "fps": 16})
    assert estimate(studio.library, engine, order).frames == 2


def test_an_estimate_counts_a_forward_for_each_strength_that_counts(
    studio, engine, model, face, tmp_path
):
    """A step takes one, two or three; prompt and voice without guidance are known."""
    voice = write_wav(tmp_path / "voice.wav", hum(9 / 25, pitch=210))
    studio(voice, seeds=(77,), width=64)

    def seconds(steps, **scales):
        given = {**SETTINGS, "image": face, "audio": voice, "width": 64, "steps": steps, **scales}
        order = actions.order_take(studio.library, engine, model, given, (78,))
        return estimate(studio.library, engine, order).seconds

    def step(**scales):
        return seconds(11, **scales) - seconds(10, **scales)

    one = step()
    for text, audio, forwards in ((5.0, 1.0, 2), (1.0, 4.0, 2), (5.0, 4.0, 3), (5.0, None, 3)):
        told = step(guidance_scale=text, audio_scale=audio)
        assert told == pytest.approx(forwards * one), (text, audio)
    # What has run itself is believed more than what is reckoned from another.
    studio(voice, seeds=(77,), width=64, guidance_scale=5.0, audio_scale=4.0)
    rows = studio.library.database.rows("SELECT guided, denoise FROM pace WHERE width = 64")
    assert [beyond for beyond, _ in rows] == [0, 2]
    assert step(guidance_scale=5.0, audio_scale=4.0) == pytest.approx(rows[1][1])
    assert step() == pytest.approx(rows[0][1])


def test_segments_after_the_end_of_the_voice_are_refused_in_words(studio, engine, tmp_path):
    speech = hum(17 / 25)
    take = studio(write_wav(tmp_path / "voice.wav", speech), seeds=(1, 2, 3)).take
    words = "The voice ends with segment 3: there is nothing to add after it. Keep 0 to 2"
    with pytest.raises(BadInput, match=words):
        actions.order_retake(studio.library, engine, take.id, 3, (4,), {"segments": 4})
    longer = np.concatenate([speech, hum(4 / 25)])
    changes = {"segments": 4, "audio": write_wav(tmp_path / "longer.wav", longer)}
    order = actions.order_retake(studio.library, engine, take.id, 2, (4,), changes)
    assert len(order.seeds) == 4
    cut = studio(write_wav(tmp_path / "voice.wav", speech), seeds=(1, 2), segments=2).take
    order = actions.order_retake(studio.library, engine, cut.id, 2, (3,), {"segments": 3})
    assert order.frames[-1] == (13, 17)


def test_size_and_length_are_told_before_the_run(studio, engine, model, face, tmp_path):
    voice = write_wav(tmp_path / "voice.wav", hum(17 / 25))
    given = {**SETTINGS, "image": face, "audio": voice, "width": 640, "height": 640}
    order = actions.order_take(studio.library, engine, model, given)
    told = estimate(studio.library, engine, order)
    assert (told.width, told.height, told.frames, told.segments) == (768, 512, 17, 3)


def test_a_result_that_is_opened_brings_back_its_recipe_and_seeds(studio, tmp_path):
    take = studio(write_wav(tmp_path / "voice.wav", hum(17 / 25)), seeds=(1, 2, 3)).take
    assert take.recipe.segments == 1000
    opened = open_result(studio.library, studio.library.result(take))
    assert opened.seeds == (1, 2, 3) and opened.chapters[0].recipe == take.recipe
    assert opened.lost == () and opened.take == take.id


def test_two_voices_are_both_heard(studio, tmp_path):
    claps = {"left": (2,), "right": (6,)}
    voices = {name: clapping(tmp_path / f"{name}.wav", 9, frames) for name, frames in claps.items()}
    take = studio(voices["left"], audio_2=voices["right"]).take
    heard = np.abs(read_voice(studio.library.result(take)))
    assert heard[2 * 640 : 2 * 640 + 320].max() > 0.5 and heard[6 * 640 :][:320].max() > 0.5
    assert take.encoder_keys.keys() >= {"audio", "audio_2", "faces"}

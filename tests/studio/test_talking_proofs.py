"""What is promised of takes and retakes holds for a video that speaks, picture and sound."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipelines.frames import Chain
from pipelines.talking.faces import Face
from pipelines.talking.reading import correlation, mouth_opening
from pipelines.talking.samples import sample_faces
from studio import actions, media, verify
from studio.engine import Engine
from studio.errors import NotCompatible
from studio.library import Library
from studio.render import Rendered
from studio.take import Take
from tests.fixtures.voices import RATE, hum, write_wav
from tests.studio.conftest import frames_of, segment_state
from tests.studio.talking import FPS, FRAMES, SEEDS, TALKING, F, M, heard, sample_voice, speech
from tests.studio.test_media_audio import read_sound

ENCODERS = {"text_encoder", "tokenizer", "image_encoder", "audio_encoder"}


@pytest.fixture
def library(talking_library: Library) -> Library:
    return talking_library


@pytest.fixture
def parent(library: Library) -> Take:
    return library.take("latest")


@pytest.fixture
def say(library: Library, engine: Engine, tmp_path: Path) -> Callable[..., Rendered]:
    """`say(samples, seeds, **changes)`: the sample face speaks them, from a file of one name."""

    def make(samples: np.ndarray, seeds=SEEDS[:1], **changes) -> Rendered:
        voice = write_wav(tmp_path / "voice.wav", samples)
        return actions.generate(library, engine, "talking", speech(voice, **changes), seeds)

    return make


def check_length_and_sound(library: Library, take: Take, frames: int) -> None:
    """So many frames, at 25 a second, and the voice from its first sample to the last frame."""
    result = library.result(take)
    info = media.probe(result)
    assert (info.frames, info.fps, info.seconds) == (frames, FPS, frames / FPS)
    assert take.total_frames == frames == len(media.decode(result))
    sound, voice = heard(result, take.recipe.audio)
    assert len(sound) == len(voice) == frames * 48_000 // FPS
    # The loss of AAC; a sample too late or too early would be twice as much.
    assert np.mean((sound - voice) ** 2) < 0.05**2 * np.mean(voice**2)


@pytest.mark.parametrize(
    ("voice", "settings"),
    [
        (10, {}),
        (F - 0.5, {}),
        (F, {}),
        (80, {"frames": 81, "overlap": 9}),
        pytest.param(81, {"frames": 81, "overlap": 9}, marks=pytest.mark.thorough),
        pytest.param(225, {"frames": 81, "overlap": 9}, marks=pytest.mark.thorough),
        pytest.param(1500, {}, marks=pytest.mark.thorough),
    ],
    ids=["0.4 s", "just under F", "F", "3.2 s", "3.24 s", "9 s", "60 s"],
)
def test_a_video_is_as_long_as_its_voice(library, say, voice, settings):
    take = say(sample_voice(voice), **settings).take
    chain = Chain(len(take.segments), take.recipe.frames, take.recipe.overlap)
    assert len(take.segments) == 1 or chain.P(len(take.segments) - 1) < voice <= chain.total
    check_length_and_sound(library, take, int(voice))


def test_a_video_of_some_segments_has_the_frames_of_these_and_the_last_ends_with_the_voice(
    library, spoken, parent
):
    lengths = [F, F + F - M, FRAMES]
    assert Chain(3, F, M, end=FRAMES).P(3) == FRAMES < Chain(3, F, M).P(3)
    for segments, frames in enumerate(lengths, 1):
        given = speech(spoken / "voice.wav", segments=segments)
        engine = Engine()
        shorter = actions.generate(library, engine, "talking", given, SEEDS[:segments])
        assert shorter.sources == ["reused"] * segments
        assert engine.pipeline("talking").loaded == frozenset()
        check_length_and_sound(library, shorter.take, frames)


def test_bursts_are_heard_at_their_sample(library, say):
    """A beep in silence, in the first frames and in the last: the track is decoded."""
    starts = np.array([3 * 640 + 123, 30 * 640 + 77])  # at 16 kHz
    time = np.arange(480) / RATE
    samples = np.zeros(F * 640, np.float32)
    for start in starts:
        samples[start : start + 480] = 0.8 * np.hanning(480) * np.sin(2 * np.pi * 1000 * time)
    sound = read_sound(library.result(say(samples).take))
    beep = np.hanning(1440) * np.sin(2 * np.pi * 1000 * np.arange(1440) / 48_000)
    alike = np.correlate(sound, beep)
    for part, start in ((alike[:24_000], starts[0]), (alike[24_000:], starts[1] - 8_000)):
        assert np.argmax(part) == 3 * start
    quiet = np.ones(len(sound), bool)
    for start in 3 * starts:
        quiet[start - 1024 : start + 1440 + 1024] = False
    assert np.abs(sound[quiet]).max() < 0.001


def in_time(frames: np.ndarray, face: Face, voice: np.ndarray) -> tuple[float, int]:
    """How well a mouth follows a voice, `[samples]` of any rate: the correlation of opening and
    loudness, and by how many frames the mouth would have to be moved for the best."""
    power = (voice.reshape(len(frames), -1) ** 2).mean(1)
    loud, mouth = np.convolve(np.sqrt(power), np.ones(3) / 3, "same"), mouth_opening(frames, face)
    moved = [correlation(np.roll(mouth, lag)[5:-5], loud[5:-5]) for lag in range(-5, 6)]
    return correlation(mouth, loud), int(np.argmax(moved)) - 5


def test_the_mouth_moves_with_what_is_heard_of_the_track(library, parent):
    sound = read_sound(library.result(parent))
    follows, late = in_time(frames_of(library, parent), sample_faces("face.png")[0], sound)
    assert follows > 0.7 and late == 0


def test_two_mouths_follow_a_voice_each_and_both_are_heard(library, say, tmp_path):
    left = sample_voice(57, "voice_left.wav")
    right = sample_voice(130, "voice_right.wav")[-57 * 640 :]
    second = write_wav(tmp_path / "right.wav", right)
    take = say(left, image=TALKING / "faces.png", audio_2=second).take
    frames, faces = frames_of(library, take), sample_faces("faces.png")
    for face, own, other in zip(faces, (left, right), (right, left), strict=True):
        (follows, late), (strays, _) = in_time(frames, face, own), in_time(frames, face, other)
        assert follows > 0.7 and late == 0 and strays < 0.4
    voices = [read_sound(getattr(take.recipe, name)) for name in ("audio", "audio_2")]
    sound = read_sound(library.result(take))
    assert len(sound) == len(voices[0]) == len(voices[1])
    assert np.mean((sound - sum(voices)) ** 2) < 0.05**2 * np.mean(sound**2)


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_the_old_seeds_computed_again_give_the_old_bits(library, parent, keep):
    old = [segment_state(library, parent, index) for index in range(3)]
    result = library.result(parent).read_bytes()
    gone = [("segments", part.id) for part in parent.segments[keep:]]
    gone += [("inputs", key) for key in parent.encoder_keys.values()]
    for kind, key in gone:
        shutil.rmtree(library.store.folder(kind, key), ignore_errors=True)
    library.result(parent).unlink()
    again = actions.retake(library, Engine(), parent.id, keep, SEEDS[keep:])
    assert again.sources == ["reused"] * keep + ["generated"] * (3 - keep)
    assert set(again.encoders.values()) == {"computed"}
    assert again.take.id == parent.id
    assert [segment_state(library, again.take, index) for index in range(3)] == old
    assert library.result(again.take).read_bytes() == result


def test_recompute_finds_every_segment_the_same(library, engine, parent):
    found = verify.recompute(library, engine, parent)
    assert [(part.index, part.differs) for part in found] == [(0, ()), (1, ()), (2, ())]


@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("keep", [1, 2])
def test_new_seeds_keep_the_prefix_and_the_whole_track(library, engine, parent, keep, count):
    first, track = frames_of(library, parent), read_sound(library.result(parent))
    prefix = Chain(3, F, M).P(keep)
    take = parent
    for n in range(count):
        rendered = actions.retake(library, engine, take.id, keep, [100 + n])
        assert rendered.sources == ["reused"] * keep + ["generated"] * (3 - keep)
        assert set(rendered.encoders.values()) == {"reused"}
        take = rendered.take
        frames = frames_of(library, take)
        assert np.array_equal(frames[:prefix], first[:prefix])
        assert not np.array_equal(frames[prefix:], first[prefix:])
        assert np.array_equal(read_sound(library.result(take)), track)


@pytest.mark.thorough
@pytest.mark.xfail(strict=True, reason="not reached: 1.34 with the weights that ship")
def test_the_seam_is_no_rougher_than_the_inside_of_a_segment(library, say, parent):
    """Inside, too, it counts from one latent frame to the next: the codec draws four frames of the
    video at a time, which differ less among themselves. The first seam is the roughest, about 1.5:
    behind it frames begin from made ones, before it from the picture."""
    voice = sample_voice(FRAMES)
    others = [say(voice, [10 + seed], steps=8).take for seed in range(9)]
    ratios = []
    for take in (parent, *others):
        frames = frames_of(library, take).astype(np.float32)
        steps = np.abs(np.diff(frames, axis=0)).mean((1, 2, 3))
        seams = [part.frames[0] - 1 for part in take.segments[1:]]
        inside = np.setdiff1d(np.arange(0, len(steps), 4), seams)
        ratios += list(steps[seams] / np.median(steps[inside]))
    assert np.mean(ratios) <= 1.3, ratios


def test_keep_0_with_a_new_seed_loads_no_encoder_and_changes_every_segment(library, parent):
    fresh = Engine()
    rendered = actions.retake(library, fresh, parent.id, 0, [9])
    loaded = fresh.pipeline("talking").loaded
    assert "transformer" in loaded and not loaded & ENCODERS
    assert set(rendered.encoders.values()) == {"reused"}
    assert rendered.sources == ["generated"] * 3
    for index in range(3):
        assert segment_state(library, parent, index) != segment_state(library, rendered.take, index)


def test_the_same_request_again_computes_nothing(library, spoken, parent):
    fresh = Engine()
    given = speech(spoken / "voice.wav")
    again = actions.generate(library, fresh, "talking", given, SEEDS)
    assert again.take == parent and again.sources == ["reused"] * 3
    assert set(again.encoders.values()) == {"reused"}
    assert again.forwards == {"computed": 0, "skipped": 0}
    assert fresh.pipeline("talking").loaded == frozenset()


def test_another_voice_under_the_same_name_is_a_miss_and_the_same_under_another_a_hit(
    library, engine, say, parent
):
    again = say(sample_voice(FRAMES), SEEDS)
    assert again.take.id == parent.id and again.sources == ["reused"] * 3
    assert set(again.encoders.values()) == {"reused"}
    voice = sample_voice(FRAMES)
    other = say(voice[::-1], segments=1)
    assert other.sources == ["generated"]
    assert other.encoders == {
        "prompt": "reused", "negative_prompt": "reused", "image": "reused", "audio": "computed",
    }  # fmt: skip
    check_length_and_sound(library, other.take, F)


def test_another_picture_under_the_same_name_is_a_miss(library, engine, say, tmp_path, parent):
    with Image.open(TALKING / "face.png") as face:
        face.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "face.png")
    other = say(sample_voice(FRAMES), segments=1, image=tmp_path / "face.png")
    assert other.sources == ["generated"]
    computed = [part for part, source in other.encoders.items() if source == "computed"]
    assert computed == ["image"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("width", 144), ("fps", 24), ("frames", 41), ("overlap", 5), ("image", "faces.png")],
)
def test_what_the_boundary_carries_is_refused_by_name(library, parent, field, value):
    fresh = Engine()
    asked = TALKING / value if field == "image" else value
    with pytest.raises(NotCompatible) as refusal:
        actions.order_retake(library, fresh, parent.id, 1, [2], {field: asked})
    assert {one.name.partition(".")[0] for one in refusal.value.differences} == {field}
    assert fresh.pipeline("talking").loaded == frozenset()


def test_another_voice_from_the_start_is_refused_in_words(library, engine, parent, tmp_path):
    other = write_wav(tmp_path / "other.wav", hum(3.0))
    with pytest.raises(NotCompatible, match="audio: what is heard differs already in segment 1"):
        actions.order_retake(library, engine, parent.id, 1, [2], {"audio": other})

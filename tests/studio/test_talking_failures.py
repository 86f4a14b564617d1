"""Whatever stops a render that speaks, and whoever else works on the library: nothing is lost."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from studio import actions
from studio.engine import Engine
from studio.errors import RenderFailed
from studio.library import Library
from studio.take import Take
from tests.studio.conftest import answer, environment, frames_of, segment_state, told_by
from tests.studio.talking import SEEDS, TALKING, speech
from tests.studio.test_failures import STAGES, inject, kill_often
from tests.studio.test_media_audio import read_sound


@pytest.fixture
def library(talking_library: Library) -> Library:
    return talking_library


@pytest.fixture
def parent(library: Library) -> Take:
    return library.take("latest")


def test_a_failure_at_each_stage_leaves_the_baseline_and_no_half_take(
    library, spoken, parent, monkeypatch
):
    """One attempt after the other comes a stage further, and uses what the others finished."""
    frames, track = frames_of(library, parent), read_sound(library.result(parent))
    engine = Engine()
    given = speech(spoken / "voice.wav", prompt="a person sings", segments=2)
    for stage in STAGES:
        with monkeypatch.context() as patch:
            inject(stage, patch, engine, model="talking")
            with pytest.raises(RenderFailed) as failure:
                actions.generate(library, engine, "talking", given, [8])
        assert stage in str(failure.value) and "it broke" in str(failure.value)
        assert list(library.store.keys("takes")) == [parent.id]
        assert not [path for path in library.store.staging.iterdir() if path.is_dir()]
        assert list(library.store.verify()) == []
        assert library.history.baseline(parent.session) == parent.id
        assert np.array_equal(frames_of(library, parent), frames)
        assert np.array_equal(read_sound(library.result(parent)), track)
    rendered = actions.generate(library, engine, "talking", given, [8])
    assert rendered.sources == ["reused"] * 2 and set(rendered.encoders.values()) == {"reused"}


@pytest.mark.thorough
def test_twenty_kills_lose_nothing(library, spoken, parent):
    frames, track = frames_of(library, parent), read_sound(library.result(parent))
    given = speech(str(spoken / "voice.wav"), image=str(TALKING / "face.png"))
    kill_often(library, 20, "talking", given)
    with Library(library.folder) as again:
        assert np.array_equal(frames_of(again, parent), frames)
        assert np.array_equal(read_sound(again.result(parent)), track)


@pytest.mark.thorough
def test_processes_render_the_same_and_different_takes_at_once(library, spoken, parent, nursery):
    def start(seed):
        words = ["generate", "--model", "talking", "--prompt", "a person talks"]
        words += ["--image", TALKING / "face.png", "--audio", spoken / "voice.wav", "--steps", 1]
        words += ["--segments", 2, "--seed", seed, "--library", library.folder, "--json"]
        return nursery.start(words, environment())

    running = [start(seed) for seed in (5, 5, 6)]
    told = [told_by(process) for process in running]
    assert told[0]["take"] == told[1]["take"] != told[2]["take"]
    assert list(library.store.verify()) == []
    assert len(list(library.store.keys("segments"))) == len(parent.segments) + 4
    tracks = []
    for one in told[1:]:
        take = library.take(one["take"])
        assert len(frames_of(library, take)) == take.total_frames == 57
        tracks.append(read_sound(library.result(take)))
    assert np.array_equal(*tracks)


def test_a_damaged_segment_is_found_and_made_again(library, engine, parent):
    frames, boundary = segment_state(library, parent, 1)
    path = (
        library.store.folder("segments", parent.segments[1].id) / "boundary_rank_00000.safetensors"
    )
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 0xFF
    path.write_bytes(bytes(damaged))
    assert [fault.key for fault in library.store.verify()] == [parent.segments[1].id]
    rendered = actions.retake(library, engine, parent.id, 2, [7])
    assert rendered.sources == ["reused", "generated", "generated"]
    assert segment_state(library, parent, 1) == (frames, boundary)
    assert list(library.store.verify()) == []


def test_a_damaged_encoding_of_the_voice_is_made_again_and_no_other(library, engine, parent):
    before = segment_state(library, parent, 2)
    shutil.rmtree(library.store.folder("segments", parent.segments[2].id))
    library.result(parent).unlink()
    folder = library.store.folder("inputs", parent.encoder_keys["audio"])
    [path] = folder.glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-8])
    again = actions.retake(library, engine, parent.id, 2, SEEDS[2:])
    assert again.take.id == parent.id and again.sources == ["reused", "reused", "generated"]
    assert [part for part, source in again.encoders.items() if source == "computed"] == ["audio"]
    assert segment_state(library, parent, 2) == before


@pytest.mark.thorough
def test_a_fresh_interpreter_resumes_a_take_it_never_saw_to_the_same_bits(
    library, fresh_app, parent
):
    """Its last segment and its result are gone."""
    before, result = segment_state(library, parent, 2), library.result(parent).read_bytes()
    shutil.rmtree(library.store.folder("segments", parent.segments[2].id))
    library.result(parent).unlink()
    told = answer(fresh_app("retake", parent.id[:10], "--keep", 2, "--seed", SEEDS[2]))
    assert told["take"] == parent.id
    assert [part["source"] for part in told["segments"]] == ["reused", "reused", "generated"]
    assert set(told["encoder"]["parts"].values()) == {"reused"}
    assert segment_state(library, parent, 2) == before
    assert library.result(parent).read_bytes() == result

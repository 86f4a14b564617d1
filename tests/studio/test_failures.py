"""Whatever stops a render, what was there before stays, and no half take appears."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

from reuse import DiskFull
from studio import actions, media
from studio.engine import Engine
from studio.errors import BadInput, Cancelled, RenderFailed
from studio.events import Stage
from studio.library import Library
from tests.studio.conftest import PROMPT, ROOT, STEPS, environment, frames_of, segment_state


class Broken(RuntimeError):
    """What the injected failures raise."""


def broken(*args: object, **kwargs: object) -> None:
    raise Broken("it broke")


def no_space(*args: object, **kwargs: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def inject(
    stage: str,
    monkeypatch: pytest.MonkeyPatch,
    engine: Engine,
    failure: Callable[..., None] = broken,
    model: str = "starter",
) -> None:
    """Makes `stage` of the next render fail."""
    pipeline, parts = engine.pipeline(model), {"denoise": "transformer", "decode": "vae"}
    if stage == "encode":
        monkeypatch.setattr(pipeline, "encode", failure)
    elif stage in parts:
        load = pipeline.load_denoiser

        def load_and_break(recipe=None):
            load(recipe)
            method = "forward" if stage == "denoise" else "decode"
            monkeypatch.setattr(pipeline._components[parts[stage]], method, failure)

        monkeypatch.setattr(pipeline, "load_denoiser", load_and_break)
    elif stage == "write":
        monkeypatch.setattr(media, "write_segment", failure)
    elif stage == "join":
        monkeypatch.setattr(media, "join", failure)
    else:
        rename = os.rename

        def fail_for_takes(source, target):
            if "takes" in str(target):
                failure()
            rename(source, target)

        monkeypatch.setattr(os, "rename", fail_for_takes)


STAGES = ["encode", "denoise", "decode", "write", "join", "publish"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_failure_leaves_the_baseline_and_no_half_take(begun_library, stage, monkeypatch):
    library = begun_library
    before = library.take("latest")
    frames = frames_of(library, before)
    engine = Engine()
    with monkeypatch.context() as patch:
        inject(stage, patch, engine)
        given = {"prompt": "a blue bird over the sea at noon", "segments": 2, "steps": STEPS}
        with pytest.raises(RenderFailed) as failure:
            actions.generate(library, engine, "starter", given, [2])
    assert stage in str(failure.value) and "it broke" in str(failure.value)
    assert list(library.store.keys("takes")) == [before.id]
    assert not [path for path in library.store.staging.iterdir() if path.is_dir()]
    assert list(library.store.verify()) == []
    assert library.history.baseline(before.session) == before.id
    assert (frames_of(library, before) == frames).all()
    # What was finished is used by the next attempt, which succeeds.
    rendered = actions.generate(library, engine, "starter", given, [2])
    finished = {"join": 2, "publish": 2}.get(stage, 0)
    assert rendered.sources.count("reused") == finished


@pytest.mark.parametrize("stage", ["write", "join", "publish"])
def test_a_full_disk_is_named_and_nothing_is_half_written(begun_library, stage, monkeypatch):
    library = begun_library
    before = library.take("latest")
    engine = Engine()
    with monkeypatch.context() as patch:
        inject(stage, patch, engine, no_space)
        given = {"prompt": PROMPT, "segments": 2, "steps": STEPS}
        with pytest.raises(DiskFull, match="free"):
            actions.generate(library, engine, "starter", given, [2])
    assert list(library.store.keys("takes")) == [before.id]
    assert list(library.store.verify()) == []
    assert not [path for path in library.store.staging.iterdir() if path.is_dir()]


def test_out_of_memory_is_said_in_words(library, monkeypatch):
    engine = Engine()

    def out_of_memory(*args, **kwargs):
        raise MemoryError

    inject("denoise", monkeypatch, engine, out_of_memory)
    with pytest.raises(RenderFailed, match=r"not enough memory.*smaller size"):
        actions.generate(library, engine, "starter", {"prompt": PROMPT, "steps": STEPS}, [2])


def test_cancel_takes_effect_at_the_next_step_and_keeps_finished_segments(library, engine):
    seen = []

    def stop_in_the_second_segment(event):
        seen.append((event.stage, event.segment, event.step))
        if event.stage is Stage.DENOISE and event.segment == 1 and event.step == 2:
            raise Cancelled

    given = {"prompt": PROMPT, "segments": 3, "steps": STEPS}
    with pytest.raises(Cancelled):
        actions.generate(
            library, engine, "starter", given, [5], on_event=stop_in_the_second_segment
        )
    assert seen[-1] == (Stage.DENOISE, 1, 2)
    assert list(library.store.keys("takes")) == []
    resumed = actions.generate(library, engine, "starter", given, [5])
    assert resumed.sources == ["reused", "generated", "generated"]


def test_previews_are_small_pictures_of_the_latents(library, engine):
    pictures = []

    def look(event):
        if event.preview is not None:
            pictures.append(event.preview())

    actions.generate(
        library, engine, "starter", {"prompt": PROMPT, "segments": 1, "steps": 4}, on_event=look
    )
    assert len(pictures) == 4
    assert all(p is not None and p.shape == (8, 12, 3) and p.dtype == "uint8" for p in pictures)


def test_a_damaged_segment_is_found_and_made_again(library, generate, retake):
    take = generate([1]).take
    frames, boundary = segment_state(library, take, 1)
    path = library.store.folder("segments", take.segments[1].id) / "video.mp4"
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path.write_bytes(bytes(damaged))
    assert [fault.key for fault in library.store.verify()] == [take.segments[1].id]
    rendered = retake(take, 2, [7])
    assert rendered.sources == ["reused", "generated", "generated"]
    assert segment_state(library, take, 1) == (frames, boundary)
    assert list(library.store.verify()) == []


def test_a_damaged_result_is_joined_again_and_the_take_keeps_its_place(
    library, generate, retake, tmp_path
):
    parent = generate([1]).take
    take = retake(parent, 1, [2]).take
    frames = frames_of(library, take)
    library.result(take).write_bytes(b"nonsense")
    with pytest.raises(BadInput, match="damaged"):
        actions.export(library, [take.id], tmp_path / "out.mp4")
    with Library(library.folder) as again:
        assert again.take("latest") == take
    # Asked for by another way, it is still the child of its parent.
    made = generate([1, 2, 2])
    assert made.sources == ["reused"] * 3
    assert made.take.id == take.id
    assert (made.take.parent, made.take.keep) == (parent.id, 1)
    assert made.take.created == take.created
    assert (frames_of(library, take) == frames).all()


def test_weights_that_change_while_it_runs_publish_nothing_under_the_old_key(
    library, tiny, tmp_path
):
    model = shutil.copytree(tiny, tmp_path / "model")
    engine = Engine()
    given = {"prompt": PROMPT, "segments": 2, "steps": 2, "width": 32, "height": 32}
    given |= {"frames": 9, "overlap": 5}

    def touch(event):
        if event.segment == 1 and event.step == 1:
            config = model / "scheduler" / "scheduler_config.json"
            config.write_text(config.read_text().replace("8.0", "7.0"))

    with pytest.raises(RenderFailed, match="changed while it ran"):
        actions.generate(library, engine, str(model), given, [1], on_event=touch)
    assert len(list(library.store.keys("segments"))) == 1
    # With the files as they are now everything is made anew.
    assert actions.generate(library, engine, str(model), given, [1]).sources == ["generated"] * 2


def test_a_take_is_done_even_if_the_index_cannot_be_written(library, generate, monkeypatch):
    def full(take):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(library.history, "record", full)
        take = generate([1], segments=1).take
    with Library(library.folder) as again:
        assert again.take("latest") == take


def kill_often(library: Library, kills: int, model: str, given: Mapping[str, object]) -> None:
    """Runs crash.py, which looks at what is left after each kill, and looks once more."""
    words = [str(library.folder), str(kills), model, json.dumps(given)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.studio.crash", *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kills} kills" in done.stdout
    with Library(library.folder) as again:
        assert list(again.store.verify()) == []
        assert not [path for path in again.store.staging.iterdir() if path.is_dir()]


def test_twenty_kills_lose_nothing(begun_library):
    """SIGKILL at twenty random moments of a run. See crash.py beside this file."""
    library = begun_library
    before = library.take("latest")
    frames = frames_of(library, before)
    given = {"prompt": "a white balloon over green hills at noon", "segments": 3, "steps": 4}
    kill_often(library, 20, "starter", given)
    with Library(library.folder) as again:
        assert (frames_of(again, before) == frames).all()


def test_sigint_ends_a_command_with_130_and_a_kept_segment(library):
    command = [sys.executable, "app.py", "generate", "--prompt", PROMPT, "--segments", "40"]
    command += ["--steps", "20", "--seed", "1", "--library", str(library.folder), "--json"]
    running = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for line in running.stderr:
        if line.startswith("segment 1/40 new"):
            break
    # As a terminal does it: to every process of the command, ffmpeg included.
    os.killpg(running.pid, signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130, out
    assert len(list(library.store.keys("segments"))) >= 1
    assert list(library.store.keys("takes")) == []


def test_render_refuses_before_any_model_is_loaded(library):
    engine = Engine()
    for given in (
        {"prompt": PROMPT, "width": 97},
        {"prompt": " "},
        {"prompt": PROMPT, "segments": 0},
    ):
        with pytest.raises(BadInput):
            actions.generate(library, engine, "starter", given)
    assert engine.pipeline("starter").loaded == frozenset()

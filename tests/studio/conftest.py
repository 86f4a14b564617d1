"""The real starter checkpoint, at few steps: what is tested here is reuse, not beauty."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from studio import actions, media
from studio.assemble import VIDEO
from studio.engine import Engine
from studio.library import Library
from studio.render import Rendered
from studio.take import Take
from tests.fixtures.once import once
from tests.forked import Forked, Nursery
from tests.studio import talking

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

ROOT = Path(__file__).parents[2]
PROMPT = "a red boat drifting left over the sea at sunset"
STEPS = 3
GIVEN = {"prompt": PROMPT, "segments": 3, "steps": STEPS}

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def served_library(tmp_path_factory) -> Iterator[Library]:
    """One library for all tests of a file; `client` asks for it."""
    with Library(tmp_path_factory.mktemp("served") / "library") as opened:
        yield opened


@pytest.fixture(scope="module")
def client(served_library: Library) -> Iterator[TestClient]:
    """A browser's side of the whole studio, without a server."""
    from fastapi.testclient import TestClient

    from studio.api import create_app

    app = create_app(served_library, "127.0.0.1")
    with TestClient(app, base_url="http://127.0.0.1") as opened:
        yield opened


@pytest.fixture(scope="session")
def engine() -> Engine:
    """Weights are loaded once a test run."""
    return Engine()


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    with Library(tmp_path / "library") as opened:
        yield opened


@pytest.fixture(scope="session")
def begun(tmp_path_factory, engine: Engine) -> Path:
    """A library with one take of the starter, three segments of seed 1 at one step; read-only."""

    def build(folder: Path) -> None:
        with Library(folder) as opened:
            actions.generate(opened, engine, "starter", {**GIVEN, "steps": 1}, [1])

    return once(tmp_path_factory, "begun", build)


@pytest.fixture
def begun_library(begun: Path, tmp_path: Path) -> Iterator[Library]:
    """A copy of that library."""
    shutil.copytree(begun, tmp_path / "library")
    with Library(tmp_path / "library") as opened:
        yield opened


@pytest.fixture(scope="session")
def spoken(tmp_path_factory, engine: Engine) -> Path:
    """What `tests.studio.talking.build` makes; read-only."""
    return once(tmp_path_factory, "spoken", lambda folder: talking.build(folder, engine))


@pytest.fixture
def talking_library(spoken: Path, tmp_path: Path) -> Iterator[Library]:
    """A copy of that library, with the take of three segments."""
    shutil.copytree(spoken / "library", tmp_path / "library")
    with Library(tmp_path / "library") as opened:
        yield opened


@pytest.fixture
def generate(library: Library, engine: Engine) -> Callable[..., Rendered]:
    """Makes a take on the starter: `generate(segments=3, seeds=[1])`."""

    def make(seeds: list[int] | None = None, **given) -> Rendered:
        recipe = {**GIVEN, **given}
        session = recipe.pop("session", None)
        return actions.generate(library, engine, "starter", recipe, seeds, session)

    return make


@pytest.fixture
def retake(library: Library, engine: Engine) -> Callable[..., Rendered]:
    def make(take: Take, keep: int, seeds: list[int] | None = None, **changes) -> Rendered:
        return actions.retake(library, engine, take.id, keep, seeds, changes)

    return make


@pytest.fixture
def app(library: Library, nursery: Nursery) -> Callable[..., Done]:
    """Runs `python app.py …` in a process of its own on the library."""

    def run(*words: object, json_out: bool = True) -> Done:
        started = nursery.start(_words(library, words, json_out), environment())
        out, err = started.communicate(timeout=300)
        return subprocess.CompletedProcess(words, started.returncode, out, err)

    return run


@pytest.fixture
def fresh_app(library: Library) -> Callable[..., Done]:
    """The same in a fresh interpreter, which knows nothing of this one."""

    def run(*words: object, json_out: bool = True) -> Done:
        command = [sys.executable, "app.py", *_words(library, words, json_out)]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)

    return run


def _words(library: Library, words: Sequence[object], json_out: bool) -> list[str]:
    return [*map(str, words), "--library", str(library.folder), *(["--json"] if json_out else [])]


def answer(done: Done) -> dict:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def told_by(process: Forked) -> dict:
    """The answer of a command that was started with `--json`, once it has ended well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def frames_of(library: Library, take: Take) -> np.ndarray:
    """Decoded frames of a result, uint8 `[n, H, W, 3]`."""
    return media.decode(library.result(take))


def segment_state(library: Library, take: Take, index: int) -> tuple[bytes, dict[str, bytes]]:
    """Decoded frames and boundary of one stored segment, as bytes."""
    entry = library.store.find("segments", take.segments[index].id)
    boundary = {k: v.numpy().tobytes() for k, v in entry.tensors("boundary").items()}
    return media.decode(entry.file(VIDEO)).tobytes(), boundary


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", **extra}

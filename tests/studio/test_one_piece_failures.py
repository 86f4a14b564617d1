"""Whatever stops a picture or a short video, and whoever makes the same at once, loses nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from reuse import DiskFull
from studio.engine import Engine
from studio.errors import RenderFailed
from studio.events import Event, Stage
from studio.library import Library
from studio.verify import recompute
from tests.studio.conftest import environment, told_by
from tests.studio.one_piece import OnePiece, pieces
from tests.studio.test_failures import STAGES, broken, inject, kill_often, no_space


@pytest.fixture(scope="module", params=["picture", "video"])
def piece(request, tmp_path_factory) -> OnePiece:
    return pieces(tmp_path_factory)[request.param]


@pytest.fixture(scope="module")
def made(piece, engine, tmp_path_factory) -> Path:
    """A library with one take; read-only."""
    folder = tmp_path_factory.mktemp("made") / "library"
    with Library(folder) as library:
        piece.make(library, engine, 1)
    return folder


@pytest.fixture
def library(made, tmp_path) -> Iterator[Library]:
    """A copy of it."""
    shutil.copytree(made, tmp_path / "library")
    with Library(tmp_path / "library") as opened:
        yield opened


@pytest.fixture
def untouched(library) -> Callable[[], None]:
    """Checks that its take is the only one, as it was, and the baseline, and that nothing is
    half-written."""
    take = library.take("latest")
    result = library.result(take).read_bytes()

    def check() -> None:
        assert list(library.store.keys("takes")) == [take.id]
        assert not [path for path in library.store.staging.iterdir() if path.is_dir()]
        assert list(library.store.verify()) == []
        assert library.take("latest") == take
        assert library.history.baseline(take.session) == take.id
        assert library.result(take).read_bytes() == result

    return check


def inject_in(
    piece: OnePiece,
    stage: str,
    monkeypatch: pytest.MonkeyPatch,
    engine: Engine,
    failure: Callable[..., None] = broken,
) -> None:
    """As `inject`. A picture is written and joined as a PNG, which fails half-way here."""
    if piece.segment_file != "image.png" or stage not in ("write", "join"):
        return inject(stage, monkeypatch, engine, failure, piece.model)
    save = Image.Image.save

    def save_half(image, path, format, **options):
        # Only what is joined tells how it was made.
        if format == "PNG" and bool(options["pnginfo"].chunks) == (stage == "join"):
            Path(path).write_bytes(b"\x89PNG")
            failure()
        save(image, path, format, **options)

    monkeypatch.setattr(Image.Image, "save", save_half)


def test_a_failure_at_each_stage_leaves_the_baseline_and_no_half_take(
    library, engine, piece, untouched, monkeypatch
):
    """One attempt after the other comes a stage further, and uses what the others finished."""
    other, told = "a dog and an egg", []

    def listen(event: Event) -> None:
        told.append(event.stage)

    for stage in STAGES:
        told.clear()
        with monkeypatch.context() as patch:
            inject_in(piece, stage, patch, engine)
            with pytest.raises(RenderFailed) as failure:
                piece.make(library, engine, 2, listen, prompt=other)
        assert stage in str(failure.value) and "it broke" in str(failure.value)
        untouched()
        assert (Stage.ENCODE in told) == (stage in ("encode", "denoise"))
        assert (Stage.REUSED in told) == (stage == "publish")
    done = piece.make(library, engine, 2, prompt=other)
    assert (done.sources, done.encoder_source) == (["reused"], "reused")
    # An engine that failed so often has computed what a new one does.
    assert [one.differs for one in recompute(library, Engine(), done.take)] == [()]


def test_a_full_disk_is_named_and_nothing_is_half_written(
    library, engine, piece, untouched, monkeypatch
):
    for stage in ("write", "join", "publish"):
        with monkeypatch.context() as patch:
            inject_in(piece, stage, patch, engine, no_space)
            with pytest.raises(DiskFull, match="free"):
                piece.make(library, engine, 2)
        untouched()
    assert piece.make(library, engine, 2).sources == ["reused"]


@pytest.mark.thorough
def test_twenty_kills_lose_nothing(library, piece):
    before = library.take("latest")
    result = library.result(before).read_bytes()
    kill_often(library, 20, piece.model, {**piece.given, "prompt": "a dog on the moon"})
    with Library(library.folder) as again:
        assert again.take(before.id) == before
        assert again.result(before).read_bytes() == result


@pytest.mark.thorough
def test_processes_make_the_same_and_another_at_once(library, engine, piece, nursery):
    other = {"prompt": "a cat and a dog"}
    words = ["generate", *piece.words(**other), "--library", library.folder, "--json"]
    running = [nursery.start([*words, "--seed", seed], environment()) for seed in (5, 5, 6)]
    told = [told_by(process) for process in running]
    assert told[0]["take"] == told[1]["take"] != told[2]["take"]
    assert list(library.store.verify()) == []
    assert len(list(library.store.keys("segments"))) == len(list(library.store.keys("takes"))) == 3
    for seed, one in ((5, told[0]), (6, told[2])):
        again = piece.make(library, engine, seed, **other)
        assert again.take.id == one["take"]
        assert (again.sources, again.encoder_source) == (["reused"], "reused")
    assert not [path for path in library.store.staging.iterdir() if path.is_dir()]

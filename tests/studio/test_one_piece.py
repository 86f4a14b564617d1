"""Models that make one piece: images and short videos take part in all that is promised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pipelines.errors import BadInput
from studio import actions, bench, media
from studio.engine import Engine
from studio.library import Library
from studio.opened import open_result
from studio.take import Take
from studio.verify import recompute
from tests.studio.conftest import answer, frames_of
from tests.studio.one_piece import SIZE, checkpoint, pieces


@pytest.fixture(scope="session")
def qwen(tmp_path_factory) -> str:
    return checkpoint(tmp_path_factory, "qwen_image")


@pytest.fixture(scope="session")
def wan(tmp_path_factory) -> str:
    return checkpoint(tmp_path_factory, "wan21_t2v")


@pytest.fixture
def picture(library, engine, qwen):
    """A picture of the library: `picture(seed)`."""

    def make(seed: int, **given):
        recipe = {"prompt": "a cat that bakes a cake", **SIZE, **given}
        return actions.generate(library, engine, qwen, recipe, [seed], "cats")

    return make


@contextmanager
def made_again(folder: Path, engine: Engine, file: Path) -> Iterator[tuple[Library, Take]]:
    """In another library, from nothing but a result."""
    with Library(folder) as library:
        opened = open_result(library, file)
        assert (opened.take, opened.lost) == (None, ())
        recipe = opened.chapters[0].recipe
        given = recipe.model_dump(exclude={"model"})
        session = media.read_metadata(file)["session"]
        made = actions.generate(library, engine, recipe.model, given, opened.seeds, session)
        yield library, made.take


def test_a_picture_is_a_png_that_tells_how_it_was_made(library, engine, picture, tmp_path):
    take = picture(3).take
    path = library.result(take)
    assert path.name == "result.png" and take.total_frames == 1
    with Image.open(path) as image:
        assert image.format == "PNG" and image.size == (32, 32)
    opened = open_result(library, path)
    assert opened.take == take.id and opened.seeds == (3,)
    assert opened.chapters[0].recipe.prompt == "a cat that bakes a cake"
    with made_again(tmp_path / "elsewhere", engine, path) as (other, again):
        assert again.id == take.id
        assert np.array_equal(media.read_image(other.result(again)), media.read_image(path))


def test_another_seed_loads_no_encoder_and_a_repeat_loads_nothing(library, engine, picture, qwen):
    first = picture(1)
    assert first.encoder_source == "computed"
    pipeline = engine.pipeline(qwen)
    second = actions.retake(library, engine, first.take.id, 0, [2])
    assert second.encoder_source == "reused" and second.sources == ["generated"]
    assert pipeline.loaded.isdisjoint({"text_encoder", "tokenizer", "vae_encoder"})
    shown = [media.read_image(library.result(one.take)) for one in (first, second)]
    assert not np.array_equal(*shown)
    again = actions.generate(
        library, Engine(), qwen, {"prompt": "a cat that bakes a cake", **SIZE}, [1], "cats"
    )
    assert again.take == first.take and again.sources == ["reused"]


def test_a_picture_verifies_recomputes_and_is_exported(library, engine, picture, tmp_path):
    take = picture(5).take
    assert list(library.store.verify()) == []
    assert [one.differs for one in recompute(library, engine, take)] == [()]
    out = actions.export(library, [take.id], tmp_path / "cat.png")
    assert out.read_bytes() == library.result(take).read_bytes()
    forked = actions.fork(library, take.id, "more cats")
    assert forked.result == "result.png"
    assert np.array_equal(
        media.read_image(library.result(forked)), media.read_image(library.result(take))
    )


def test_pieces_are_not_kept_and_that_is_said_by_name(library, engine, picture):
    take = picture(1).take
    with pytest.raises(BadInput) as refused:
        actions.retake(library, engine, take.id, 1, [2])
    assert refused.value.field in ("keep", "segments")
    with pytest.raises(BadInput) as refused:
        picture(1, segments=2)
    assert refused.value.field == "segments"


def test_a_short_video_of_wan_comes_by_command_and_again_for_nothing(app, library, wan):
    words = ["generate", "--model", wan, "--prompt", "a boat", "--width", 32, "--height", 32]
    words += ["--frames", 5, "--steps", 2, "--seed", 4]
    told = answer(app(*words))
    assert [part["source"] for part in told["segments"]] == ["generated"]
    assert Path(told["result"]).name == "result.mp4"
    again = answer(app(*words, "--session", told["session"]))
    assert again["take"] == told["take"]
    assert [part["source"] for part in again["segments"]] == ["reused"]
    other = answer(app("retake", told["take"], "--keep", 0, "--seed", 5))
    assert other["encoder"]["source"] == "reused"


def test_a_short_video_of_wan_is_verified_exported_and_made_again_from_its_file_elsewhere(
    library, engine, tmp_path_factory, tmp_path
):
    take = pieces(tmp_path_factory)["video"].make(library, engine, 4).take
    assert list(library.store.verify()) == []
    assert [one.differs for one in recompute(library, engine, take)] == [()]
    frames = frames_of(library, take)
    video, moving = (
        actions.export(library, [take.id], tmp_path / name) for name in ("boat.mp4", "boat.gif")
    )
    assert video.read_bytes() == library.result(take).read_bytes()
    with Image.open(moving) as image:
        assert (image.n_frames, image.size) == (len(frames), (32, 32))
    with made_again(tmp_path / "elsewhere", engine, video) as (other, again):
        assert again.id == take.id and np.array_equal(frames_of(other, again), frames)


def test_the_benchmark_tells_loading_and_encoding_apart(qwen):
    told = bench.reuse(qwen, steps=2, given={"width": 32, "height": 32})
    assert [row["what"] for row in told["takes"]] == [
        "full take",
        "encoder reuse (keep 0)",
        "repeat",
    ]
    first, second = told["fresh"]
    assert first["encode"] > 0 and second["encode"] == 0
    assert second["load"] > 0 and told["joins"] == []
    assert "text_encoder" in first["loaded"] and "text_encoder" not in second["loaded"]
    assert json.dumps(told) and "load" in bench.table(told)


def test_a_setting_that_the_model_has_no_use_for_is_refused_and_not_carried_over(
    library, engine, picture, qwen, generate
):
    with pytest.raises(BadInput) as refused:
        picture(1, shift=7)
    assert refused.value.field == "shift"
    # The starter has a shift of its own, which a picture of Qwen does not inherit.
    storybook = generate([1], segments=1).take
    asked = actions.order_retake(library, engine, storybook.id, 0, [1], {"model": qwen, **SIZE})
    assert asked.recipe.shift == 1.0 and asked.recipe.frames == 1

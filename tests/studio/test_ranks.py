"""Two processes that render one take together, as torchrun starts them."""

from __future__ import annotations

import json
import signal
import time

import pytest

from studio.library import Library
from tests.forked import Forked, Nursery
from tests.studio.conftest import PROMPT, environment, frames_of
from tests.studio.one_piece import pieces
from tests.studio.test_server import free_port

WORDS = ["generate", "--prompt", PROMPT, "--segments", 2, "--steps", 2, "--json"]


@pytest.fixture
def group(nursery: Nursery, library: Library):
    """Starts two ranks: `group("--seed", 7)`."""

    def start(*words: object) -> list[Forked]:
        port = free_port()
        return [
            nursery.start(
                [*WORDS, *words, "--library", library.folder],
                environment(
                    RANK=str(rank),
                    LOCAL_RANK=str(rank),
                    WORLD_SIZE="2",
                    MASTER_ADDR="127.0.0.1",
                    MASTER_PORT=str(port),
                ),
            )
            for rank in range(2)
        ]

    return start


def test_two_ranks_make_one_take_with_tensors_of_each(group, library, generate):
    main, other = group()
    out, err = main.communicate(timeout=300)
    silent, other_err = other.communicate(timeout=60)
    assert (main.returncode, other.returncode, silent) == (0, 0, ""), err + other_err
    take = library.take(json.loads(out)["take"])
    assert list(library.store.verify()) == []
    for segment in take.segments:
        entry = library.store.find("segments", segment.id)
        assert entry.ranks("boundary") == 2
        assert {"video.mp4", "poster.webp"} < set(entry.manifest["files"])
    for key in take.encoder_keys.values():
        assert library.store.find("inputs", key).ranks("") == 2
    # One process reads what two have written, and makes the same.
    again = generate(take.seeds, segments=2, steps=2, session=take.session)
    assert again.take.id == take.id and again.encoder_source == "reused"


def test_two_ranks_go_on_from_what_one_process_made(group, library, generate):
    first = generate([5], segments=2, steps=2, session="alone").take
    main, other = group("--seeds", "5,6", "--session", "together")
    out, err = main.communicate(timeout=300)
    assert (main.returncode, other.wait(60)) == (0, 0), err
    told = json.loads(out)
    assert [part["source"] for part in told["segments"]] == ["reused", "generated"]
    take = library.take(told["take"])
    assert take.segments[0] == first.segments[0]
    assert len(frames_of(library, take)) == take.total_frames


@pytest.mark.parametrize("dies", [0, 1])
def test_a_rank_that_dies_leaves_the_last_success(group, library, generate, dies):
    before = generate([1], segments=2, steps=2).take
    ranks = group("--steps", 40, "--seed", 2)
    assert any(line.startswith("segment 1/2 new") for line in ranks[0].stderr)
    ranks[dies].send_signal(signal.SIGKILL)
    assert ranks[1 - dies].wait(60) == 1
    with Library(library.folder) as again:
        assert list(again.store.verify()) == []
        assert [row.id for row in again.history.takes()] == [before.id]
        assert len(frames_of(again, before)) == before.total_frames
        assert len(list(again.store.keys("segments"))) == 3
        again.store.sweep()
        assert not [path for path in again.store.staging.iterdir() if path.is_dir()]


@pytest.mark.thorough
def test_two_ranks_make_one_picture(group, library, tmp_path_factory):
    picture = pieces(tmp_path_factory)["picture"]
    main, other = group(*picture.words(), "--segments", 1, "--seed", 3)
    out, err = main.communicate(timeout=300)
    _, other_err = other.communicate(timeout=60)
    assert (main.returncode, other.returncode) == (0, 0), err + other_err
    take = library.take(json.loads(out)["take"])
    assert list(library.store.verify()) == [] and library.result(take).name == "result.png"
    for key in take.encoder_keys.values():
        assert library.store.find("inputs", key).ranks("") == 2


@pytest.mark.thorough
@pytest.mark.parametrize("dies", [0, 1])
@pytest.mark.parametrize("kind", ["picture", "video"])
def test_a_rank_that_dies_over_one_piece_leaves_the_last_success(
    group, library, engine, tmp_path_factory, kind, dies
):
    piece = pieces(tmp_path_factory)[kind]
    before = piece.make(library, engine, 1).take
    result = library.result(before).read_bytes()
    encoded = len(list(library.store.keys("inputs")))
    other = {"prompt": "a dog on the moon", "steps": 300}
    ranks = group(*piece.words(**other), "--segments", 1, "--seed", 2)
    # The words are encoded, and hundreds of steps are to come.
    while len(list(library.store.keys("inputs"))) == encoded:
        assert ranks[0].poll() is None, ranks[0].stderr.read()
        time.sleep(0.02)
    ranks[dies].send_signal(signal.SIGKILL)
    assert ranks[1 - dies].wait(120) == 1
    assert ranks[dies].wait(10) == -signal.SIGKILL
    with Library(library.folder) as again:
        again.store.sweep()
        assert not [path for path in again.store.staging.iterdir() if path.is_dir()]
        assert list(again.store.verify()) == []
        assert [row.id for row in again.history.takes()] == [before.id]
        assert again.history.baseline("one") == before.id
        assert again.result(before).read_bytes() == result
    done = piece.make(library, engine, 2, **other)
    assert (done.encoder_source, done.sources) == ("reused", ["generated"])

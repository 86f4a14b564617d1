"""Several processes on one library, and processes that know nothing of each other."""

from __future__ import annotations

from studio.library import Library
from tests.forked import Forked, Nursery
from tests.studio.conftest import PROMPT, STEPS, answer, environment, frames_of, told_by


def start(nursery: Nursery, library: Library, seed: int) -> Forked:
    words = ["generate", "--prompt", PROMPT, "--segments", 3, "--steps", STEPS]
    words += ["--seed", seed, "--library", library.folder, "--json"]
    return nursery.start(words, environment())


def test_processes_generate_the_same_and_different_takes_at_once(library, generate, nursery):
    running = [start(nursery, library, seed) for seed in (1, 1, 2)]
    told = [told_by(process) for process in running]
    assert told[0]["take"] == told[1]["take"] != told[2]["take"]
    assert list(library.store.verify()) == []
    assert len(list(library.store.keys("segments"))) == 6
    for one in told[1:]:
        take = library.take(one["take"])
        frames = frames_of(library, take)
        assert len(frames) == take.total_frames
        again = generate([take.seeds[0]])
        assert again.take.id == take.id and again.sources == ["reused"] * 3


def test_a_fresh_interpreter_resumes_a_take_it_never_saw(library, fresh_app, generate):
    take = generate([1]).take
    told = answer(fresh_app("retake", take.id[:10], "--keep", 2, "--seed", 5))
    assert told["parent"] == take.id
    assert [part["source"] for part in told["segments"]] == ["reused", "reused", "generated"]
    assert told["encoder"]["source"] == "reused"
    assert told["seeds"] == [1, 1, 5]


def test_a_fresh_interpreter_computes_the_same_bits(library, fresh_app, generate):
    take = generate([1], segments=2).take
    told = answer(fresh_app("verify", "--recompute", take.id))
    assert told["same"] is True

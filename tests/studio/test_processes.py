"""Several processes on one library, and processes that know nothing of each other."""

from __future__ import annotations

import json
import subprocess
import sys

from studio.library import Library
from tests.studio.conftest import PROMPT, ROOT, STEPS, answer, environment, frames_of


def start(library: Library, seed: int) -> subprocess.Popen[str]:
    words = ["generate", "--prompt", PROMPT, "--segments", "3", "--steps", str(STEPS)]
    words += ["--seed", str(seed), "--library", str(library.folder), "--json"]
    return subprocess.Popen(
        [sys.executable, "app.py", *words],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_generate_the_same_and_different_takes_at_once(library, generate):
    running = [start(library, seed) for seed in (1, 1, 2)]
    told = []
    for process in running:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        told.append(json.loads(out))
    assert told[0]["take"] == told[1]["take"] != told[2]["take"]
    assert list(library.store.verify()) == []
    assert len(list(library.store.keys("segments"))) == 6
    for one in told[1:]:
        take = library.take(one["take"])
        frames = frames_of(library, take)
        assert len(frames) == take.total_frames
        again = generate([take.seeds[0]])
        assert again.take.id == take.id and again.sources == ["reused"] * 3


def test_a_fresh_interpreter_resumes_a_take_it_never_saw(library, app, generate):
    take = generate([1]).take
    told = answer(app("retake", take.id[:10], "--keep", 2, "--seed", 5))
    assert told["parent"] == take.id
    assert [part["source"] for part in told["segments"]] == ["reused", "reused", "generated"]
    assert told["encoder"]["source"] == "reused"
    assert told["seeds"] == [1, 1, 5]


def test_a_fresh_interpreter_computes_the_same_bits(library, app, generate):
    take = generate([1], segments=2).take
    told = answer(app("verify", "--recompute", take.id))
    assert told["same"] is True

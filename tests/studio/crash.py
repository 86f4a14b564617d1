"""Kills a render at random moments, twenty times, and looks at what is left each time.

Run as a program: `python -m tests.studio.crash LIBRARY`. One parent imports everything once and
forks a child for each run; the parent computes nothing itself, so forking is safe.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import diffusers  # noqa: F401
import torch  # noqa: F401
import transformers  # noqa: F401

from studio import actions
from studio.engine import Engine
from studio.library import Library

KILLS, SEGMENTS, LONGEST = 20, 4, 4.0
PROMPT = "a white balloon over green hills at noon"


def run_once(folder: Path, seed: int) -> None:
    with Library(folder) as library:
        given = {"prompt": PROMPT, "segments": SEGMENTS, "steps": 6}
        actions.generate(library, Engine(), "starter", given, [seed], "crash")


def main(folder: Path) -> None:
    rng = random.Random(int(time.time()))
    kills = seed = 0
    while kills < KILLS:
        with Library(folder) as library:
            segments, takes = set(library.store.keys("segments")), set(library.store.keys("takes"))
        child = fork(run_once, folder, seed)
        time.sleep(rng.uniform(0.05, LONGEST))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.WIFSIGNALED(status)
        with Library(folder) as library:
            assert list(library.store.verify()) == []
            left = set(library.store.keys("segments"))
            assert segments <= left and takes <= set(library.store.keys("takes"))
            if set(library.store.keys("takes")) - takes:
                seed += 1
    check_resume(folder, seed)
    print(f"{kills} kills, {seed} takes finished")


def check_resume(folder: Path, seed: int) -> None:
    """The next run reuses every segment of this seed that was finished."""
    _, status = os.waitpid(fork(resume, folder, seed), 0)
    assert status == 0, "the run after the kills failed"


def resume(folder: Path, seed: int) -> None:
    with Library(folder) as library:
        before = set(library.store.keys("segments"))
        given = {"prompt": PROMPT, "segments": SEGMENTS, "steps": 6}
        rendered = actions.generate(library, Engine(), "starter", given, [seed], "crash")
        for part, source in zip(rendered.take.segments, rendered.sources, strict=True):
            assert (source == "reused") == (part.id in before), (part.index, source)


def fork(work: Callable[[Path, int], None], folder: Path, seed: int) -> int:
    """Does `work` in a child process, which ends with 0 if it went well; returns its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work(folder, seed)
        code = 0
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

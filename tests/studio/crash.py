"""Kills a render at random moments and looks at what is left each time.

Run as a program: `python -m tests.studio.crash LIBRARY KILLS MODEL GIVEN`, GIVEN being the fields
of a recipe as JSON. One parent imports everything once and forks a child for each run; the parent
computes nothing itself, so forking is safe.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diffusers  # noqa: F401
import torch  # noqa: F401
import transformers  # noqa: F401

from studio import actions
from studio.engine import Engine
from studio.library import Library
from studio.render import Rendered

LONGEST = 4.0
"""Seconds until the latest kill."""


@dataclass(frozen=True)
class Run:
    """What is killed."""

    folder: Path
    model: str
    given: dict[str, Any]

    def once(self, seed: int) -> Rendered:
        with Library(self.folder) as library:
            return actions.generate(library, Engine(), self.model, self.given, [seed], "crash")

    def resume(self, seed: int) -> None:
        """Every segment of this seed that was finished is reused."""
        with Library(self.folder) as library:
            before = set(library.store.keys("segments"))
        rendered = self.once(seed)
        for part, source in zip(rendered.take.segments, rendered.sources, strict=True):
            assert (source == "reused") == (part.id in before), (part.index, source)


def main(wanted: int, run: Run) -> None:
    rng, folder = random.Random(int(time.time())), run.folder
    kills = seed = 0
    while kills < wanted:
        with Library(folder) as library:
            segments, takes = set(library.store.keys("segments")), set(library.store.keys("takes"))
        child = fork(run.once, seed)
        time.sleep(rng.uniform(0.05, LONGEST))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or status == 0, "a run after a kill failed"
        kills += os.WIFSIGNALED(status)
        with Library(folder) as library:
            assert list(library.store.verify()) == []
            left = set(library.store.keys("segments"))
            assert segments <= left and takes <= set(library.store.keys("takes"))
            if set(library.store.keys("takes")) - takes:
                seed += 1
    _, status = os.waitpid(fork(run.resume, seed), 0)
    assert status == 0, "the run after the kills failed"
    print(f"{kills} kills, {seed} takes finished")


def fork(work: Callable[[int], object], seed: int) -> int:
    """Does `work` in a child process, which ends with 0 if it went well; returns its id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work(seed)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    library, count, model, given = sys.argv[1:]
    main(int(count), Run(Path(library), model, json.loads(given)))

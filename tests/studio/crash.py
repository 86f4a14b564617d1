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

from reuse import KINDS
from studio import actions
from studio.engine import Engine
from studio.library import Library
from studio.render import Rendered
from tests.forked import warm_up

LONGEST = 3.0
"""Seconds until the latest kill, unless a whole run takes less."""


@dataclass(frozen=True)
class Run:
    """What is killed."""

    folder: Path
    model: str
    given: dict[str, Any]

    def once(self, seed: int) -> Rendered:
        """Each seed has words of its own, so that encoders run too."""
        given = {**self.given, "prompt": f"{self.given['prompt']} {seed}"}
        with Library(self.folder) as library:
            return actions.generate(library, Engine(), self.model, given, [seed], "crash")

    def resume(self, seed: int) -> None:
        """Whatever was finished for this seed is reused."""
        with Library(self.folder) as library:
            segments, inputs = (set(library.store.keys(kind)) for kind in ("segments", "inputs"))
        rendered = self.once(seed)
        for part, source in zip(rendered.take.segments, rendered.sources, strict=True):
            assert (source == "reused") == (part.id in segments), (part.index, source)
        for name, key in rendered.take.encoder_keys.items():
            assert (rendered.encoders[name] == "reused") == (key in inputs), name


def main(wanted: int, run: Run) -> None:
    warm_up()
    rng, folder = random.Random(int(time.time())), run.folder
    kills = seed = 0
    latest = moment = LONGEST
    while kills < wanted:
        with Library(folder) as library:
            before = {kind: set(library.store.keys(kind)) for kind in KINDS}
        began, child = time.monotonic(), fork(run.once, seed)
        status = end(child, moment)
        if kills == seed == 0:
            latest = min(LONGEST, time.monotonic() - began)
        moment = rng.uniform(0.05, latest)
        assert os.WIFSIGNALED(status) or status == 0, "a run after a kill failed"
        kills += os.WIFSIGNALED(status)
        with Library(folder) as library:
            assert list(library.store.verify()) == []
            left = {kind: set(library.store.keys(kind)) for kind in KINDS}
        assert all(before[kind] <= left[kind] for kind in KINDS)
        seed += left["takes"] > before["takes"]
    _, status = os.waitpid(fork(run.resume, seed), 0)
    assert status == 0, "the run after the kills failed"
    print(f"{kills} kills, {seed} takes finished")


def end(child: int, moment: float) -> int:
    """Kills a child after so many seconds, if it has not ended by then; returns its status."""
    give_up = time.monotonic() + moment
    while time.monotonic() < give_up:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


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

"""Wall time of the stages of one render."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

STAGES = ("load", "encode", "denoise", "decode", "write", "join")


class Clock:
    """Adds up seconds by stage, and knows the stage that is running now."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.stage = "start"

    @contextlib.contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        self.stage = stage
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] += time.perf_counter() - started

    def add(self, seconds: Mapping[str, float]) -> None:
        """Adds stages that the pipeline timed itself."""
        for stage, spent in seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent

    def reading(self) -> dict[str, float]:
        """Seconds by stage and in total, to the tenth of a millisecond."""
        total = time.perf_counter() - self._started
        return {k: round(v, 4) for k, v in {**self.seconds, "total": total}.items()}

    def spent(self) -> float:
        """Seconds of all stages so far."""
        return sum(self.seconds.values())

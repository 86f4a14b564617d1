"""Small models run on one CPU thread: the same bits on any number of cores, and no waiting.

How many threads share a sum decides its last bits (on the starter 4e-6 in the latents, one grey
level in the frames): results would not be reproducible on another machine. And threads that meet
after every small operation spin for each other: measured once, on two cores that other work kept
busy, a take of the starter took 412 s with two threads and 14 s with one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

SMALL = 50_000_000
"""Parameters below which a second thread gains little."""


@contextmanager
def steady_threads(*models: torch.nn.Module) -> Iterator[None]:
    """One thread inside if all `models` are small and on the CPU; puts the number back after."""
    parameters = [parameter for model in models for parameter in model.parameters()]
    small = sum(parameter.numel() for parameter in parameters) < SMALL
    if not small or any(parameter.device.type != "cpu" for parameter in parameters):
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

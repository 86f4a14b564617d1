"""What is seen of a diffusers call while it runs: steps, a picture of the clean estimate, and the
chance to end it by raising, within a step too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipelines.base import OnStep, Step

if TYPE_CHECKING:
    import numpy as np
    import torch

BETWEEN = 1.0
"""Seconds after which `on_step` is called again within a step, so that a cancel need not wait for
its end: steps of the large models take minutes on small machines."""

Estimate = Callable[["torch.Tensor | None", "torch.Tensor", int], "torch.Tensor"]
"""Clean latents `[C, h, w]` to show, from the latents before a step (None if they were not seen)
and after it, and the index of the step from 0."""


class Watch:
    """Watches one call. Give `on_step_end` to it as `callback_on_step_end`."""

    def __init__(
        self,
        on_step: OnStep | None,
        steps: int,
        estimate: Estimate,
        picture: Callable[[torch.Tensor], np.ndarray | None],
    ) -> None:
        self.on_step, self.steps = on_step, steps
        self.estimate, self.picture = estimate, picture
        self.done = 0
        self.forwards = 0
        self.latents: torch.Tensor | None = None
        """After the last step."""
        self.ended = time.perf_counter()
        """When the last step did."""
        self._told = time.monotonic()
        self._before: torch.Tensor | None = None

    def on_step_end(self, pipe: Any, i: int, t: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Counts a step. Raises whatever `on_step` raises."""
        before, self._before = self._before, None
        self.latents, self.done, self.ended = kwargs["latents"], i + 1, time.perf_counter()
        after = self.latents
        self._tell(lambda: self.picture(self.estimate(before, after, i)))
        return {}

    @contextmanager
    def inside(self, *transformers: Any) -> Iterator[None]:
        """Looks into the forwards of the transformers: counts them, and calls `on_step` between
        their blocks now and then."""
        handles = []
        try:
            for transformer in transformers:
                handles.append(
                    transformer.register_forward_pre_hook(self._forward, with_kwargs=True)
                )
                for block in _blocks(transformer):
                    handles.append(block.register_forward_pre_hook(self._block))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _forward(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.forwards += 1
        if self._before is None:
            self._before = kwargs["hidden_states"]

    def _block(self, module: Any, args: tuple[Any, ...]) -> None:
        if time.monotonic() - self._told >= BETWEEN:
            self._tell(lambda: None)

    def _tell(self, preview: Callable[[], np.ndarray | None]) -> None:
        if self.on_step is not None:
            self.on_step(Step(self.done, self.steps, preview))
        self._told = time.monotonic()


def _blocks(transformer: Any) -> list[Any]:
    """The layers of a diffusers transformer, whatever they are called."""
    for name in ("blocks", "transformer_blocks"):
        if hasattr(transformer, name):
            return list(getattr(transformer, name))
    return []

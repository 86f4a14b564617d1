"""Encoder outputs taken at the seams of a diffusers pipeline: recorded once, replayed ever after.

Every `__call__` asks a few pure functions of its pipeline for encoder outputs (`encode_image`,
`vae.encode`…). With those replaced on the instance the same call either records what they give and
ends there, or goes on from what was recorded, without an encoder in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from pipelines.base import Tensors

Hooks = Mapping[tuple[str, str], Callable[..., Any]]
"""(component, or "" for the pipeline itself; method) -> what stands in for it."""


class Source(Protocol):
    """Where a hook has a part from."""

    def __call__(
        self, part: str, compute: Callable[[], Tensors], blank: Callable[[], Tensors]
    ) -> Tensors:
        """The tensors of `part`. `compute` has the encoders make them; `blank` makes tensors of
        some such shape, for a part that nobody asked for."""
        ...


class Recorded(Exception):
    """All parts that were asked for are there; the call can end."""


class Recorder:
    """Computes the parts that are wanted, and ends the call with the last of them."""

    def __init__(self, wanted: Collection[str]) -> None:
        self.wanted = set(wanted)
        self.parts: dict[str, Tensors] = {}

    def __call__(
        self, part: str, compute: Callable[[], Tensors], blank: Callable[[], Tensors]
    ) -> Tensors:
        if part not in self.wanted:
            return blank()
        tensors = compute()
        self.parts[part] = {
            name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()
        }
        if self.wanted <= self.parts.keys():
            raise Recorded
        return tensors


class Replayed:
    """Gives back what `pipelines.base.joined` made of recorded parts; computes nothing."""

    def __init__(self, inputs: Tensors) -> None:
        self.inputs = inputs

    def __call__(
        self, part: str, compute: Callable[[], Tensors], blank: Callable[[], Tensors]
    ) -> Tensors:
        prefix = f"{part}_"
        own = {k.removeprefix(prefix): v for k, v in self.inputs.items() if k.startswith(prefix)}
        if not own:
            raise RuntimeError(f"encoder outputs of {part!r} are missing")
        return own


@contextmanager
def hooked(pipe: Any, hooks: Hooks) -> Iterator[None]:
    """The hooks stand in for methods of this one pipeline inside. Ends quietly when a `Recorder`
    has all it wants."""
    replaced: list[tuple[dict[str, Any], str]] = []
    try:
        for (component, method), function in hooks.items():
            own = (getattr(pipe, component) if component else pipe).__dict__
            own[method] = function
            replaced.append((own, method))
        with suppress(Recorded):
            yield
    finally:
        for own, method in replaced:
            own.pop(method, None)


def pinned(pipe: Any, device: str) -> Any:
    """The pipeline, with its device said outright: diffusers guesses it from its modules, some of
    which are skeletons here."""
    import torch

    kind = type(pipe)
    own = {"_execution_device": property(lambda _: torch.device(device))}
    pipe.__class__ = type(kind.__name__, (kind,), own)
    return pipe


def pad(embeds: torch.Tensor, length: int) -> torch.Tensor:
    """`[tokens, dim]` to `[1, length, dim]` with zeros."""
    import torch

    padding = embeds.new_zeros(length - embeds.shape[0], embeds.shape[1])
    return torch.cat([embeds, padding]).unsqueeze(0)


def without_padding(embeds: torch.Tensor) -> torch.Tensor:
    """`[length, dim]` without the zeros at its end; `pad` puts them back exactly."""
    rows = (embeds != 0).any(-1).nonzero()
    return embeds[: int(rows.max()) + 1 if len(rows) else 1]

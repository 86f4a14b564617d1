"""What each family of models over diffusers' pipelines says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pipelines.base import Request, Tensors
from pipelines.opened import OpenedPipeline

if TYPE_CHECKING:
    import numpy as np
    import torch

    from pipelines.one_piece.hooks import Hooks, Source

VAE_ENCODER = "vae_encoder"
"""The whole codec, in memory for as long as pictures are encoded; `vae` is its decoder alone."""


class Family(OpenedPipeline):
    """Over diffusers' pipelines. A subclass of `OnePiece` says what follows here."""

    encoders: ClassVar[tuple[str, ...]]
    """Components that only encoding needs."""

    def components_for(self, part: str) -> tuple[str, ...]:
        """What encoding this part needs, `VAE_ENCODER` among them."""
        raise NotImplementedError

    def pipe_class(self, recipe: Request) -> Any:
        """The class of diffusers that makes this recipe."""
        raise NotImplementedError

    def pipe_config(self) -> dict[str, Any]:
        """What that class is told beside its components."""
        return {}

    def hooks(self, pipe: Any, recipe: Request, source: Source) -> Hooks:
        """The functions that stand in for the encoders."""
        raise NotImplementedError

    def arguments(self, recipe: Request, inputs: Tensors | None) -> dict[str, Any]:
        """What diffusers is called with; without `inputs` for encoding, which reads the files."""
        raise NotImplementedError

    def scheduler_for(self, recipe: Request) -> Any:
        """A fresh scheduler as this recipe wants it."""
        raise NotImplementedError

    def estimate(
        self, pipe: Any, recipe: Request, before: Any, after: torch.Tensor, i: int
    ) -> torch.Tensor:
        """See `pipelines.one_piece.watch.Estimate`."""
        raise NotImplementedError

    def pixels_of(self, output: Any) -> np.ndarray:
        """`[n, H, W, 3]` in 0 to 1, of what diffusers gave with `output_type="np"`."""
        raise NotImplementedError

    def samples(
        self, pipe: Any, recipe: Request, latents: torch.Tensor, frames: np.ndarray
    ) -> tuple[torch.Tensor, np.ndarray]:
        """Latents `[C, n, h, w]` and one frame `[n, H, W, 3]` for each, for a preview to learn."""
        raise NotImplementedError

    def check_recipe(self, recipe: Request) -> None:
        """Raises BadInput as `plan` does, but leaves files alone."""
        raise NotImplementedError

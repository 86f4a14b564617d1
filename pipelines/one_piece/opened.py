"""Where each component of an opened checkpoint is loaded to: onto the GPU, or to wait its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.checkpoint import WITHOUT_WEIGHTS, Checkpoint
from pipelines.one_piece.family import VAE_ENCODER, Family

if TYPE_CHECKING:
    import torch


class Opened(Family):
    """No weights in memory until something needs them."""

    def __init__(
        self, checkpoint: Checkpoint, dtype: str | torch.dtype | None, device: str | None
    ) -> None:
        super().__init__(checkpoint, dtype, device)
        self._held: tuple[Any, ...] | None = None
        """Weights, offload and LoRA files that the transformers in memory are prepared for."""
        self._fitting: tuple[Any, ...] = ()
        """LoRA files that were found to fit."""

    @property
    def transformers(self) -> tuple[str, ...]:
        """The one or two that the checkpoint has."""
        names = ("transformer", "transformer_2")
        return tuple(name for name in names if self.checkpoint.has(name))

    def _folder_of(self, component: str) -> str:
        return "vae" if component == VAE_ENCODER else component

    def _load_component(self, name: str, held: tuple[Any, ...] | None) -> Any:
        from pipelines.components import load_component, load_decoder

        weights, offload, _ = held or ("full", "none", ())
        waits = offload in ("model", "sequential") or (
            offload == "group" and name in self.transformers
        )
        device = "cpu" if waits else self.device
        if name == "vae":
            return load_decoder(self.checkpoint, name, self.dtype_of(name), device)
        if name in self.transformers:
            from pipelines.one_piece.holding import load_transformer

            return load_transformer(self.checkpoint, name, self.dtype_of(name), device, weights)
        if name == VAE_ENCODER:
            return load_component(self.checkpoint, "vae", self.dtype_of("vae"), self.device)
        if self.device == "cpu" or name in WITHOUT_WEIGHTS:
            return load_component(self.checkpoint, name, self.dtype_of(name), self.device)
        return self._load_encoder(name)

    def _load_encoder(self, name: str) -> Any:
        """Onto the GPU, or in main memory where there is no room for it."""
        from pipelines.components import load_component
        from pipelines.memory import must_wait, this_machine
        from pipelines.one_piece.holding import offload_leaves, parameters

        dtype = self.dtype_of(name)
        size = parameters(self.checkpoint, name) * (2 if dtype == "bfloat16" else 4)
        if not must_wait(this_machine(self.device), size):
            return load_component(self.checkpoint, name, dtype, self.device)
        encoder = load_component(self.checkpoint, name, dtype, "cpu")
        offload_leaves(encoder, self.device)
        return encoder

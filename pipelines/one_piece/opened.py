"""An opened checkpoint: where it runs, and which of its components are in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from pipelines.base import Task
from pipelines.checkpoint import WITHOUT_WEIGHTS, Checkpoint
from pipelines.one_piece.family import VAE_ENCODER, Family

if TYPE_CHECKING:
    import torch


class Opened(Family):
    """No weights in memory until something needs them."""

    def __init__(
        self, checkpoint: Checkpoint, dtype: str | torch.dtype | None, device: str | None
    ) -> None:
        self.checkpoint = checkpoint
        self.capabilities = replace(
            type(self).capabilities,
            tasks=self.tasks_of(checkpoint),
            extras=self.extras_of(checkpoint),
        )
        self._wanted = (dtype, device)
        self._components: dict[str, Any] = {}
        self._signatures: dict[str, Any] = {}
        self._held: tuple[Any, ...] | None = None
        """Weights, offload and LoRA files that the transformers in memory are prepared for."""
        self._fitting: tuple[Any, ...] = ()
        """LoRA files that were found to fit."""

    @classmethod
    def open(
        cls,
        folder: Path,
        dtype: str | torch.dtype | None = None,
        device: str | None = None,
    ) -> Self:
        """Reads model_index.json of a folder in the diffusers layout, and no weights.

        By default bfloat16 on CUDA where there is one, otherwise float32 on the CPU. Raises
        BadInput for a folder of another kind.
        """
        return cls(cls.checkpoint_class.read(folder), dtype, device)

    @classmethod
    def describe(cls, folder: Path) -> tuple[tuple[Task, ...], dict[str, Any]]:
        """(tasks, recipe defaults) of a checkpoint that no catalogue knows, from its configs.

        Reads all of the folder but the weights; raises BadInput naming what is missing or damaged.
        """
        checkpoint = cls.checkpoint_class.read(folder)
        checkpoint.check()
        return cls.tasks_of(checkpoint), cls.defaults_of(checkpoint)

    @property
    def loaded(self) -> frozenset[str]:
        return frozenset(self._components)

    @property
    def components(self) -> Mapping[str, Any]:
        """What is in memory, by name: for what attaches to a model from outside."""
        return MappingProxyType(self._components)

    @cached_property
    def _placement(self) -> tuple[str, str]:
        from pipelines.components import resolve

        return resolve(*self._wanted)

    @property
    def dtype(self) -> str:
        return self._placement[0]

    @property
    def device(self) -> str:
        return self._placement[1]

    @property
    def transformers(self) -> tuple[str, ...]:
        """The one or two that the checkpoint has."""
        names = ("transformer", "transformer_2")
        return tuple(name for name in names if self.checkpoint.has(name))

    def _free(self, names: Iterable[str]) -> None:
        from pipelines.components import free_memory

        gone = [name for name in names if self._components.pop(name, None) is not None]
        for name in gone:
            self._signatures.pop(name, None)
        if gone:
            free_memory(self.device)

    def _load(self, names: Iterable[str], held: tuple[Any, ...] | None = None) -> list[str]:
        """Loads what is not in memory, or is there from files that have changed since: keys are
        made of the files on disk, and the weights in use have to be those. Returns what it
        loaded."""
        names = tuple(names)
        folders = {name: "vae" if name == VAE_ENCODER else name for name in names}
        signatures = {name: self.checkpoint.signature(folders[name]) for name in names}
        stale = [name for name in names if self._signatures.get(name) != signatures[name]]
        self.checkpoint.check(folders[name] for name in stale)
        for name in stale:
            self._components.pop(name, None)
            self._components[name] = self._load_component(name, held)
            self._signatures[name] = signatures[name]
        return stale

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

"""An opened checkpoint: where it runs, and which of its components are in memory.

Weights come into memory when something needs them, and are read again when their files change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pipelines.base import BasePipeline, Task
from pipelines.checkpoint import Checkpoint

if TYPE_CHECKING:
    import torch

    from pipelines.preview import Projection


class OpenedPipeline(BasePipeline):
    """A pipeline over a folder in the diffusers layout. A family names its class of checkpoints and
    says what those can do."""

    checkpoint_class: ClassVar[type[Checkpoint]]
    pipeline_classes: ClassVar[tuple[str, ...]] = ()
    """What `_class_name` of a model_index.json may be."""

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

    @classmethod
    def tasks_of(cls, checkpoint: Any) -> tuple[Task, ...]:
        raise NotImplementedError

    @classmethod
    def defaults_of(cls, checkpoint: Any) -> dict[str, Any]:
        raise NotImplementedError

    @classmethod
    def extras_of(cls, checkpoint: Any) -> tuple[str, ...]:
        """The fields of `OF_SOME_MODELS` that this checkpoint looks at."""
        return cls.capabilities.extras

    def dtype_of(self, component: str) -> str:
        """In which dtype a component runs."""
        raise NotImplementedError

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
        loaded. `held` is how, for families that hold a model in several ways."""
        from pipelines.components import settle

        names = tuple(names)
        folders = {name: self._folder_of(name) for name in names}
        signatures = {name: self.checkpoint.signature(folders[name]) for name in names}
        stale = [name for name in names if self._signatures.get(name) != signatures[name]]
        self.checkpoint.check(folders[name] for name in stale)
        if stale:
            settle()
        for name in stale:
            self._components.pop(name, None)
            self._components[name] = self._load_component(name, held)
            self._signatures[name] = signatures[name]
        return stale

    def _folder_of(self, component: str) -> str:
        return component

    def _load_component(self, name: str, held: tuple[Any, ...] | None) -> Any:
        from pipelines.components import load_component

        return load_component(self.checkpoint, name, self.dtype_of(name), self.device)

    @cached_property
    def _projection(self) -> Projection:
        """Given by the codec's config as `latents_rgb`, normalised latents to -1..1, `[C + 1, 3]`
        with the bias as its last row; else learned from what is decoded."""
        import numpy as np

        from pipelines.preview import Projection

        matrix = np.asarray(self.checkpoint.config("vae").get("latents_rgb") or [])
        return Projection(matrix if matrix.any() else None)

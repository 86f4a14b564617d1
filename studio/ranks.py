"""Several processes that render one take together, as torchrun starts them; mostly it is one.

Every rank goes through the same render. Rank 0 looks into the library and publishes; each rank
writes and reads tensors of its own. What one decides, all have to know, or they would wait for each
other forever: so rank 0 decides and tells. A rank that dies breaks the next meeting of the others,
which then fail as any render does, with nothing published.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

from reuse import Entry, Store
from reuse.staging import Staging

Told = TypeVar("Told")
PATIENCE = timedelta(minutes=30)
"""The longest that one rank waits for another: longer than loading the largest model takes."""


@dataclass(frozen=True)
class Ranks:
    """A group of processes, seen from one of them."""

    rank: int = 0
    world: int = 1

    @classmethod
    def here(cls) -> Ranks:
        """The group that torchrun put this process in, by its environment; else this one alone."""
        return _joined(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))

    @property
    def main(self) -> bool:
        """Whether this process decides, publishes and talks."""
        return self.rank == 0

    def wait(self) -> None:
        """Until all ranks are here. Raises RuntimeError if one is gone."""
        if self.world > 1:
            import torch.distributed

            torch.distributed.barrier()

    def agree(self, said: Told) -> Told:
        """What rank 0 says, for all. Raises RuntimeError if a rank is gone."""
        if self.world == 1:
            return said
        import torch.distributed

        told = [said]
        torch.distributed.broadcast_object_list(told, src=0)
        return told[0]

    def find(self, store: Store, kind: str, key: str) -> Entry | None:
        """A whole entry of the library if rank 0 finds it. Raises RuntimeError if it is not there
        for this rank."""
        entry = store.find(kind, key)
        if not self.agree(entry is not None):
            return None
        return entry or self._missing(kind, key)

    @contextmanager
    def stage(self, store: Store) -> Iterator[Staging]:
        """One folder for all ranks to write an entry into; rank 0 makes and removes it."""
        if self.main:
            with store.stage() as staging:
                self.agree(staging.name)
                yield staging
        else:
            with store.stage(shared=self.agree("")) as staging:
                yield staging

    def publish(
        self, staging: Staging, store: Store, kind: str, key: str, fields: Mapping[str, Any]
    ) -> Entry:
        """Publishes the folder once all have written. Raises what `Staging.publish` raises, and
        RuntimeError if a rank is gone."""
        self.wait()
        if self.main:
            entry = staging.publish(kind, key, fields)
            self.wait()
            return entry
        self.wait()
        return store.find(kind, key) or self._missing(kind, key)

    def tensors(self, entry: Entry, stem: str) -> dict[str, Any]:
        """The tensors of this rank; those of the last one where fewer ranks wrote the entry."""
        return entry.tensors(stem, min(self.rank, entry.ranks(stem) - 1))

    def _missing(self, kind: str, key: str) -> Entry:
        raise RuntimeError(f"rank {self.rank} does not see {kind}/{key}: is the library shared?")


@cache
def _joined(rank: int, world: int) -> Ranks:
    if world > 1:
        import torch.distributed

        torch.distributed.init_process_group("gloo", timeout=PATIENCE)
    return Ranks(rank, world)

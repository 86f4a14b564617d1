"""One published entry, as a reader gets it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reuse import tensors
from reuse.errors import NotInLibrary

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Entry:
    """A published folder. It never changes; garbage collection may take it away."""

    kind: str
    key: str
    path: Path
    manifest: dict[str, Any]

    def file(self, name: str) -> Path:
        """The path of a file that the manifest lists; raises NotInLibrary for any other."""
        if name not in self.manifest["files"]:
            raise NotInLibrary(self.path / name)
        return self.path / name

    def ranks(self, stem: str) -> int:
        """How many ranks wrote tensors under that stem."""
        count = 0
        while tensors.file_name(stem, count) in self.manifest["files"]:
            count += 1
        return count

    def tensors(self, stem: str, rank: int = 0) -> dict[str, torch.Tensor]:
        """The tensors that one rank wrote, on the CPU. Raises NotInLibrary if it wrote none,
        Damaged if the file went away or broke since the entry was found."""
        return tensors.load(self.file(tensors.file_name(stem, rank)))

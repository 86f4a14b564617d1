"""Keys and values of the chunks of a segment, for one layer and one guidance branch."""

from __future__ import annotations

import torch

from pipelines.flowcache import compression


class ChunkStore:
    """One buffer in the order of the chunks, so that what a chunk may look at is a view of it.

    It is exactly as long as what it holds. The oldest chunks can be folded into fewer tokens, and
    then cannot be written again.
    """

    def __init__(self) -> None:
        self.keys: torch.Tensor | None = None
        self.values: torch.Tensor | None = None
        self.lengths: dict[int, int] = {}
        """Tokens of each chunk that is not folded, in the order of the chunks."""
        self.folded = 0
        """Tokens that remain of the chunks that are."""

    @property
    def bytes(self) -> int:
        return 0 if self.keys is None else self.keys.nbytes + self.values.nbytes

    def write_all(self, lengths: dict[int, int], keys: torch.Tensor, values: torch.Tensor) -> None:
        """Tokens `[B, L, heads, d]` of several chunks, one after the other, `lengths` of each."""
        if not self.folded and self.lengths.keys() <= lengths.keys():
            # Nothing else is held: no need to copy.
            self.keys, self.values, self.lengths = keys, values, dict(lengths)
            return
        parts = (tensor.split(list(lengths.values()), 1) for tensor in (keys, values))
        for chunk, key, value in zip(lengths, *parts, strict=True):
            self.write(chunk, key, value)

    def write(self, chunk: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Tokens `[B, L, heads, d]` of a chunk: in its place, or at the end if it is new."""
        if chunk in self.lengths:
            stop = self._stop(chunk)
            place = slice(stop - self.lengths[chunk], stop)
            self.keys[:, place], self.values[:, place] = keys, values
            return
        if any(other > chunk for other in self.lengths):
            raise ValueError(f"chunk {chunk} comes after later ones")
        self.lengths[chunk] = keys.shape[1]
        if self.keys is not None:
            keys, values = torch.cat([self.keys, keys], 1), torch.cat([self.values, values], 1)
        self.keys, self.values = keys, values

    def up_to(self, chunk: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values `[B, L, heads, d]` up to the end of a chunk; of all with None."""
        stop = None if chunk is None else self._stop(chunk)
        return self.keys[:, :stop], self.values[:, :stop]

    def fold(self, chunks: list[int], queries: torch.Tensor, budget: int, lam: float) -> None:
        """Keeps `budget` tokens a head of what is folded already and of these chunks, which are
        the oldest of all. queries `[B, L, heads, d]`."""
        chunks = [chunk for chunk in chunks if chunk in self.lengths]
        clean = self.folded + sum(self.lengths[chunk] for chunk in chunks)
        if clean <= budget:
            return
        keys, values = self.keys[0, :clean].transpose(0, 1), self.values[0, :clean].transpose(0, 1)
        indices = compression.select(keys, queries[0].transpose(0, 1), budget, lam)
        self.keys, self.values = (
            torch.cat([compression.kept(old, indices).transpose(0, 1)[None], whole[:, clean:]], 1)
            for old, whole in ((keys, self.keys), (values, self.values))
        )
        for chunk in chunks:
            del self.lengths[chunk]
        self.folded = budget

    def _stop(self, chunk: int) -> int:
        before = (length for other, length in self.lengths.items() if other <= chunk)
        return self.folded + sum(before)

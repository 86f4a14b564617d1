"""The keys and values of a segment's chunks: each in its place, and no longer than what is held."""

from __future__ import annotations

import pytest
import torch

from pipelines.flowcache.store import ChunkStore


def tokens(length: int, value: float) -> torch.Tensor:
    """`[1, length, 2 heads, 4]`, all of one value."""
    return torch.full((1, length, 2, 4), float(value))


def filled(*lengths: int) -> ChunkStore:
    """Chunk i holds keys of value i and values of value 10 + i."""
    store = ChunkStore()
    for chunk, length in enumerate(lengths):
        store.write(chunk, tokens(length, chunk), tokens(length, 10 + chunk))
    return store


def held(store: ChunkStore) -> list[float]:
    """The value of each token, of the first head."""
    return store.keys[0, :, 0, 0].tolist()


def allocated(store: ChunkStore) -> int:
    """Bytes that the buffers take from the machine."""
    return sum(part.untyped_storage().nbytes() for part in (store.keys, store.values))


def test_a_chunk_looks_at_itself_and_what_is_before_it():
    store = filled(2, 3, 1)
    assert held(store) == [0, 0, 1, 1, 1, 2]
    keys, values = store.up_to(1)
    assert keys[0, :, 0, 0].tolist() == [0, 0, 1, 1, 1]
    assert values[0, :, 1, 3].tolist() == [10, 10, 11, 11, 11]
    assert store.up_to(None)[0].shape[1] == 6


def test_a_chunk_that_runs_again_takes_its_old_place():
    store = filled(2, 3, 1)
    store.write_all({0: 2, 2: 1}, tokens(3, 7), tokens(3, 8))
    assert held(store) == [7, 7, 1, 1, 1, 7]


def test_what_all_chunks_write_at_once_is_what_they_write_one_by_one():
    store = filled(2, 3)
    keys = torch.cat([tokens(2, 4), tokens(3, 5), tokens(1, 6)], 1)
    store.write_all({0: 2, 1: 3, 2: 1}, keys, keys)
    assert held(store) == [4, 4, 5, 5, 5, 6]
    assert store.up_to(0)[0].shape[1] == 2


def test_chunks_come_in_their_order():
    store = filled(2)
    store.write(2, tokens(1, 2), tokens(1, 2))
    with pytest.raises(ValueError, match="chunk 1 comes after later ones"):
        store.write(1, tokens(1, 1), tokens(1, 1))


def test_nothing_is_folded_before_the_budget_is_passed():
    store = filled(2, 3, 1)
    store.fold([0, 1], tokens(1, 1), 5, 0.07)
    assert held(store) == [0, 0, 1, 1, 1, 2] and store.folded == 0


def test_folding_gives_the_memory_back_and_leaves_later_chunks_as_they_are():
    store = filled(20, 30, 10)
    before = allocated(store)
    store.fold([0, 1], tokens(1, 1), 5, 0.07)
    assert store.keys.shape == store.values.shape == (1, 15, 2, 4)
    assert held(store)[5:] == [2] * 10
    assert store.folded == 5 and list(store.lengths) == [2]
    assert allocated(store) == store.bytes == before // 4
    # The next chunk, and then more of them into the same budget.
    store.write(3, tokens(10, 3), tokens(10, 13))
    assert store.up_to(2)[0].shape[1] == 15
    store.fold([2], tokens(1, 1), 5, 0.07)
    assert held(store)[5:] == [3] * 10
    assert allocated(store) == store.bytes == before // 4


def test_keys_stay_with_their_values_in_a_fold():
    generator = torch.Generator().manual_seed(0)
    keys = torch.randn(1, 40, 2, 4, generator=generator)
    store = ChunkStore()
    store.write(0, keys, keys + 100)
    store.fold([0], torch.randn(1, 6, 2, 4, generator=generator), 9, 0.07)
    assert torch.allclose(store.values, store.keys + 100)
    assert all(row in keys[0, :, head].tolist() for head in (0, 1) for row in held_of(store, head))


def held_of(store: ChunkStore, head: int) -> list[list[float]]:
    return store.keys[0, :, head].tolist()

from __future__ import annotations

import pytest
import torch

from reuse import Damaged, NotInLibrary


def as_bytes(tensor):
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def test_tensors_come_back_bit_for_bit(store):
    base = torch.randn(4, 6)
    tensors = {
        "float": base,
        "view": base[1:],
        "transposed": base.t(),
        "expanded": base[:1].expand(3, 6),
        "trained": torch.nn.Parameter(base),
        "scalar": torch.tensor(float("nan")),
        "empty": torch.zeros(0, 3),
        **{
            str(dtype): torch.tensor([0, 1, 3]).to(dtype)
            for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool)
        },
    }
    with store.stage() as staging:
        path = staging.write_tensors("boundary", tensors)
        assert path.name == "boundary_rank_00000.safetensors"
        entry = staging.publish("segments", "k1", {})
    back = entry.tensors("boundary")
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype
        assert back[name].shape == tensor.shape
        assert torch.equal(as_bytes(back[name]), as_bytes(tensor))


def test_an_entry_may_have_no_tensors_in_a_file(store):
    with store.stage() as staging:
        staging.write_tensors("boundary", {})
        assert staging.publish("segments", "k1", {}).tensors("boundary") == {}


def test_changing_loaded_tensors_does_not_change_the_library(store):
    with store.stage() as staging:
        staging.write_tensors("boundary", {"latents": torch.zeros(1000)})
        entry = staging.publish("segments", "k1", {})
    entry.tensors("boundary")["latents"].add_(1)
    assert entry.tensors("boundary")["latents"].sum() == 0
    assert list(store.verify()) == []


def test_tensors_that_are_not_there_are_named(store, publish):
    with store.stage() as staging:
        staging.write_tensors("boundary", {"latents": torch.zeros(3)})
        entry = staging.publish("segments", "k1", {})
    with pytest.raises(NotInLibrary, match="boundary_rank_00001"):
        entry.tensors("boundary", rank=1)
    with pytest.raises(NotInLibrary, match=r"poster\.webp"):
        entry.file("poster.webp")
    path = entry.file("boundary_rank_00000.safetensors")
    path.write_bytes(b"no tensors")
    with pytest.raises(Damaged, match="boundary_rank_00000"):
        entry.tensors("boundary")
    path.unlink()
    with pytest.raises(Damaged, match="missing"):
        entry.tensors("boundary")

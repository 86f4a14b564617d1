"""Tensors in files: one safetensors file for each rank, never pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reuse.disk import write_file
from reuse.errors import Damaged

if TYPE_CHECKING:
    import torch


def file_name(stem: str, rank: int) -> str:
    """`boundary_rank_00000.safetensors`, or `rank_00000.safetensors` for an empty stem."""
    return f"{stem}_rank_{rank:05d}.safetensors" if stem else f"rank_{rank:05d}.safetensors"


def save(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes dense CPU copies; views of one storage are written as tensors of their own.

    The bytes are made in memory and written by `write_file`, because what safetensors raises on a
    full disk is a text and no OSError. Raises DiskFull, NotWritable, OSError.
    """
    from safetensors.torch import save as to_bytes

    copies = {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }
    write_file(path, to_bytes(copies))


def load(path: Path) -> dict[str, torch.Tensor]:
    """Raises Damaged if the file is not there or is no safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path, device="cpu")
    except FileNotFoundError:
        raise Damaged(path, "it is missing") from None
    except SafetensorError as error:
        raise Damaged(path, str(error)) from error

"""What the header of a safetensors file tells without reading a weight: names, shapes, wholeness.

Layout: 8 bytes of header length, a JSON header with the byte ranges of the tensors, the bytes.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any


def read_header(path: Path) -> dict[str, dict[str, Any]]:
    """Tensor name -> `{"dtype", "shape", "data_offsets"}`.

    Raises ValueError saying what is wrong with the file, in words that go after its name.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > size - 8:
                raise ValueError(f"is cut short: {size} bytes")
            header = _parsed(file.read(length))
    except FileNotFoundError:
        raise ValueError("is missing") from None
    except (OSError, struct.error) as error:
        raise ValueError(f"is not a safetensors file ({error})") from error
    expected = 8 + length + max((t["data_offsets"][1] for t in header.values()), default=0)
    if size != expected:
        raise ValueError(f"is cut short: {size} of {expected} bytes")
    return header


def safetensors_problem(path: Path) -> str | None:
    """What is wrong with a safetensors file as far as its header tells; None if it is whole."""
    try:
        read_header(path)
    except ValueError as error:
        return str(error)
    return None


def _parsed(text: bytes) -> dict[str, dict[str, Any]]:
    try:
        header = {k: v for k, v in json.loads(text).items() if k != "__metadata__"}
        for tensor in header.values():
            if not all(isinstance(n, int) for n in (*tensor["shape"], *tensor["data_offsets"][:2])):
                raise TypeError("shapes and offsets are numbers")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"is not a safetensors file ({error})") from error
    return header

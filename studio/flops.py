"""Counts the floating-point operations of whatever runs inside, at no cost that could be measured.

The formulas are those of torch.utils.flop_counter. Its own counter looks at every operation below
autograd, which makes a small model three times slower (and leaves out the CPU's attention kernel);
this one looks at the few functions that a model calls and that have a formula.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import conv_flop_count, mm_flop, sdpa_flop_count


class FlopCount(TorchFunctionMode):
    """`with FlopCount() as count: …`, then `count.total`: a multiplication and an addition are two
    operations. Counts linear layers, matrix products, convolutions and attention; as
    torch.utils.flop_counter does, attention in full where it is masked."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        count = COUNTED.get(func)
        if count is not None:
            self.total += count(out, *args, **(kwargs or {}))
        return out


def _linear(
    out: torch.Tensor, given: torch.Tensor, weight: torch.Tensor, *_: Any, **__: Any
) -> int:
    width = given.shape[-1]
    return mm_flop((given.numel() // width, width), tuple(weight.shape)[::-1])


def _product(out: torch.Tensor, left: torch.Tensor, right: torch.Tensor, **_: Any) -> int:
    return mm_flop((out.numel() // out.shape[-1], left.shape[-1]), (left.shape[-1], out.shape[-1]))


def _convolution(
    out: torch.Tensor, given: torch.Tensor, weight: torch.Tensor, *_: Any, **__: Any
) -> int:
    return conv_flop_count(list(given.shape), list(weight.shape), list(out.shape))


def _attention(
    out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *_: Any,
    **__: Any,
) -> int:
    shapes = (tensor.flatten(0, -4).shape for tensor in (query, key, value))
    return sdpa_flop_count(*shapes)


COUNTED = {
    functional.linear: _linear,
    functional.scaled_dot_product_attention: _attention,
    **dict.fromkeys(
        (
            torch.matmul,
            torch.bmm,
            torch.mm,
            torch.Tensor.matmul,
            torch.Tensor.__matmul__,
            torch.Tensor.bmm,
            torch.Tensor.mm,
        ),
        _product,
    ),
    **dict.fromkeys((torch.conv1d, torch.conv2d, torch.conv3d), _convolution),
}

"""Muon in single precision: momentum whose update is made orthogonal (Jordan et al. 2024).

torch.optim.Muon orthogonalises in bfloat16, which a CPU without bf16 instructions emulates a
hundred times slower; here matrices of one shape go through together, in fp32.
"""

from __future__ import annotations

import torch

# Polynomial for each iteration: Amsel et al. 2025, "The Polar Express", table for 4 steps and more.
POLYNOMIALS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
)


def orthogonalise(matrices: torch.Tensor) -> torch.Tensor:
    """[N, rows, columns] -> the same with all singular values near 1."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) * 1.01 + 1e-7)
    for a, b, c in POLYNOMIALS:
        gram = x @ x.mT
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """For 2-D weights only; the step size matches AdamW's, so that one learning rate serves both
    (0.2 sqrt(max(rows, columns)), Liu et al. 2025)."""

    def __init__(self, params, lr: float, momentum: float = 0.95, weight_decay: float = 0.01):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameters in _by_shape(group["params"]):
                gradients = [p.grad for p in parameters]
                buffers = [self._buffer(p) for p in parameters]
                torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
                ahead = torch._foreach_lerp(gradients, buffers, group["momentum"])
                updates = orthogonalise(torch.stack(list(ahead)))
                rate = group["lr"] * 0.2 * max(parameters[0].shape) ** 0.5
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(parameters, list(updates.unbind()), alpha=-rate)

    def _buffer(self, parameter: torch.Tensor) -> torch.Tensor:
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        return state["momentum_buffer"]


def _by_shape(parameters) -> list[list[torch.Tensor]]:
    shapes: dict[torch.Size, list] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            shapes.setdefault(parameter.shape, []).append(parameter)
    return list(shapes.values())

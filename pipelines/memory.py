"""Fit my GPU: how a model is held in memory, from what the machine has and what the model needs.

`choose` is arithmetic alone. What changes the result (weights, tiling) follows from what the
machine has in total, so that one machine always gives one result; what does not (offload) follows
from what is free now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec

from pipelines.errors import BadInput

GB = 1_000_000_000

SHARE: Mapping[str, float] = {"full": 1.0, "fp8": 0.52, "int8": 0.52, "nf4": 0.3, "gguf": 0.6}
"""Size of a transformer against that in half precision."""

OFFLOADS: Mapping[str, tuple[str, ...]] = {
    "full": ("none", "model", "group", "sequential"),
    "fp8": ("none", "model", "group"),
    "int8": ("none", "model"),
    "nf4": ("none", "model"),
    "gguf": ("none", "model"),
}
"""What works with what. Sequential offload takes the weights apart, and casts or quantised weights
do not survive that; quantised weights cannot be moved group by group."""

PACKAGES: Mapping[str, str] = {"int8": "torchao", "nf4": "bitsandbytes", "gguf": "gguf"}
"""What quantised weights take. torchao and gguf compute anywhere; diffusers starts bitsandbytes on
a GPU only."""

IN_WORDS: Mapping[str, str] = {
    "none": "all of it stays on the GPU",
    "model": "one model after the other is on the GPU",
    "group": "the transformer comes to the GPU block by block",
    "sequential": "each layer comes to the GPU when it is needed: slow",
}


@dataclass(frozen=True)
class Machine:
    """What there is, in bytes; a GPU of 0 bytes is none."""

    gpu_free: int
    gpu_total: int
    ram_free: int
    ram_total: int
    packages: frozenset[str] = frozenset()
    """Those of `PACKAGES` that are installed."""

    def in_total(self) -> Machine:
        """With nothing else running, but for what systems keep to themselves."""
        return replace(
            self, gpu_free=int(self.gpu_total * 0.94), ram_free=int(self.ram_total * 0.9)
        )


@dataclass(frozen=True)
class Needs:
    """What a model and a recipe take, in bytes."""

    transformers: tuple[int, ...]
    """Weights of each transformer in the dtype that it runs in."""
    vae: int
    denoise: int
    """Activations of one forward."""
    decode: int
    """Activations of decoding without tiles."""
    gguf: tuple[int, ...] = ()
    """Size of the one GGUF file beside each transformer; empty where there is not one for each."""


@dataclass(frozen=True)
class Choice:
    """How the transformer is held, with the reason in words."""

    weights: str
    offload: str
    tiling: bool
    reason: str


def choose(
    machine: Machine,
    needs: Needs,
    weights: str = "auto",
    offload: str = "auto",
    tiling: str = "auto",
) -> Choice:
    """The first that fits, the plainest first; what is not "auto" is kept to.

    Raises BadInput for what this machine cannot do, or cannot do together.
    """
    if weights != "auto":
        _check_weights(machine, needs, weights)
    _check_offload(machine, weights, offload)
    tiled = tiling == "on" or (tiling == "auto" and _large_to_decode(machine, needs))
    if not machine.gpu_total:
        kept = "full" if weights == "auto" else weights
        return Choice(kept, "none", tiled, "There is no GPU: all of it stays in main memory.")
    settled = weights if weights != "auto" else _weights_for(machine.in_total(), needs, offload)
    for how in OFFLOADS[settled] if offload == "auto" else (offload,):
        if _fits(machine, needs, settled, how):
            return Choice(settled, how, tiled, _reason(machine, needs, settled, how))
    how = OFFLOADS[settled][-1] if offload == "auto" else offload
    least = _on_gpu(needs, settled, how) / GB
    reason = f"It takes about {least:.0f} GB of GPU memory and may run out; {IN_WORDS[how]}."
    return Choice(settled, how, tiled, reason)


def must_wait(machine: Machine, size: int) -> bool:
    """Whether an encoder of so many bytes has to come to the GPU layer by layer."""
    return bool(machine.gpu_total) and size > machine.gpu_free * 0.9


def offered(machine: Machine, needs: Needs) -> list[tuple[str, str]]:
    """(weights, offload) that can be chosen here."""
    found = []
    for weights, offloads in OFFLOADS.items():
        for offload in offloads:
            try:
                _check_weights(machine, needs, weights)
                _check_offload(machine, weights, offload)
            except BadInput:
                continue
            found.append((weights, offload))
    return found


def _weights_for(machine: Machine, needs: Needs, offload: str) -> str:
    """Full weights if there is any way to hold them that is not slow; else fp8, which needs
    nothing installed; else full weights layer by layer."""
    for weights, how in _plainest():
        if offload in ("auto", how) and _fits(machine, needs, weights, how):
            return weights
    return "full"


def _plainest() -> Iterator[tuple[str, str]]:
    for weights in ("full", "fp8"):
        for offload in OFFLOADS[weights]:
            if offload != "sequential":
                yield weights, offload


def _fits(machine: Machine, needs: Needs, weights: str, offload: str) -> bool:
    all_of_it = sum(_sizes(needs, weights)) + needs.vae
    ram = 0 if offload == "none" else all_of_it
    return _on_gpu(needs, weights, offload) <= machine.gpu_free and ram <= machine.ram_free


def _on_gpu(needs: Needs, weights: str, offload: str) -> int:
    """Bytes on the GPU at the worst moment while denoising."""
    sizes = _sizes(needs, weights)
    held = {
        "none": sum(sizes) + needs.vae,
        "model": max(*sizes, needs.vae),
        # Two blocks of a few dozen, with room for the next ones.
        "group": max(sizes) // 10 + needs.vae,
        "sequential": max(sizes) // 40,
    }
    return held[offload] + needs.denoise


def _sizes(needs: Needs, weights: str) -> tuple[int, ...]:
    if weights == "gguf" and needs.gguf:
        return needs.gguf
    return tuple(int(size * SHARE[weights]) for size in needs.transformers)


def _large_to_decode(machine: Machine, needs: Needs) -> bool:
    """Whether decoding in one go would take more than a third of the GPU."""
    return bool(machine.gpu_total) and needs.decode > machine.gpu_total / 3


def _reason(machine: Machine, needs: Needs, weights: str, offload: str) -> str:
    takes = _on_gpu(needs, weights, offload) / GB
    kind = "Full weights" if weights == "full" else f"Weights in {weights}"
    return (
        f"{kind}, {IN_WORDS[offload]}: about {takes:.0f} GB of the "
        f"{machine.gpu_free / GB:.0f} GB that are free."
    )


def _check_weights(machine: Machine, needs: Needs, weights: str) -> None:
    package = PACKAGES.get(weights)
    if weights == "nf4" and not machine.gpu_total:
        raise BadInput("weights", weights, "It needs a GPU; use full, fp8 or int8.")
    if package and package not in machine.packages:
        fix = f"It needs {package}: pip install {package}, or use fp8."
        raise BadInput("weights", weights, fix)
    if weights == "gguf" and not needs.gguf:
        fix = "It needs one .gguf file in the folder of each transformer; use another one."
        raise BadInput("weights", weights, fix)


def _check_offload(machine: Machine, weights: str, offload: str) -> None:
    if offload in ("auto", "none"):
        return
    if not machine.gpu_total:
        raise BadInput("offload", offload, "There is no GPU to keep free: use auto or none.")
    works = OFFLOADS.get(weights, OFFLOADS["full"])
    if offload not in works:
        fix = f"It does not work with weights in {weights}; use one of {', '.join(works)}."
        raise BadInput("offload", offload, fix)


def this_machine(device: str) -> Machine:
    """What this machine has now, the GPU only if `device` is one."""
    free, total = _ram()
    gpu_free = gpu_total = 0
    if device.startswith("cuda"):
        import torch

        gpu_free, gpu_total = torch.cuda.mem_get_info(device)
    return Machine(gpu_free, gpu_total, free, total, installed())


def installed() -> frozenset[str]:
    """The packages for quantised weights that are here."""
    return frozenset(name for name in PACKAGES.values() if find_spec(name))


def _ram() -> tuple[int, int]:
    """(free, total) bytes of main memory; what is only cached counts as free."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            told = dict(line.split(":", 1) for line in file)
        kib = {name: int(told[name].split()[0]) for name in ("MemAvailable", "MemTotal")}
    except (OSError, KeyError, ValueError):
        import psutil

        memory = psutil.virtual_memory()
        return memory.available, memory.total
    return kib["MemAvailable"] * 1024, kib["MemTotal"] * 1024

"""LoRA files: where they lie, whether they fit a transformer, and how they come onto it.

A LoRA adds strength * B A to some weight matrices (arXiv 2106.09685): A is `[rank, in]`, B is
`[out, rank]`. The header of its file tells for which, before any weight is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.base import Fields, LoraFile
from pipelines.errors import BadInput
from pipelines.safetensors_header import read_header

if TYPE_CHECKING:
    import torch

SMALL = 16
"""Tensors of at most so many elements are read for the check; they scale others."""
_MATRIX = re.compile(r"(?P<model>[^.]+)\.(?P<module>.+)\.lora_(?P<which>[AB])(\.[^.]+)?\.weight")


def path_of(file: str) -> Path:
    """Where a LoRA lies: its path, or its place in the hub's cache. No network.

    Raises BadInput if it is not there.
    """
    path = Path(file).expanduser()
    if path.is_file():
        return path
    parts = file.split("/")
    if path.is_absolute() or len(parts) < 3 or {"", ".", ".."} & set(parts):
        raise BadInput("loras", file, "There is no such file; check the path.")
    from huggingface_hub import try_to_load_from_cache

    repo, name = "/".join(parts[:2]), "/".join(parts[2:])
    found = try_to_load_from_cache(repo, name)
    if not isinstance(found, str):
        fix = f"It is not on this machine. Download it with: hf download {repo} {name}"
        raise BadInput("loras", file, fix)
    return Path(found)


def key_fields(loras: Sequence[LoraFile] | None) -> Fields:
    """What a result depends on: the content of the files, in their order, and the strengths."""
    if not loras:
        return {}
    from importlib.metadata import version

    told = [
        {"file": path_of(lora.file), "strength": lora.strength, "part": lora.part} for lora in loras
    ]
    return {"loras": told, "peft": version("peft")}


def check_fits(
    loras: Sequence[LoraFile], pipe_class: Any, transformers: Mapping[str, torch.nn.Module]
) -> None:
    """Raises BadInput, naming the file and the first key, unless each LoRA fits the transformers.

    `pipe_class` is the class of diffusers that will load them, and knows the names that trainers
    other than diffusers use; `transformers` (by component name) may be skeletons.
    """
    for lora in loras:
        if lora.part != "both" and len(transformers) == 1:
            fix = "This model has one transformer: leave the part out."
            raise BadInput("loras", f"{lora.file} ({lora.part})", fix)
        path = path_of(lora.file)
        matrices = _matrices(lora.file, path, pipe_class)
        for key, (name, module, which, shape) in matrices.items():
            if name not in transformers:
                fix = f"Its {key} is for a part that this model does not have."
                raise BadInput("loras", lora.file, fix)
            problem = _problem(transformers[name], module, which, shape)
            if problem:
                fix = f"It does not fit this model: {key} {problem}."
                raise BadInput("loras", lora.file, fix)


def _matrices(
    file: str, path: Path, pipe_class: Any
) -> dict[str, tuple[str, str, str, tuple[int, ...]]]:
    """Key -> (component, module, "A" or "B", shape), with names as diffusers has them."""
    try:
        tensors = pipe_class.lora_state_dict(_outline(path))
        state = tensors[0] if isinstance(tensors, tuple) else tensors
    except (ValueError, KeyError, RuntimeError, NotImplementedError, TypeError) as error:
        first_line = (str(error).strip() or type(error).__name__).split("\n")[0]
        fix = f"It {first_line}." if str(error).startswith("is ") else f"It cannot be used: {error}"
        raise BadInput("loras", file, fix) from error
    found = {}
    for key, tensor in state.items():
        match = _MATRIX.fullmatch(key)
        if match:
            found[key] = (match["model"], match["module"], match["which"], tuple(tensor.shape))
    if not found:
        fix = f"It holds no LoRA that is known here; its first key is {next(iter(state), None)}."
        raise BadInput("loras", file, fix)
    return found


def _outline(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file with their shapes and nothing in them; small ones are read.

    Raises ValueError for a file that is no safetensors file.
    """
    import torch
    from safetensors import safe_open

    header = read_header(path)
    outline: dict[str, torch.Tensor] = {}
    with safe_open(path, "pt") as file:
        for key, told in header.items():
            shape = told["shape"]
            small = torch.Size(shape).numel() <= SMALL
            outline[key] = file.get_tensor(key) if small else torch.empty(shape, device="meta")
    return outline


def _problem(
    transformer: torch.nn.Module, module: str, which: str, shape: tuple[int, ...]
) -> str | None:
    """Why a matrix does not fit; None if it does."""
    try:
        weight = transformer.get_submodule(module).weight
    except AttributeError:
        return "is for a layer that it does not have"
    side = 1 if which == "A" else 0
    # A is [rank, in] and the weight [out, in]; B is [out, rank].
    if len(shape) < 2 or shape[side] != weight.shape[side]:
        return f"has shape {list(shape)}, and its weight {list(weight.shape)}"
    return None


def load(pipe: Any, loras: Sequence[LoraFile]) -> None:
    """Puts the LoRAs onto the transformers of a diffusers pipeline, each under a name of its own.

    With two transformers each LoRA goes onto both, unless it is for one of them.
    """
    from safetensors.torch import load_file

    two = getattr(pipe, "transformer_2", None) is not None
    for n, lora in enumerate(loras):
        state = load_file(path_of(lora.file))
        if lora.part != "low":
            pipe.load_lora_weights(dict(state), adapter_name=_name(n))
        if two and lora.part != "high":
            pipe.load_lora_weights(dict(state), adapter_name=_name(n), load_into_transformer_2=True)


def set_strengths(pipe: Any, loras: Sequence[LoraFile]) -> None:
    """How much of each loaded LoRA counts from now on."""
    for name, part in (("transformer", "high"), ("transformer_2", "low")):
        transformer = getattr(pipe, name, None)
        own = {_name(n): x.strength for n, x in enumerate(loras) if x.part in ("both", part)}
        if transformer is not None and own:
            transformer.set_adapters(list(own), list(own.values()))


def _name(n: int) -> str:
    return f"lora_{n}"

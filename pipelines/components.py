"""Loads one component of a checkpoint by the class that model_index.json names."""

from __future__ import annotations

import functools
import gc
import importlib
import os
from typing import TYPE_CHECKING, Any

from pipelines.errors import BadInput

if TYPE_CHECKING:
    import torch

    from pipelines.checkpoint import Checkpoint

DTYPES = ("float32", "bfloat16")


def resolve(dtype: str | torch.dtype | None, device: str | None) -> tuple[str, str]:
    """(dtype, device) by name. By default bfloat16 on CUDA, and float32 on the CPU, where half
    precision is slow: weights stored in fp16 are raised on loading."""
    import torch

    if device is None:
        device = _gpu() if torch.cuda.is_available() else "cpu"
    if dtype is None:
        dtype = "bfloat16" if device.startswith("cuda") else "float32"
    dtype = str(dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise BadInput("dtype", dtype, f"Use one of {', '.join(DTYPES)}.")
    return dtype, device


def _gpu() -> str:
    """The GPU of this process: with several of them, as torchrun starts them, each has its own."""
    import torch

    rank = os.environ.get("LOCAL_RANK")
    return "cuda" if rank is None else f"cuda:{int(rank) % torch.cuda.device_count()}"


def load_component(checkpoint: Checkpoint, name: str, dtype: str, device: str) -> Any:
    """A tokenizer, a scheduler, an image processor, or a model in eval mode on `device`.

    Raises BadInput if the files do not make the model that the config describes: a weight that is
    missing would otherwise be filled with random numbers.
    """
    folder = checkpoint.folder / name
    try:
        if name == "tokenizer":
            from transformers import AutoTokenizer

            return AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        module, class_name = checkpoint.class_of(name)
        component = getattr(importlib.import_module(module), class_name)
        if name in ("scheduler", "image_processor"):
            return component.from_pretrained(folder, local_files_only=True)
        return _load_model(checkpoint, component, name, dtype, device)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        raise as_damage(checkpoint, name, error) from error


def skeleton(checkpoint: Checkpoint, name: str, dtype: str) -> torch.nn.Module:
    """A model of diffusers with its shapes and its config, and no memory behind its weights."""
    import torch

    module, class_name = checkpoint.class_of(name)
    component = getattr(importlib.import_module(module), class_name)
    with torch.device("meta"):
        model = component.from_config(dict(checkpoint.config(name)))
    # Without the warning of diffusers about modules in full precision: nothing computes here.
    torch.nn.Module.to(model, getattr(torch, dtype))
    return model.eval().requires_grad_(False)


def load_decoder(checkpoint: Checkpoint, name: str, dtype: str, device: str) -> torch.nn.Module:
    """A video codec of diffusers without the half that encodes: its weights are not even read.

    Raises BadInput as `load_component` does.
    """
    import torch
    from safetensors import safe_open

    model = skeleton(checkpoint, name, dtype)
    # Modules of their kind, but empty: the codec counts their convolutions before it decodes.
    model.encoder, model.quant_conv = torch.nn.Module(), torch.nn.Module()
    wanted = set(model.state_dict())
    weights: dict[str, torch.Tensor] = {}
    try:
        for path in checkpoint.weight_files(name):
            with safe_open(path, "pt", device=device) as file:
                for key in wanted & set(file.keys()):
                    weights[key] = file.get_tensor(key).to(getattr(torch, dtype))
        if missing := sorted(wanted - set(weights)):
            raise checkpoint.damage(name, f"has no weights for {', '.join(missing[:3])}")
        model.load_state_dict(weights, assign=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise as_damage(checkpoint, name, error) from error
    return model.requires_grad_(False)


def as_damage(checkpoint: Checkpoint, name: str, error: Exception) -> Exception:
    """What to raise for an error from loading: the folder is to blame unless memory ran out."""
    if isinstance(error, BadInput) or _is_out_of_memory(error):
        return error
    first_line = str(error).strip().split("\n")[0]
    return checkpoint.damage(name, f"cannot be loaded: {first_line.rstrip('.')}")


def _load_model(
    checkpoint: Checkpoint, component: Any, name: str, dtype: str, device: str
) -> torch.nn.Module:
    import torch
    from transformers.utils import logging

    # The studio shows its own progress.
    logging.disable_progress_bar()
    model, report = component.from_pretrained(
        checkpoint.folder / name,
        torch_dtype=getattr(torch, dtype),
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
    )
    missing = sorted(report["missing_keys"])
    if missing:
        raise checkpoint.damage(name, f"has no weights for {', '.join(missing[:3])}")
    return model.eval().requires_grad_(False).to(device)


def _is_out_of_memory(error: Exception) -> bool:
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error)


@functools.cache
def settle() -> None:
    """To be called before any model is loaded. What the libraries bring, half a million objects,
    stays as long as the process: collections need not go through it each time. A model that were
    there already would stay as well, if anything in it points in a circle."""
    import diffusers.models.modeling_utils  # noqa: F401
    import transformers.modeling_utils  # noqa: F401

    gc.collect()
    gc.freeze()


def free_memory(device: str) -> None:
    """Gives back what dropped components held."""
    gc.collect()
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()

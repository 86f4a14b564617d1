"""Applies what `pipelines.memory` chose: quantised loading, casts, offload."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.components import as_damage, load_component
from pipelines.memory import Needs
from pipelines.safetensors_header import read_header

if TYPE_CHECKING:
    import torch

    from pipelines.base import Request
    from pipelines.checkpoint import Checkpoint

HALF = 2
"""Bytes of a number in half precision."""


def needs_of(checkpoint: Checkpoint, transformers: Iterable[str], recipe: Request) -> Needs:
    """Estimated from the sizes of files, the configs and the recipe; no weight is read.

    A forward holds about a dozen tensors of its hidden size; decoding a few of a hundred channels
    at full size, four frames at a time.
    """
    config = checkpoint.config("transformer")
    hidden = config.get("num_attention_heads", 24) * config.get("attention_head_dim", 128)
    patch = config.get("patch_size", 2)
    area = patch * patch if isinstance(patch, int) else patch[1] * patch[2]
    factor = checkpoint.spatial_factor
    latent = (recipe.width // factor) * (recipe.height // factor)
    frames = (recipe.frames - 1) // checkpoint.temporal_factor + 1
    pixels = recipe.width * recipe.height
    transformers = tuple(transformers)
    files = [list((checkpoint.folder / name).glob("*.gguf")) for name in transformers]
    all_one = all(len(found) == 1 for found in files)
    return Needs(
        transformers=tuple(parameters(checkpoint, name) * HALF for name in transformers),
        vae=parameters(checkpoint, "vae") * 2 * HALF,
        denoise=latent * frames // area * hidden * HALF * 12,
        decode=pixels * min(4, recipe.frames) * 96 * 4 * 3,
        gguf=tuple(one.stat().st_size for (one,) in files) if all_one else (),
    )


def parameters(checkpoint: Checkpoint, component: str) -> int:
    """Numbers in the weights of a component, by the headers of its files."""
    files = tuple(checkpoint.weight_files(component))
    return _numbers_in(files, checkpoint.signature(component))


@lru_cache(maxsize=64)
def _numbers_in(files: tuple[Path, ...], signature: tuple[Any, ...]) -> int:
    """Read once for a state of the files: keys are made often."""
    return sum(prod(tensor["shape"]) for path in files for tensor in read_header(path).values())


def load_transformer(
    checkpoint: Checkpoint, name: str, dtype: str, device: str, weights: str
) -> torch.nn.Module:
    """A transformer in full or quantised weights. Raises BadInput as `load_component` does."""
    if weights in ("full", "fp8"):
        return load_component(checkpoint, name, dtype, device)
    import torch

    module, class_name = checkpoint.class_of(name)
    component = getattr(importlib.import_module(module), class_name)
    folder, compute = checkpoint.folder / name, getattr(torch, dtype)
    try:
        if weights == "gguf":
            model = _from_gguf(component, folder, compute)
        else:
            model, report = component.from_pretrained(
                folder,
                quantization_config=_quantization(weights, compute),
                torch_dtype=compute,
                local_files_only=True,
                output_loading_info=True,
            )
            if report["missing_keys"]:
                raise checkpoint.damage(name, "has not all of its weights")
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError) as error:
        if "meta tensor" in str(error):
            raise checkpoint.damage(name, "has not all of its weights") from error
        raise as_damage(checkpoint, name, error) from error
    return model.eval().requires_grad_(False).to(device)


def _from_gguf(component: Any, folder: Path, compute: torch.dtype) -> torch.nn.Module:
    from diffusers import GGUFQuantizationConfig

    (file,) = folder.glob("*.gguf")
    return component.from_single_file(
        str(file),
        config=str(folder),
        quantization_config=GGUFQuantizationConfig(compute_dtype=compute),
        torch_dtype=compute,
    )


def quantiser(weights: str) -> dict[str, str]:
    """The package that quantises, with its version: another one rounds otherwise."""
    from importlib.metadata import version

    from pipelines.memory import PACKAGES

    package = PACKAGES.get(weights)
    return {package: version(package)} if package else {}


def bytes_on_gpu(component: Any) -> int:
    """What the weights of a component take on a GPU now."""
    if not hasattr(component, "parameters"):
        return 0
    held = (*component.parameters(), *component.buffers())
    return sum(t.numel() * t.element_size() for t in held if t.device.type == "cuda")


def _quantization(weights: str, compute: torch.dtype) -> Any:
    if weights == "nf4":
        from diffusers import BitsAndBytesConfig

        return BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute
        )
    from diffusers import TorchAoConfig
    from torchao.quantization import Int8WeightOnlyConfig

    return TorchAoConfig(Int8WeightOnlyConfig())


def cast(transformer: torch.nn.Module, dtype: str) -> None:
    """Weights in fp8, each layer's raised to `dtype` while it computes."""
    import torch

    transformer.enable_layerwise_casting(
        storage_dtype=torch.float8_e4m3fn, compute_dtype=getattr(torch, dtype)
    )


def offload_groups(transformer: torch.nn.Module, device: str) -> None:
    """Blocks wait in main memory and come to `device` one after the other; on CUDA the next one
    comes while one computes."""
    import torch

    transformer.enable_group_offload(
        onload_device=torch.device(device),
        offload_device=torch.device("cpu"),
        offload_type="block_level",
        num_blocks_per_group=1,
        use_stream=device.startswith("cuda"),
    )


def offload_leaves(encoder: torch.nn.Module, device: str) -> None:
    """Each layer comes to `device` when it is needed, for encoders of any make."""
    import torch
    from diffusers.hooks import apply_group_offloading

    apply_group_offloading(
        encoder,
        onload_device=torch.device(device),
        offload_device=torch.device("cpu"),
        offload_type="leaf_level",
        use_stream=device.startswith("cuda"),
    )

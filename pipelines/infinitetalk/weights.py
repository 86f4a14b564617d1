"""The transformer out of the published weights: those of Wan2.1 I2V and those of the voices.

Every tensor is looked up in the headers first, so that what is missing or left over is named
before 65 GB are read; then each goes to its device by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from pipelines.errors import BadInput
from pipelines.infinitetalk.names import AUDIO_NAMES, from_published, is_published
from pipelines.infinitetalk.published import Shapes, model_config, shapes_in
from pipelines.infinitetalk.transformer import InfiniteTalkTransformer3DModel

_IGNORED = "norm_added_q"
"""In some copies of the base in the diffusers layout; diffusers leaves it out as well."""


def load_transformer(
    base_files: Sequence[Path],
    base_config: Mapping[str, Any],
    audio_file: Path,
    audio_blocks: int,
    dtype: torch.dtype,
    device: str,
) -> InfiniteTalkTransformer3DModel:
    """In eval mode on `device`. `base_config` in the words of either layout; `audio_blocks` is the
    number of layers of the audio encoder.

    What diffusers keeps in float32 for Wan stays in float32. Raises BadInput naming the file and
    the tensor where one is missing, of another shape, or not known.
    """
    headers = {path: shapes_in(path) for path in (*base_files, audio_file)}
    model = skeleton(base_config, headers[audio_file], audio_blocks)
    sources = _sources(headers, audio_file, model)
    weights: dict[str, torch.Tensor] = {}
    for path, names in sources.items():
        with safe_open(path, "pt", device=device) as file:
            for stored, name in names.items():
                weights[name] = file.get_tensor(stored).to(_dtype_of(name, dtype))
    model.load_state_dict(weights, strict=True, assign=True)
    model.rope = type(model.rope)(
        model.config.attention_head_dim, model.config.patch_size, model.config.rope_max_seq_len
    )
    return model.to(device).eval().requires_grad_(False)


def skeleton(
    base_config: Mapping[str, Any], audio_shapes: Shapes, audio_blocks: int
) -> InfiniteTalkTransformer3DModel:
    """The model of these sizes without memory behind its weights (on the meta device)."""
    with torch.device("meta"):
        return InfiniteTalkTransformer3DModel(
            **model_config(base_config, audio_shapes, audio_blocks)
        )


def own_names(shapes: Shapes, published: bool) -> dict[str, str]:
    """Name in a file -> name here, of the base's tensors. Raises KeyError for an unknown one."""
    names = {}
    for stored in shapes:
        name = from_published(stored) if published else stored
        if name is None:
            raise KeyError(stored)
        if _IGNORED not in name:
            names[stored] = name
    return names


def _sources(
    headers: Mapping[Path, Shapes], audio_file: Path, model: InfiniteTalkTransformer3DModel
) -> dict[Path, dict[str, str]]:
    """File -> name in it -> name here. Together they are exactly the tensors of the model."""
    wanted = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    base = [path for path in headers if path != audio_file]
    published = is_published({name for path in base for name in headers[path]})
    sources: dict[Path, dict[str, str]] = {}
    found: set[str] = set()
    for path, shapes in headers.items():
        if path == audio_file:
            sources[path] = {name: name for name in shapes if AUDIO_NAMES.fullmatch(name)}
            unknown = set(shapes) - set(sources[path])
        else:
            try:
                sources[path] = own_names(shapes, published)
            except KeyError as error:
                raise _refusal(path, f"has a tensor that is not known: {error.args[0]}") from None
            unknown = {n for n in sources[path].values() if AUDIO_NAMES.fullmatch(n)}
        unknown |= {n for n in sources[path].values() if n not in wanted or n in found}
        if unknown:
            raise _refusal(path, f"has a tensor that does not belong there: {min(unknown)}")
        for stored, name in sources[path].items():
            if list(shapes[stored]) != wanted[name]:
                sizes = f"{list(shapes[stored])} instead of {wanted[name]}"
                raise _refusal(path, f"has {stored} of shape {sizes}")
        found |= set(sources[path].values())
    if missing := sorted(set(wanted) - found):
        path = audio_file if AUDIO_NAMES.fullmatch(missing[0]) else base[0]
        raise _refusal(path, f"and its kin lack {missing[0]}, one of {len(missing)} tensors")
    return sources


def _dtype_of(name: str, dtype: torch.dtype) -> torch.dtype:
    kept = InfiniteTalkTransformer3DModel._keep_in_fp32_modules
    return torch.float32 if set(kept) & set(name.split(".")) else dtype


def _refusal(path: Path, problem: str) -> BadInput:
    return BadInput("model", str(path), f"{path.name} {problem}.")

"""Sizes of the transformer from the published files: the config of the base, in either layout, and
the shapes in infinitetalk.safetensors. Reads headers only, and knows no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import BadInput
from pipelines.infinitetalk.windows import WINDOW
from pipelines.safetensors_header import read_header

Shapes = Mapping[str, Sequence[int]]

_TAKEN = (
    "num_attention_heads", "attention_head_dim", "in_channels", "out_channels", "ffn_dim",
    "freq_dim", "num_layers", "text_dim", "image_dim", "eps", "rope_max_seq_len", "text_len",
)  # fmt: skip


def model_config(
    base_config: Mapping[str, Any], audio_shapes: Shapes, audio_blocks: int
) -> dict[str, Any]:
    """What InfiniteTalkTransformer3DModel is made with. `audio_blocks`: layers of the audio
    encoder. Raises BadInput if the audio weights do not belong to such an encoder."""
    return {**_base_sizes(base_config), **_audio_sizes(audio_shapes, audio_blocks)}


def shapes_in(path: Path) -> Shapes:
    """Name -> shape of the tensors in a file. Raises BadInput if it is damaged."""
    try:
        return {name: tensor["shape"] for name, tensor in read_header(path).items()}
    except ValueError as error:
        raise BadInput("model", str(path), f"{path.name} {error}.") from None


def _base_sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    if "num_attention_heads" in config:
        return {name: config[name] for name in _TAKEN if name in config}
    return {
        "num_attention_heads": config["num_heads"],
        "attention_head_dim": config["dim"] // config["num_heads"],
        "in_channels": config["in_dim"],
        "out_channels": config["out_dim"],
        "ffn_dim": config["ffn_dim"],
        "freq_dim": config.get("freq_dim", 256),
        "num_layers": config["num_layers"],
        "text_dim": config.get("text_dim", 4096),
        "text_len": config.get("text_len", 512),
        "image_dim": config.get("image_dim", 1280),
        "eps": config.get("eps", 1e-6),
    }


def _audio_sizes(shapes: Shapes, blocks: int) -> dict[str, int]:
    try:
        intermediate, values = shapes["audio_proj.proj1.weight"]
        output = shapes["audio_proj.norm.weight"][0]
        tokens = shapes["audio_proj.proj3.weight"][0] // output
    except KeyError as error:
        raise BadInput("model", "audio weights", f"They have no {error.args[0]}.") from None
    if values % (WINDOW * blocks):
        fix = f"They hear {values} values a frame, which {blocks} layers of {WINDOW} cannot give."
        raise BadInput("model", "audio weights", fix)
    return {
        "audio_blocks": blocks,
        "audio_channels": values // (WINDOW * blocks),
        "intermediate_dim": intermediate,
        "audio_output_dim": output,
        "context_tokens": tokens,
    }

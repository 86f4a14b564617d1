"""Writes a checkpoint folder in the diffusers layout: fp16 safetensors and configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .forcing import CHUNK, FLOW_SHIFT
from .text import MAX_LENGTH

if TYPE_CHECKING:
    from .codec import FrameStackCodec

MODEL_INDEX = {
    "_class_name": "SkyReelsV2DiffusionForcingPipeline",
    "_diffusers_version": "0.42.1",
    "scheduler": ["diffusers", "UniPCMultistepScheduler"],
    "text_encoder": ["transformers", "UMT5EncoderModel"],
    "tokenizer": ["transformers", "PreTrainedTokenizerFast"],
    "transformer": ["diffusers", "SkyReelsV2Transformer3DModel"],
    "vae": ["pipelines.starter.codec", "FrameStackCodec"],
}

SAMPLES = [
    {
        "label": "A boat at sunset",
        "prompt": "a red boat drifting left over the sea at sunset",
    },
    {
        "label": "A balloon at dawn",
        "prompt": "a yellow balloon drifting right over green hills at dawn",
    },
]
"""What a person may begin with."""


def new_transformer(dim: int = 192, layers: int = 6, heads: int = 4, text_dim: int = 64):
    """An untrained transformer of the starter's shape; it begins by predicting no velocity."""
    import torch
    from diffusers import SkyReelsV2Transformer3DModel

    transformer = SkyReelsV2Transformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=heads,
        attention_head_dim=dim // heads,
        in_channels=24,
        out_channels=24,
        text_dim=text_dim,
        freq_dim=128,
        ffn_dim=4 * dim,
        num_layers=layers,
        rope_max_seq_len=64,
        num_frame_per_block=CHUNK,
    )
    torch.nn.init.zeros_(transformer.proj_out.weight)
    torch.nn.init.zeros_(transformer.proj_out.bias)
    return transformer


def new_scheduler():
    """UniPC for flow matching, as SkyReels-V2 ships it."""
    from diffusers import UniPCMultistepScheduler

    return UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=FLOW_SHIFT
    )


def export_checkpoint(
    folder: Path, transformer: Any, text_encoder: Any, tokenizer: Any, codec: FrameStackCodec
) -> int:
    """Write all components in fp16 and model_index.json; returns the bytes of the weights."""
    import copy

    folder.mkdir(parents=True, exist_ok=True)
    for name, model in (
        ("transformer", transformer),
        ("text_encoder", text_encoder),
        ("vae", codec),
    ):
        half = copy.deepcopy(model).half()
        half.save_pretrained(folder / name, safe_serialization=True)
    tokenizer.save_pretrained(folder / "tokenizer")
    new_scheduler().save_pretrained(folder / "scheduler")
    _write_tokenizer_config(folder / "tokenizer" / "tokenizer_config.json")
    for name, told in (("model_index.json", MODEL_INDEX), ("samples.json", SAMPLES)):
        (folder / name).write_text(json.dumps(told, indent=2) + "\n")
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def _write_tokenizer_config(path: Path) -> None:
    """The few settings that matter; model_max_length is the length prompts are padded to."""
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_LENGTH,
        "pad_token": "<pad>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    path.write_text(json.dumps(config, indent=2) + "\n")

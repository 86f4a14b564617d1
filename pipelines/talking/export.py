"""Writes a checkpoint folder in InfiniteTalk's diffusers-like layout: fp16 weights and configs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from .captions import TEXT_LENGTH
from .faces import FPS, HEIGHT, WIDTH
from .parts import new_image_processor
from .shards import MOTION, SEGMENT

DEFAULTS = {
    "width": WIDTH,
    "height": HEIGHT,
    "fps": FPS,
    "frames": SEGMENT,
    "overlap": MOTION,
    "steps": 8,
    "guidance_scale": 1.0,
    "audio_scale": 1.5,
    "shift": 3.0,
    "color_correction": 0.0,
    "apg": 0.0,
}
SAMPLES = [
    {
        "label": "One person",
        "prompt": "a person talks",
        "image": "face.png",
        "audio": "voice.wav",
    },
    {
        "label": "Two people",
        "prompt": "two people talk",
        "image": "faces.png",
        "audio": "voice_left.wav",
        "audio_2": "voice_right.wav",
    },
]
"""Of the files that `samples.py` writes."""
MODEL_INDEX = {
    "_class_name": "InfiniteTalkPipeline",
    "_diffusers_version": "0.42.1",
    "audio_encoder": ["transformers", "Wav2Vec2Model"],
    "image_encoder": ["transformers", "CLIPVisionModel"],
    "image_processor": ["transformers", "CLIPImageProcessor"],
    "text_encoder": ["transformers", "UMT5EncoderModel"],
    "tokenizer": ["transformers", "PreTrainedTokenizerFast"],
    "transformer": ["pipelines.infinitetalk.transformer", "InfiniteTalkTransformer3DModel"],
    "vae": ["pipelines.talking.codec", "PatchCodec"],
    "defaults": DEFAULTS,
}


def export_checkpoint(folder: Path, models: dict[str, Any], tokenizer: Any) -> int:
    """Write all components in fp16 and model_index.json; returns the bytes of the weights.

    `models` has transformer, vae, text_encoder, image_encoder and audio_encoder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        copy.deepcopy(model).half().save_pretrained(folder / name, safe_serialization=True)
        config = folder / name / "config.json"
        told = json.loads(config.read_text(encoding="utf-8"))
        # Where it lay while it was made says nothing to anybody else.
        told.pop("_name_or_path", None)
        _write(config, told)
    tokenizer.save_pretrained(folder / "tokenizer")
    _write(
        folder / "tokenizer" / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": TEXT_LENGTH,
            "pad_token": "<pad>",
            "eos_token": "</s>",
            "unk_token": "<unk>",
        },
    )
    new_image_processor().save_pretrained(folder / "image_processor")
    _write(
        folder / "audio_encoder" / "preprocessor_config.json",
        {
            "feature_extractor_type": "Wav2Vec2FeatureExtractor",
            "feature_size": 1,
            "sampling_rate": 16000,
            "do_normalize": True,
            "padding_value": 0.0,
        },
    )
    _write(folder / "model_index.json", MODEL_INDEX)
    _write(folder / "samples.json", SAMPLES)
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def _write(path: Path, content: dict | list) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")

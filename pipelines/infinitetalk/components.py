"""Loads the components of a checkpoint, from whichever of its places."""

from __future__ import annotations

from typing import Any

from pipelines.components import load_component
from pipelines.errors import BadInput
from pipelines.infinitetalk.checkpoint import Checkpoint


def load(checkpoint: Checkpoint, name: str, dtype: str, device: str) -> Any:
    """A tokenizer, or a model in eval mode on `device`. Raises BadInput as
    `pipelines.components.load_component` does."""
    if checkpoint.published and name == "transformer":
        return _published_transformer(checkpoint, dtype, device)
    if checkpoint.published and name == "audio_encoder":
        return _published_audio_encoder(checkpoint, device)
    return load_component(checkpoint.holding(name), name, dtype, device)


def _published_transformer(checkpoint: Checkpoint, dtype: str, device: str) -> Any:
    import torch

    from pipelines.infinitetalk.weights import load_transformer

    return load_transformer(
        checkpoint.base_files,
        checkpoint.base_config,
        checkpoint.audio_weights,
        int(checkpoint.config("audio_encoder")["num_hidden_layers"]),
        getattr(torch, dtype),
        device,
    )


def _published_audio_encoder(checkpoint: Checkpoint, device: str) -> Any:
    """wav2vec2 without what it was only trained with: quantizer and projections are left over, the
    mask for training may be missing."""
    from transformers import Wav2Vec2Model
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = checkpoint.folder_of("audio_encoder")
    try:
        model, report = Wav2Vec2Model.from_pretrained(
            folder, local_files_only=True, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError) as error:
        first_line = str(error).strip().split("\n")[0]
        fix = f"{folder} cannot be loaded: {first_line}."
        raise BadInput("model", str(checkpoint.folder), fix) from error
    if missing := sorted(set(report["missing_keys"]) - {"masked_spec_embed"}):
        raise checkpoint.damage(str(folder), f"has no weights for {missing[0]}")
    return model.eval().requires_grad_(False).to(device)

"""The parts of the checkpoint that begin untrained: the transformer, and a CLIP that stays so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .captions import TEXT_LENGTH

if TYPE_CHECKING:
    import torch


def new_transformer(dim: int = 160, layers: int = 5, heads: int = 4):
    """An untrained transformer; it begins by predicting no velocity, and without hearing."""
    import torch

    from pipelines.infinitetalk.transformer import InfiniteTalkTransformer3DModel

    transformer = InfiniteTalkTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=heads,
        attention_head_dim=dim // heads,
        in_channels=24 + 4 + 24,
        out_channels=24,
        text_dim=64,
        text_len=TEXT_LENGTH,
        freq_dim=128,
        ffn_dim=4 * dim,
        num_layers=layers,
        image_dim=32,
        rope_max_seq_len=64,
        audio_blocks=2,
        audio_channels=64,
        intermediate_dim=192,
        audio_output_dim=64,
        context_tokens=4,
    )
    torch.nn.init.zeros_(transformer.proj_out.weight)
    torch.nn.init.zeros_(transformer.proj_out.bias)
    return transformer


def new_image_encoder():
    """A CLIP vision encoder of two layers, 32 wide, that stays as it is drawn: 17 tokens of a
    picture of 64 x 64. The reference reaches the model through the codec; this one is here for
    the format, and gives the transformer a blurred summary."""
    import torch
    from transformers import CLIPVisionConfig, CLIPVisionModel

    torch.manual_seed(0)
    config = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        projection_dim=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=64,
        patch_size=16,
    )
    return CLIPVisionModel(config).eval()


def new_image_processor():
    """The processor that goes with `new_image_encoder`."""
    from transformers import CLIPImageProcessor

    size = {"height": 64, "width": 64}
    return CLIPImageProcessor(size=size, crop_size=size, do_center_crop=False)


def embed_images(encoder, pictures: torch.Tensor) -> torch.Tensor:
    """Pictures [B, 3, H, W] in -1..1 -> the last but one layer's states [B, 17, 32]."""
    import torch

    processor = new_image_processor()
    size = (processor.size["height"], processor.size["width"])
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (processor.image_mean, processor.image_std))
    pixels = torch.nn.functional.interpolate(pictures, size, mode="bicubic", align_corners=False)
    with torch.inference_mode():
        pixels = (pixels / 2 + 0.5 - mean) / std
        return encoder(pixels, output_hidden_states=True).hidden_states[-2].clone()

"""Encode: prompts to text embeddings, a picture to its latents. The only stage that needs encoders.

Outputs equal those of diffusers' SkyReels-V2 pipelines bit for bit; padding is not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pipelines.text import clean_prompt

if TYPE_CHECKING:
    from PIL import Image


def encode_prompt(
    tokenizer: Any, text_encoder: torch.nn.Module, prompt: str, max_sequence_length: int
) -> torch.Tensor:
    """`[tokens, dim]` on the CPU, in the encoder's dtype, without the padding.

    The text is encoded at its padded length all the same: a shorter one sums in another order.
    """
    tokens = tokenizer(
        [clean_prompt(prompt)],
        padding="max_length",
        max_length=max_sequence_length,
        truncation=True,
        add_special_tokens=True,
        return_attention_mask=True,
        return_tensors="pt",
    )
    mask = tokens.attention_mask
    device = next(text_encoder.parameters()).device
    hidden = text_encoder(tokens.input_ids.to(device), mask.to(device)).last_hidden_state
    return hidden[0, : int(mask.sum())].cpu().contiguous()


def pad_prompt(prompt_embeds: torch.Tensor, max_sequence_length: int) -> torch.Tensor:
    """`[tokens, dim]` to `[1, max_sequence_length, dim]` with zeros, as the model was trained."""
    tokens, dim = prompt_embeds.shape
    padding = prompt_embeds.new_zeros(max_sequence_length - tokens, dim)
    return torch.cat([prompt_embeds, padding]).unsqueeze(0)


def encode_image(vae: torch.nn.Module, image: Image.Image) -> torch.Tensor:
    """Normalised latents `[1, C, 1, h, w]` of a picture, fp32 on the CPU.

    The mode of the posterior, so no random number is drawn.
    """
    from diffusers.video_processor import VideoProcessor

    parameter = next(vae.parameters())
    pixels = VideoProcessor(do_resize=False).preprocess(image)
    pixels = pixels.to(parameter.device, parameter.dtype).unsqueeze(2)
    latents = vae.encode(pixels).latent_dist.mode().float()
    mean, scale = latent_statistics(vae, latents)
    return ((latents - mean) * scale).cpu()


def latent_statistics(
    vae: torch.nn.Module, latents: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and 1 / standard deviation of the codec's latents, `[1, C, 1, 1, 1]`, on the device and
    in the dtype of `latents`."""
    mean = torch.tensor(vae.config.latents_mean).view(1, -1, 1, 1, 1)
    scale = 1.0 / torch.tensor(vae.config.latents_std).view(1, -1, 1, 1, 1)
    return mean.to(latents), scale.to(latents)

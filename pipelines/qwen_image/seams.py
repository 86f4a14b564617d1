"""Where encoder outputs come into diffusers' Qwen-Image pipelines, and which part each is."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from pipelines.one_piece.hooks import Hooks, Source
from pipelines.qwen_image.encoder import tell_positions


def hooks_of(pipe: Any, source: Source, pictures: Sequence[str]) -> Hooks:
    """For one call with one positive and one negative prompt, in that order, and pictures whose
    parts are called so."""
    prompts = iter(("prompt", "negative_prompt"))
    encode_text = pipe._get_qwen_prompt_embeds

    def prompt_embeds(prompt: Any, *seen: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """`[1, tokens, dim]` and a mask of ones; `seen` are the pictures, if any, and the
        device."""

        def compute() -> dict[str, torch.Tensor]:
            with tell_positions(pipe.text_encoder):
                return {"embeds": encode_text(prompt, *seen)[0][0]}

        def blank() -> dict[str, torch.Tensor]:
            return {"embeds": torch.zeros(1, pipe.transformer.config.joint_attention_dim)}

        embeds = source(next(prompts), compute, blank)["embeds"].to(seen[-1]).unsqueeze(0)
        return embeds, torch.ones(embeds.shape[:2], dtype=torch.long, device=embeds.device)

    hooks: dict[tuple[str, str], Any] = {("", "_get_qwen_prompt_embeds"): prompt_embeds}
    if pictures:
        hooks["vae", "encode"] = _image_latents(pipe, source, pictures)
    return hooks


def _image_latents(pipe: Any, source: Source, pictures: Sequence[str]) -> Any:
    order = iter(pictures)
    encode = pipe.vae.encode
    factor, channels = pipe.vae_scale_factor, pipe.vae.config.z_dim

    def latents_of(pixels: torch.Tensor) -> SimpleNamespace:
        """`[1, C, 1, h, w]` of the next picture: the mode of the posterior, so no random number is
        drawn."""

        def compute() -> dict[str, torch.Tensor]:
            return {"latents": encode(pixels).latent_dist.mode()}

        def blank() -> dict[str, torch.Tensor]:
            height, width = (side // factor for side in pixels.shape[-2:])
            return {"latents": torch.zeros(1, channels, 1, height, width)}

        return SimpleNamespace(latents=source(next(order), compute, blank)["latents"].to(pixels))

    return latents_of

"""Where encoder outputs come into diffusers' Wan pipelines, and which part each of them is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from pipelines.one_piece.hooks import Hooks, Source, pad, without_padding
from pipelines.wan.inputs import CONDITION, PICTURES


def hooks_of(pipe: Any, source: Source) -> Hooks:
    """For one call with one positive and one negative prompt, in that order."""
    prompts = iter(("prompt", "negative_prompt"))
    encode_text = pipe._get_t5_prompt_embeds

    def prompt_embeds(
        prompt: Any = None, max_sequence_length: int = 512, device: Any = None, **_: Any
    ) -> torch.Tensor:
        def compute() -> dict[str, torch.Tensor]:
            embeds = encode_text(
                prompt=prompt, max_sequence_length=max_sequence_length, device=device
            )
            return {"embeds": without_padding(embeds[0])}

        def blank() -> dict[str, torch.Tensor]:
            return {"embeds": torch.zeros(1, pipe.transformer.config.text_dim)}

        embeds = source(next(prompts), compute, blank)["embeds"]
        return pad(embeds.to(device), max_sequence_length)

    hooks: dict[tuple[str, str], Any] = {("", "_get_t5_prompt_embeds"): prompt_embeds}
    if hasattr(pipe, "encode_image"):
        hooks["", "encode_image"] = _image_embeds(pipe, source)
        hooks["vae", "encode"] = _condition(pipe, source)
    return hooks


def _image_embeds(pipe: Any, source: Source) -> Any:
    encode_image = pipe.encode_image

    def image_embeds(image: Any, device: Any = None) -> torch.Tensor:
        """`[n, tokens, dim]` of n pictures, each encoded by itself."""
        images = image if isinstance(image, list) else [image]
        embeds = []
        for part, one in zip(PICTURES, images, strict=False):

            def compute(one: Any = one) -> dict[str, torch.Tensor]:
                return {"embeds": encode_image(one, device)[0]}

            def blank() -> dict[str, torch.Tensor]:
                return {"embeds": torch.zeros(1, pipe.transformer.config.image_dim)}

            embeds.append(source(part, compute, blank)["embeds"])
        return torch.stack(embeds).to(device)

    return image_embeds


def _condition(pipe: Any, source: Source) -> Any:
    encode = pipe.vae.encode

    def latents_of(video: torch.Tensor) -> SimpleNamespace:
        """The latents of the pictures and the grey frames between: the mode of the posterior, so
        no random number is drawn."""

        def compute() -> dict[str, torch.Tensor]:
            return {"latents": encode(video).latent_dist.mode()}

        def never() -> dict[str, torch.Tensor]:
            raise RuntimeError("the condition is the last part; nothing is asked for after it")

        return SimpleNamespace(latents=source(CONDITION, compute, never)["latents"].to(video))

    return latents_of

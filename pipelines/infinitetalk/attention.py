"""The attentions of a block: over the video, to the text and the picture, to the voices."""

from __future__ import annotations

import torch
from diffusers.models.attention_dispatch import dispatch_attention_fn
from torch import nn

from pipelines.infinitetalk.routing import (
    first_frame_attention,
    key_positions,
    query_positions,
    rotate,
)

Rotary = tuple[torch.Tensor, torch.Tensor]


class VideoAttnProcessor:
    """Self-attention that, where asked, also tells which token belongs to which person."""

    _attention_backend = None

    def __call__(
        self,
        attn: nn.Module,
        hidden_states: torch.Tensor,
        encoder_hidden_states: None,
        attention_mask: None,
        rotary_emb: Rotary,
        token_masks: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """`hidden_states` `[B, tokens, dim]`, `token_masks` as in `first_frame_attention` or None;
        gives the output and the positions `[B, tokens]`, or None."""
        query = _heads(attn.norm_q(attn.to_q(hidden_states)), attn.heads)
        key = _heads(attn.norm_k(attn.to_k(hidden_states)), attn.heads)
        value = _heads(attn.to_v(hidden_states), attn.heads)
        query, key = _rotated(query, rotary_emb), _rotated(key, rotary_emb)
        out = dispatch_attention_fn(query, key, value, backend=self._attention_backend)
        out = attn.to_out[1](attn.to_out[0](out.flatten(2).type_as(query)))
        if token_masks is None:
            return out, None
        with torch.no_grad():  # a choice of one of the persons has no slope
            positions = query_positions(first_frame_attention(query, key, token_masks))
        return out, positions


class ContextAttnProcessor:
    """Cross-attention to text, and beside it to picture tokens, which come first in the context.

    Like diffusers' own for Wan, except that the number of text tokens is not fixed to 512.
    """

    _attention_backend = None

    def __init__(self, text_len: int) -> None:
        self.text_len = text_len

    def __call__(
        self,
        attn: nn.Module,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        attention_mask: None = None,
        rotary_emb: None = None,
    ) -> torch.Tensor:
        """`hidden_states` `[B, tokens, dim]`, `encoder_hidden_states`
        `[B, image tokens + text_len, dim]`."""
        image, text = encoder_hidden_states.tensor_split((-self.text_len,), dim=1)
        query = _heads(attn.norm_q(attn.to_q(hidden_states)), attn.heads)
        out = self._attend(attn, query, attn.norm_k(attn.to_k(text)), attn.to_v(text))
        if attn.add_k_proj is not None:
            key = attn.norm_added_k(attn.add_k_proj(image))
            out = out + self._attend(attn, query, key, attn.add_v_proj(image))
        return attn.to_out[1](attn.to_out[0](out))

    def _attend(
        self, attn: nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        key, value = _heads(key, attn.heads), _heads(value, attn.heads)
        out = dispatch_attention_fn(query, key, value, backend=self._attention_backend)
        return out.flatten(2).type_as(query)


class AudioCrossAttention(nn.Module):
    """Each latent frame attends to the audio tokens of its own time, of all persons.

    Names of the layers are those of the published checkpoint.
    """

    def __init__(self, dim: int, heads: int, audio_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_linear = nn.Linear(dim, dim)
        self.kv_linear = nn.Linear(audio_dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(
        self,
        hidden_states: torch.Tensor,
        audio_tokens: torch.Tensor,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """`hidden_states` `[B, T * h * w, dim]`, `audio_tokens` `[B, P, T, tokens, audio_dim]`,
        `positions` `[B, T * h * w]` where there is more than one person."""
        batch, persons, frames, tokens = audio_tokens.shape[:4]
        audio = audio_tokens.transpose(1, 2).reshape(batch * frames, persons * tokens, -1)
        query = _heads(self.q_linear(hidden_states), self.heads).flatten(0, 1)
        query = query.unflatten(0, (batch * frames, -1)).transpose(1, 2)
        key, value = self.kv_linear(audio).unflatten(-1, (2, self.heads, -1)).unbind(2)
        key, value = key.transpose(1, 2), value.transpose(1, 2)
        if persons > 1:
            query = rotate(query, positions.reshape(batch * frames, 1, -1))
            key = rotate(key, key_positions(persons, tokens, key))
        out = nn.functional.scaled_dot_product_attention(query, key, value)
        return self.proj(out.transpose(1, 2).reshape(hidden_states.shape))


def _heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.unflatten(-1, (heads, -1))


def _rotated(x: torch.Tensor, rotary_emb: Rotary) -> torch.Tensor:
    """`x` `[B, tokens, heads, head_dim]`; the tables of `rotary_emb` hold each angle twice."""
    cos, sin = (table[..., ::2] for table in rotary_emb)
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return turned.flatten(-2).type_as(x)

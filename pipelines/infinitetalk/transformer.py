"""The transformer of InfiniteTalk: Wan2.1 I2V, in whose blocks the video also attends to voices.

Built of diffusers' own Wan layers under their names; what is new has the names of the published
infinitetalk.safetensors, so neither checkpoint needs to be rewritten to be loaded.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.loaders import PeftAdapterMixin
from diffusers.models.attention import AttentionMixin
from diffusers.models.cache_utils import CacheMixin
from diffusers.models.modeling_outputs import Transformer2DModelOutput
from diffusers.models.modeling_utils import ModelMixin
from diffusers.models.normalization import FP32LayerNorm
from diffusers.models.transformers.transformer_wan import (
    WanRotaryPosEmbed,
    WanTimeTextImageEmbedding,
    WanTransformerBlock,
)
from torch import nn

from pipelines.infinitetalk.attention import (
    AudioCrossAttention,
    ContextAttnProcessor,
    Rotary,
    VideoAttnProcessor,
)
from pipelines.infinitetalk.audio_tokens import VAE_SCALE, WINDOW, AudioProjection


class InfiniteTalkBlock(WanTransformerBlock):
    """Self-attention, text and picture, voices, feed-forward. The voices have no gate."""

    def __init__(
        self,
        dim: int,
        ffn_dim: int,
        num_heads: int,
        eps: float,
        added_kv_proj_dim: int | None,
        audio_dim: int,
        text_len: int,
    ) -> None:
        super().__init__(
            dim, ffn_dim, num_heads, cross_attn_norm=True, eps=eps,
            added_kv_proj_dim=added_kv_proj_dim,
        )  # fmt: skip
        self.attn1.set_processor(VideoAttnProcessor())
        self.attn2.set_processor(ContextAttnProcessor(text_len))
        self.norm_x = FP32LayerNorm(dim, eps, elementwise_affine=True)
        self.audio_cross_attn = AudioCrossAttention(dim, num_heads, audio_dim)

    def forward(
        self,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        temb: torch.Tensor,
        rotary_emb: Rotary,
        audio_tokens: torch.Tensor,
        token_masks: torch.Tensor | None,
    ) -> torch.Tensor:
        """`hidden_states` `[B, tokens, dim]`, `temb` `[B, 6, dim]`; the rest as in its parts."""
        modulation = (self.scale_shift_table + temb.float()).chunk(6, dim=1)
        shift, scale, gate, ff_shift, ff_scale, ff_gate = modulation

        normed = (self.norm1(hidden_states.float()) * (1 + scale) + shift).type_as(hidden_states)
        attended, positions = self.attn1(normed, None, None, rotary_emb, token_masks=token_masks)
        hidden_states = (hidden_states.float() + attended * gate).type_as(hidden_states)

        normed = self.norm2(hidden_states.float()).type_as(hidden_states)
        hidden_states = hidden_states + self.attn2(normed, encoder_hidden_states)

        normed = self.norm_x(hidden_states.float()).type_as(hidden_states)
        hidden_states = hidden_states + self.audio_cross_attn(normed, audio_tokens, positions)

        normed = self.norm3(hidden_states.float()) * (1 + ff_scale) + ff_shift
        fed = self.ffn(normed.type_as(hidden_states))
        return (hidden_states.float() + fed.float() * ff_gate).type_as(hidden_states)


class InfiniteTalkTransformer3DModel(
    ModelMixin, ConfigMixin, PeftAdapterMixin, CacheMixin, AttentionMixin
):
    """Velocity of the latents of one segment. The defaults are the sizes of the published model."""

    _supports_gradient_checkpointing = True
    _skip_layerwise_casting_patterns: ClassVar = ["patch_embedding", "condition_embedder", "norm"]
    _no_split_modules: ClassVar = ["InfiniteTalkBlock"]
    _keep_in_fp32_modules: ClassVar = [
        "rope", "time_embedder", "scale_shift_table", "norm1", "norm2", "norm3", "norm_x",
    ]  # fmt: skip
    _repeated_blocks: ClassVar = ["InfiniteTalkBlock"]

    @register_to_config
    def __init__(
        self,
        patch_size: tuple[int, int, int] = (1, 2, 2),
        num_attention_heads: int = 40,
        attention_head_dim: int = 128,
        in_channels: int = 36,
        out_channels: int = 16,
        text_dim: int = 4096,
        text_len: int = 512,
        freq_dim: int = 256,
        ffn_dim: int = 13824,
        num_layers: int = 40,
        eps: float = 1e-6,
        image_dim: int | None = 1280,
        rope_max_seq_len: int = 1024,
        audio_blocks: int = 12,
        audio_channels: int = 768,
        intermediate_dim: int = 512,
        audio_output_dim: int = 768,
        context_tokens: int = 32,
    ) -> None:
        """`in_channels` counts latents, mask and condition (16 + 4 + 16). `text_len`: tokens that
        shorter texts are filled up to with zeros. `image_dim` None: no CLIP tokens."""
        super().__init__()
        dim = num_attention_heads * attention_head_dim
        self.rope = WanRotaryPosEmbed(attention_head_dim, patch_size, rope_max_seq_len)
        self.patch_embedding = nn.Conv3d(
            in_channels, dim, kernel_size=patch_size, stride=patch_size
        )
        self.condition_embedder = WanTimeTextImageEmbedding(
            dim, freq_dim, dim * 6, text_dim, image_dim
        )
        self.audio_proj = AudioProjection(
            audio_blocks, audio_channels, intermediate_dim, audio_output_dim, context_tokens
        )
        added = None if image_dim is None else dim
        self.blocks = nn.ModuleList(
            InfiniteTalkBlock(
                dim, ffn_dim, num_attention_heads, eps, added, audio_output_dim, text_len
            )
            for _ in range(num_layers)
        )
        self.norm_out = FP32LayerNorm(dim, eps, elementwise_affine=False)
        self.proj_out = nn.Linear(dim, out_channels * math.prod(patch_size))
        self.scale_shift_table = nn.Parameter(torch.randn(1, 2, dim) / dim**0.5)
        self.gradient_checkpointing = False

    def forward(
        self,
        hidden_states: torch.Tensor,
        timestep: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        encoder_hidden_states_image: torch.Tensor | None,
        audio_embeds: torch.Tensor,
        ref_target_masks: torch.Tensor | None = None,
        return_dict: bool = True,
    ) -> Transformer2DModelOutput | tuple[torch.Tensor]:
        """Gives `sample`, the velocity (noise - clean) `[B, out_channels, T, h, w]`.

        - `hidden_states` `[B, C, T, h, w]`: noisy latents, mask and condition, in this order.
        - `timestep` `[B]`, 0..1000, the same for all latent frames.
        - `encoder_hidden_states` `[B, L, text_dim]`, L <= text_len; filled up with zeros, which
          are embedded and attended to as in the published model.
        - `encoder_hidden_states_image` `[B, tokens, image_dim]`, None where there is no image_dim.
        - `audio_embeds` `[B, P, F, 5, blocks, channels]`, F = 4 * (T - 1) + 1: the window of
          speech features around each frame, for each of P persons (1 or 2).
        - `ref_target_masks` `[P + 1, h, w]` or `[B, P + 1, h, w]`: 1 where the person, and last
          the background, is in the first frame. Needed for two persons, of no effect for one.

        Raises ValueError if these do not fit each other.
        """
        batch, _, frames, height, width = hidden_states.shape
        self._check(frames, encoder_hidden_states, audio_embeds, ref_target_masks)
        p_t, p_h, p_w = self.config.patch_size
        grid = (frames // p_t, height // p_h, width // p_w)
        token_masks = self._token_masks(ref_target_masks, audio_embeds, grid[1:])

        rotary_emb = self.rope(hidden_states)
        hidden_states = self.patch_embedding(hidden_states).flatten(2).transpose(1, 2).contiguous()
        missing = self.config.text_len - encoder_hidden_states.shape[1]
        text = nn.functional.pad(encoder_hidden_states, (0, 0, 0, missing))
        temb, projected, text, image = self.condition_embedder(
            timestep, text, encoder_hidden_states_image
        )
        context = text if image is None else torch.cat((image, text), dim=1)
        modulation = projected.unflatten(1, (6, -1))
        audio_tokens = self.audio_proj(audio_embeds.type_as(hidden_states))

        for block in self.blocks:
            inputs = (hidden_states, context, modulation, rotary_emb, audio_tokens, token_masks)
            if torch.is_grad_enabled() and self.gradient_checkpointing:
                hidden_states = self._gradient_checkpointing_func(block, *inputs)
            else:
                hidden_states = block(*inputs)

        table = self.scale_shift_table.to(temb.device)
        shift, scale = (table + temb.unsqueeze(1)).to(hidden_states.device).chunk(2, dim=1)
        normed = self.norm_out(hidden_states.float()) * (1 + scale) + shift
        patches = self.proj_out(normed.type_as(hidden_states))
        patches = patches.reshape(batch, *grid, p_t, p_h, p_w, -1)
        sample = patches.permute(0, 7, 1, 4, 2, 5, 3, 6).flatten(6, 7).flatten(4, 5).flatten(2, 3)
        return Transformer2DModelOutput(sample=sample) if return_dict else (sample,)

    def _check(
        self,
        frames: int,
        text: torch.Tensor,
        audio_embeds: torch.Tensor,
        masks: torch.Tensor | None,
    ) -> None:
        config = self.config
        needed = (VAE_SCALE * (frames - 1) + 1, WINDOW, config.audio_blocks, config.audio_channels)
        if tuple(audio_embeds.shape[2:]) != needed:
            raise ValueError(f"audio_embeds {tuple(audio_embeds.shape)} end in {needed}")
        if text.shape[1] > config.text_len:
            raise ValueError(f"{text.shape[1]} text tokens, at most {config.text_len}")
        persons = audio_embeds.shape[1]
        if persons > 1 and (masks is None or masks.shape[-3] != persons + 1):
            raise ValueError(f"{persons} persons need {persons + 1} ref_target_masks")

    def _token_masks(
        self, masks: torch.Tensor | None, audio_embeds: torch.Tensor, size: tuple[int, int]
    ) -> torch.Tensor | None:
        """`[B, P + 1, tokens of a frame]`, or None for one person."""
        batch, persons = audio_embeds.shape[:2]
        if persons == 1:
            return None
        masks = masks.expand(batch, *masks.shape[-3:]).float()
        return nn.functional.interpolate(masks, size=size, mode="nearest").flatten(2)

"""Names of the published Wan2.1 weights, as diffusers' layers are called.

A name is taken apart and looked up whole. Replacing substrings, as diffusers' converter for Wan
does, would also rename the audio attention: `audio_cross_attn` contains `cross_attn`.
"""

from __future__ import annotations

import re

_ATTENTION = {
    "q": "to_q",
    "k": "to_k",
    "v": "to_v",
    "o": "to_out.0",
    "norm_q": "norm_q",
    "norm_k": "norm_k",
}
_IN_BLOCK = {
    "modulation": "scale_shift_table",
    "norm3": "norm2",
    "ffn.0": "ffn.net.0.proj",
    "ffn.2": "ffn.net.2",
    **{f"self_attn.{name}": f"attn1.{own}" for name, own in _ATTENTION.items()},
    **{f"cross_attn.{name}": f"attn2.{own}" for name, own in _ATTENTION.items()},
    "cross_attn.k_img": "attn2.add_k_proj",
    "cross_attn.v_img": "attn2.add_v_proj",
    "cross_attn.norm_k_img": "attn2.norm_added_k",
}
_OUTSIDE = {
    "patch_embedding": "patch_embedding",
    "text_embedding.0": "condition_embedder.text_embedder.linear_1",
    "text_embedding.2": "condition_embedder.text_embedder.linear_2",
    "time_embedding.0": "condition_embedder.time_embedder.linear_1",
    "time_embedding.2": "condition_embedder.time_embedder.linear_2",
    "time_projection.1": "condition_embedder.time_proj",
    "img_emb.proj.0": "condition_embedder.image_embedder.norm1",
    "img_emb.proj.1": "condition_embedder.image_embedder.ff.net.0.proj",
    "img_emb.proj.3": "condition_embedder.image_embedder.ff.net.2",
    "img_emb.proj.4": "condition_embedder.image_embedder.norm2",
    "head.head": "proj_out",
    "head.modulation": "scale_shift_table",
}
_IN_SOME_BLOCK = re.compile(r"(blocks\.\d+\.)(.+)")


def from_published(name: str) -> str | None:
    """The name here of a tensor of the published Wan2.1 I2V weights; None if it is none of them."""
    block, rest, known = "", name, _OUTSIDE
    if match := _IN_SOME_BLOCK.fullmatch(name):
        block, rest, known = *match.groups(), _IN_BLOCK
    if rest in known:  # the tables are tensors themselves
        return block + known[rest] if rest.endswith("modulation") else None
    layer, _, tensor = rest.rpartition(".")
    if layer not in known or tensor not in ("weight", "bias") or layer.endswith("modulation"):
        return None
    return f"{block}{known[layer]}.{tensor}"


def is_published(names: set[str]) -> bool:
    """Whether a set of weights has the published names rather than those of diffusers."""
    return any(".self_attn." in name or name.startswith("head.") for name in names)


AUDIO_NAMES = re.compile(
    r"audio_proj\.(proj1|proj1_vf|proj2|proj3|norm)\.(weight|bias)"
    r"|blocks\.\d+\.(audio_cross_attn\.(q_linear|kv_linear|proj)|norm_x)\.(weight|bias)"
)
"""Tensors of infinitetalk.safetensors, which have the same names here."""

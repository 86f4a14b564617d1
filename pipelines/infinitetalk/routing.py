"""Whose face is each token of the picture: attention to the persons of the first frame, made into
positions on a line, on which the audio attention then tells the voices apart.

Plain functions on tensors, after MultiTalk (arXiv 2505.22647, section 3.3, "L-RoPE").
"""

from __future__ import annotations

import torch

PERSON_RANGES = ((0.0, 4.0), (20.0, 24.0))
"""Where on the line the tokens of each person lie; its voice lies in the middle of them."""
BACKGROUND = 12.0
BASE = 10000.0


def first_frame_attention(
    query: torch.Tensor, key: torch.Tensor, token_masks: torch.Tensor
) -> torch.Tensor:
    """How much each token attends to each class of the first frame, `[B, classes, tokens]`.

    `query`, `key`: `[B, tokens, heads, head_dim]` of the self-attention, after its rotary
    embedding. `token_masks`: `[B, classes, h * w]`, a row for each person and one for the
    background, over the tokens of the first frame. A class without tokens gets 0.

    The mean goes over an even number of heads, as in the published code, which takes them in two
    halves and leaves out the last of an odd number.
    """
    first = token_masks.shape[-1]
    heads = query.shape[2]
    used = range(heads - heads % 2 if heads > 1 else 1)
    masks = token_masks.to(torch.float32)
    weights = (masks / masks.sum(-1, keepdim=True).clamp(min=1)).transpose(1, 2)
    scale = query.shape[-1] ** -0.5
    total = None
    for head in used:  # one at a time: at full size a head alone takes 200 MB
        scores = query[:, :, head].float() @ key[:, :first, head].float().transpose(1, 2)
        of_head = torch.softmax(scores * scale, dim=-1) @ weights
        total = of_head if total is None else total + of_head
    return (total / len(used)).transpose(1, 2)


def query_positions(attention: torch.Tensor) -> torch.Tensor:
    """Position of each token, `[B, tokens]`, from `attention` `[B, persons + 1, tokens]`.

    A token belongs to the class that it attends to most. A person's tokens lie in its range by
    how much they attend to it, from least to most over all tokens.
    """
    low = attention.amin(dim=-1, keepdim=True)
    high = attention.amax(dim=-1, keepdim=True)
    relative = (attention - low) / (high - low + 1e-8)
    lines = [start + relative[:, i] * (stop - start) for i, (start, stop) in _ranges(attention)]
    lines.append(torch.full_like(lines[0], BACKGROUND))
    owner = attention.argmax(dim=1, keepdim=True)
    return torch.stack(lines, dim=1).gather(1, owner).squeeze(1)


def key_positions(persons: int, tokens: int, like: torch.Tensor) -> torch.Tensor:
    """Position of each audio token of a latent frame, `[persons * tokens]`."""
    middles = [(start + stop) / 2 for start, stop in PERSON_RANGES[:persons]]
    middles = torch.tensor(middles, dtype=torch.float32, device=like.device)
    return middles.repeat_interleave(tokens)


def rotate(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """One-dimensional rotary embedding of `x` `[..., tokens, head_dim]` by real `positions`
    (broadcast to `[..., tokens]`), neighbouring channels as pairs. Computed in fp32."""
    size = x.shape[-1]
    steps = torch.arange(0, size, 2, dtype=torch.float32, device=x.device) / size
    angles = positions.float().unsqueeze(-1) * BASE**-steps
    cos, sin = angles.cos(), angles.sin()
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    turned = torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1)
    return turned.flatten(-2).type_as(x)


def _ranges(attention: torch.Tensor) -> enumerate[tuple[float, float]]:
    persons = attention.shape[1] - 1
    if persons > len(PERSON_RANGES):
        raise ValueError(f"at most {len(PERSON_RANGES)} persons, not {persons}")
    return enumerate(PERSON_RANGES[:persons])

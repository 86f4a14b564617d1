"""How a transformer of SkyReels-V2's kind is made to look at stored keys and values.

Its own forward runs, on the latent frames of some chunks only. Two attention processors take the
place of its own for the length of a segment: they give these frames the rotary embedding of their
place in the segment, and let them look at the chunks that do not run. No mask is ever built.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from pipelines.flowcache.store import ChunkStore
from pipelines.flowcache.timeline import Chunk


@dataclass(frozen=True)
class Fold:
    """Finished chunks that are to be folded once the others have looked."""

    chunks: list[int]
    budget: int
    """Tokens to keep."""
    lam: float
    asking: int
    """The chunk whose queries say what matters."""


@dataclass
class Pass:
    """One forward: the chunks that run, and what the processors of all layers share."""

    branch: str
    chunks: list[Chunk]
    rotary: tuple[torch.Tensor, torch.Tensor]
    fold: Fold | None = None


@dataclass
class Session:
    """The keys and values of one segment, and the forward that is under way."""

    causal: bool
    stores: dict[tuple[str, int], ChunkStore] = field(
        default_factory=lambda: defaultdict(ChunkStore)
    )
    current: Pass | None = None

    @property
    def bytes(self) -> int:
        return sum(store.bytes for store in self.stores.values())


class ChunkAttention:
    """Self-attention of one layer among the chunks that run and those that are stored."""

    def __init__(self, session: Session, layer: int, backend: Any) -> None:
        self.session, self.layer, self._attention_backend = session, layer, backend

    def __call__(self, attn, hidden_states, *_) -> torch.Tensor:
        session, run = self.session, self.session.current
        query, key, value = (
            tensor.unflatten(2, (attn.heads, -1))
            for tensor in (
                attn.norm_q(attn.to_q(hidden_states)),
                attn.norm_k(attn.to_k(hidden_states)),
                attn.to_v(hidden_states),
            )
        )
        query, key = rotated(query, *run.rotary), rotated(key, *run.rotary)
        store = session.stores[run.branch, self.layer]
        frames = [chunk.stop - chunk.start for chunk in run.chunks]
        frame_tokens = query.shape[1] // sum(frames)
        indices = [chunk.index for chunk in run.chunks]
        lengths = dict(zip(indices, (count * frame_tokens for count in frames), strict=True))
        store.write_all(lengths, key, value)
        queries = dict(zip(indices, query.split(list(lengths.values()), 1), strict=True))
        if session.causal:
            looks = [self.look(query, *store.up_to(chunk)) for chunk, query in queries.items()]
            looked = torch.cat(looks, 1) if len(looks) > 1 else looks[0]
        else:
            looked = self.look(query, *store.up_to(None))
        if run.fold is not None:
            asking = queries[run.fold.asking]
            store.fold(run.fold.chunks, asking, run.fold.budget, run.fold.lam)
        return attn.to_out[1](attn.to_out[0](looked.flatten(2, 3).type_as(query)))

    def look(self, query, key, value) -> torch.Tensor:
        from diffusers.models.attention_dispatch import dispatch_attention_fn

        return dispatch_attention_fn(query, key, value, backend=self._attention_backend)


class PromptAttention:
    """Cross-attention of one layer: the prompt's keys and values are computed once a segment."""

    def __init__(self, session: Session, backend: Any) -> None:
        self.session, self._attention_backend = session, backend
        self.stored: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def __call__(self, attn, hidden_states, encoder_hidden_states, *_) -> torch.Tensor:
        from diffusers.models.attention_dispatch import dispatch_attention_fn

        branch = self.session.current.branch
        if branch not in self.stored:
            key = attn.norm_k(attn.to_k(encoder_hidden_states)).unflatten(2, (attn.heads, -1))
            value = attn.to_v(encoder_hidden_states).unflatten(2, (attn.heads, -1))
            self.stored[branch] = key, value
        query = attn.norm_q(attn.to_q(hidden_states)).unflatten(2, (attn.heads, -1))
        looked = dispatch_attention_fn(query, *self.stored[branch], backend=self._attention_backend)
        return attn.to_out[1](attn.to_out[0](looked.flatten(2, 3).type_as(query)))


def rotated(tokens: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of `[B, L, heads, d]`, pairs of neighbours, as the model has it: cos and
    sin `[1, L, 1, d]` with each value twice."""
    even, odd = tokens.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[..., 0::2], sin[..., 1::2]
    out = torch.empty_like(tokens)
    out[..., 0::2] = even * cos - odd * sin
    out[..., 1::2] = even * sin + odd * cos
    return out


@contextmanager
def attached(transformer: Any, session: Session) -> Iterator[None]:
    """The processors of `session` in place of the transformer's own, which come back after."""
    block_size = transformer.config.num_frame_per_block
    own = []
    try:
        # 1 is what keeps the transformer from building its mask.
        transformer._set_ar_attention(1)
        for layer, block in enumerate(transformer.blocks):
            backend = getattr(block.attn1.processor, "_attention_backend", None)
            own.append((block.attn1, block.attn1.processor))
            block.attn1.set_processor(ChunkAttention(session, layer, backend))
            # One that also looks at a picture keeps its own.
            if block.attn2.add_k_proj is None:
                own.append((block.attn2, block.attn2.processor))
                block.attn2.set_processor(PromptAttention(session, backend))
        yield
    finally:
        for attention, processor in own:
            attention.set_processor(processor)
        transformer._set_ar_attention(block_size)


def rotary_of(transformer: Any, latents: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin `[1, Fo, tokens, d]` of all latent frames of `[1, C, Fo, h, w]`, where these
    are: a transformer that is offloaded in parts has its own elsewhere between two forwards."""
    cos, sin = (part.to(latents.device) for part in transformer.rope(latents))
    frames = latents.shape[2]
    return cos.view(1, frames, -1, cos.shape[-1]), sin.view(1, frames, -1, sin.shape[-1])


def timestep_embedding(transformer: Any, timestep: torch.Tensor, fps: int) -> torch.Tensor:
    """What modulates the blocks, `[frames, 6 * dim]`, from timesteps `[1, frames]`: TeaCache's
    signal (arXiv 2411.19108). Computed where the weights are that it takes."""
    embedder = transformer.condition_embedder
    weight = embedder.time_embedder.linear_1.weight
    if weight.device.type != "meta":
        timestep = timestep.to(weight.device)
    # Quantized weights are stored as whole numbers.
    dtype = weight.dtype if weight.dtype.is_floating_point else transformer.dtype
    embedding = embedder.time_embedder(embedder.timesteps_proj(timestep).to(dtype))
    signal = embedder.time_proj(embedder.act_fn(embedding.to(transformer.dtype)))[0]
    if transformer.config.inject_sample_info:
        rate = torch.tensor([0 if fps == 16 else 1], device=timestep.device)
        signal = signal + transformer.fps_projection(transformer.fps_embedding(rate))
    return signal.float()

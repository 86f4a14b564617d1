"""Which keys and values of finished chunks to keep when a cache passes its budget.

Pure functions on one layer's tensors (FlowCache, arXiv 2602.10825, section on KV compression;
importance as in SnapKV, arXiv 2404.14469; redundancy as in R-KV, arXiv 2505.24133). Keys come as
the cache holds them: after norm and rotary embedding, so that what is kept needs no positions.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from pipelines.errors import BadInput

LAMBDA = 0.07
POOL = 7
MAX_LOGITS = 2**26
"""Attention logits that are held at one time: a quarter of a gigabyte in fp32."""


def select(
    keys: torch.Tensor,
    queries: torch.Tensor,
    budget: int,
    lam: float = LAMBDA,
    pool: int = POOL,
) -> torch.Tensor:
    """int64 `[heads, budget]`: the tokens that each head keeps, in the order of the sequence.

    keys `[heads, L, d]`; queries `[heads * groups, q, d]` of the chunk that is being denoised. The
    tokens with the highest `scores` are kept; of two that score alike, the earlier one. With
    budget >= L all L tokens come back, unscored.

    Raises BadInput for a budget below one, ValueError for shapes that do not fit, a `lam` outside
    0..1, an even `pool`, or keys and queries that are not finite.
    """
    if budget < 1:
        raise BadInput("kv_budget", budget, "Keep at least one token.")
    heads, length, _ = keys.shape
    if budget >= length:
        return torch.arange(length, device=keys.device).expand(heads, length)
    order = scores(keys, queries, lam, pool).argsort(dim=-1, descending=True, stable=True)
    return order[:, :budget].sort(dim=-1).values


def kept(tokens: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The chosen rows of keys or values `[heads, L, d]`, as a tensor of its own
    `[heads, budget, d]`: nothing of the longer buffer stays alive behind it."""
    return tokens.gather(1, indices.unsqueeze(-1).expand(-1, -1, tokens.shape[-1]))


def scores(
    keys: torch.Tensor, queries: torch.Tensor, lam: float = LAMBDA, pool: int = POOL
) -> torch.Tensor:
    """lam * importance - (1 - lam) * redundancy, fp32 `[heads, L]`. Each sums to about one over a
    head, so that `lam` weighs like against like."""
    if not 0 <= lam <= 1:
        raise ValueError(f"lam is a weight from 0 to 1, not {lam}")
    score = lam * importance(keys, queries, pool) - (1 - lam) * redundancy(keys)
    if not score.isfinite().all():
        raise ValueError("keys or queries hold NaN or infinity: no tokens can be selected")
    return score


def importance(keys: torch.Tensor, queries: torch.Tensor, pool: int = POOL) -> torch.Tensor:
    """How much the queries look at each key, fp32 `[heads, L]`.

    The mean over the queries of their softmaxed attention, then the maximum over `pool`
    neighbours, so that a token is kept together with what stands beside it. Where several query
    heads share a key head, the largest logit of the group counts, before the softmax.
    """
    heads, length, dim = keys.shape
    if queries.ndim != 3 or queries.shape[-1] != dim or len(queries) % heads:
        raise ValueError(
            f"queries {tuple(queries.shape)} do not fit keys {tuple(keys.shape)}: "
            "[heads * groups, q, d] and [heads, L, d]"
        )
    if pool < 1 or pool % 2 == 0:
        raise ValueError(f"pool is an odd number of neighbours, not {pool}")
    groups = len(queries) // heads
    across = keys.float().transpose(1, 2).unsqueeze(1)
    grouped = queries.float().unflatten(0, (heads, groups)) * dim**-0.5
    attention = across.new_zeros(heads, length)
    for some in grouped.split(max(1, MAX_LOGITS // (len(queries) * length)), dim=2):
        attention += (some @ across).amax(1).softmax(-1).sum(1)
    attention /= queries.shape[1]
    return functional.max_pool1d(attention, pool, stride=1, padding=pool // 2)


def redundancy(keys: torch.Tensor) -> torch.Tensor:
    """How much each key resembles the others, fp32 `[heads, L]`: softmax of `mean_similarity`."""
    return mean_similarity(keys).softmax(-1)


def mean_similarity(keys: torch.Tensor) -> torch.Tensor:
    """Mean cosine of each key with the others, 0 with itself, fp32 `[heads, L]`.

    sum_j khat_i . khat_j = khat_i . sum_j khat_j: O(L d), where the L x L matrix would be O(L^2 d)
    and 6 GB a head at 40,000 tokens. In fp32 whatever the cache holds: sums in bf16 change the
    selection.
    """
    khat = functional.normalize(keys.float(), dim=-1)
    total = (khat * khat.sum(1, keepdim=True)).sum(-1)
    # Its cosine with itself is 1, but 0 for a key of zeros.
    return (total - khat.square().sum(-1)) / keys.shape[1]

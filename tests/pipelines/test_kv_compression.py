"""Which keys and values a cache keeps: the official selections, and what must hold for any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pipelines.errors import BadInput
from pipelines.flowcache import compression
from pipelines.flowcache.compression import (
    importance,
    kept,
    mean_similarity,
    redundancy,
    scores,
    select,
)

GOLDEN = Path(__file__).parents[1] / "golden" / "magi1" / "kv_selection"
CASES = json.loads(GOLDEN.with_suffix(".json").read_text())["cases"]
OFFICIAL = load_file(GOLDEN.with_suffix(".safetensors"))
LENGTHS = [(2, 6, 1), (4, 40, 2), (3, 301, 3)]


def drawn(heads: int, length: int, groups: int = 1, seed: int = 0):
    """Keys `[heads, length, 16]` and queries of 9 tokens."""
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randn(heads, length, 16, generator=generator)
    return keys, torch.randn(heads * groups, 9, 16, generator=generator)


def official_inputs(name: str):
    """Keys of the clean tokens and the queries that a case looks with, heads first."""
    case, given = CASES[name], name.split(".")[0]
    keys = OFFICIAL[f"{given}.key"].transpose(0, 1)[:, : case["clean_tokens"]]
    last = {"token": 50, "frame": case["H"] * case["W"], "chunk": None}[case["query_granularity"]]
    queries = OFFICIAL[f"{given}.query"].transpose(0, 1)
    return keys, queries if last is None else queries[:, -last:], case["budget"]


@pytest.mark.parametrize("name", CASES)
def test_the_selection_is_that_of_the_official_compressor(name):
    keys, queries, budget = official_inputs(name)
    wanted = OFFICIAL[f"{name}.indices"].long().sort(-1).values
    assert torch.equal(select(keys, queries, budget), wanted)


@pytest.mark.parametrize("name", [n for n in CASES if n.endswith(".b36")])
def test_its_two_terms_are_those_of_the_official_compressor(name):
    keys, queries, _ = official_inputs(name)
    given, granularity = name.split(".")[0], CASES[name]["query_granularity"]
    looked = OFFICIAL[f"{given}.{granularity}.pooled_attention"]
    alike = OFFICIAL[f"{given}.similarity_softmax"]
    assert torch.allclose(importance(keys, queries), looked, rtol=0, atol=3e-8)
    assert torch.allclose(redundancy(keys), alike, rtol=0, atol=3e-8)


@pytest.mark.parametrize("heads, length, groups", LENGTHS)
def test_the_short_form_of_the_redundancy_equals_the_square_one(heads, length, groups):
    keys, _ = drawn(heads, length, groups)
    khat = torch.nn.functional.normalize(keys, dim=-1)
    square = khat @ khat.transpose(1, 2)
    square.diagonal(dim1=1, dim2=2).zero_()
    difference = (mean_similarity(keys) - square.mean(-1)).abs().max()
    assert difference <= 2e-7 * length


@pytest.mark.parametrize("heads, length, groups", LENGTHS)
def test_each_head_keeps_its_own_tokens_in_the_order_of_the_sequence(heads, length, groups):
    keys, queries = drawn(heads, length, groups)
    budget = length // 2
    chosen = select(keys, queries, budget)
    assert chosen.dtype == torch.int64 and chosen.shape == (heads, budget)
    assert (chosen.diff(dim=-1) > 0).all()
    alone = [
        select(keys[h : h + 1], queries[h * groups : (h + 1) * groups], budget)
        for h in range(heads)
    ]
    assert torch.equal(chosen, torch.cat(alone))


def test_what_is_kept_scores_no_worse_than_what_is_dropped():
    keys, queries = drawn(3, 50)
    chosen, score = select(keys, queries, 20), scores(keys, queries)
    dropped = score.scatter(1, chosen, -torch.inf)
    assert (score.gather(1, chosen).amin(-1) >= dropped.amax(-1)).all()


def test_without_pooling_the_order_of_the_tokens_does_not_matter():
    keys, queries = drawn(3, 60, 2)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    chosen = select(keys, queries, 20, pool=1)
    again = select(keys[:, order], queries, 20, pool=1)
    assert torch.equal(order[again].sort(-1).values, chosen)


def test_neighbours_of_what_is_looked_at_are_kept_with_it():
    keys, queries = torch.zeros(1, 40, 4), torch.ones(1, 2, 4)
    keys[0, 20] = 9.0
    assert select(keys, queries, 7, lam=1.0).tolist() == [[17, 18, 19, 20, 21, 22, 23]]


def test_a_key_that_many_resemble_is_dropped_before_one_that_none_does():
    keys, queries = torch.eye(6).repeat(1, 1, 1), torch.zeros(1, 1, 6)
    keys[0, 1:4] = keys[0, 1]
    assert select(keys, queries, 3).tolist() == [[0, 4, 5]]


def test_of_tokens_that_score_alike_the_earlier_ones_are_kept():
    keys, queries = torch.ones(2, 30, 8), torch.ones(2, 3, 8)
    assert select(keys, queries, 4).tolist() == [[0, 1, 2, 3]] * 2


@pytest.mark.parametrize("budget", [12, 13, 10**9])
def test_a_budget_that_holds_everything_keeps_everything(budget):
    keys, queries = drawn(2, 12)
    chosen = select(keys, queries, budget)
    assert torch.equal(chosen, torch.arange(12).expand(2, 12))
    assert torch.equal(kept(keys, chosen), keys)


def test_what_is_kept_shares_no_memory_with_the_longer_buffer():
    keys, queries = drawn(2, 100)
    short = kept(keys, select(keys, queries, 10))
    assert short.shape == (2, 10, 16)
    assert short.untyped_storage().nbytes() == 2 * 10 * 16 * 4


def test_half_precision_is_scored_in_full():
    keys, queries = (t.bfloat16() for t in drawn(3, 200, 2))
    assert scores(keys, queries).dtype == torch.float32
    assert torch.equal(select(keys, queries, 80), select(keys.float(), queries.float(), 80))


def test_a_key_of_zeros_resembles_nothing():
    keys, queries = drawn(1, 10)
    keys[0, 3] = 0
    assert mean_similarity(keys)[0, 3] == 0
    assert select(keys, queries, 5).shape == (1, 5)


def test_many_queries_are_scored_in_parts_with_the_same_result(monkeypatch):
    keys, queries = drawn(3, 64, 2)
    whole = importance(keys, queries)
    monkeypatch.setattr(compression, "MAX_LOGITS", 6 * 64 * 2)
    assert torch.allclose(importance(keys, queries), whole, rtol=0, atol=1e-7)


@pytest.mark.parametrize("budget", [0, -3])
def test_an_empty_budget_is_refused(budget):
    keys, queries = drawn(2, 12)
    with pytest.raises(BadInput, match="kv_budget"):
        select(keys, queries, budget)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("which", [0, 1])
def test_keys_and_queries_that_are_not_finite_are_refused(which, value):
    given = drawn(2, 12)
    given[which][1, 3, 4] = value
    with pytest.raises(ValueError, match="NaN or infinity"):
        select(*given, 6)


@pytest.mark.parametrize(
    "wrong, told",
    [
        ({"lam": 1.5}, "weight from 0 to 1"),
        ({"lam": float("nan")}, "weight from 0 to 1"),
        ({"pool": 4}, "odd number"),
        ({"pool": 0}, "odd number"),
        ({"queries": torch.zeros(3, 5, 16)}, "do not fit"),
        ({"queries": torch.zeros(2, 5, 8)}, "do not fit"),
    ],
)
def test_settings_and_shapes_that_make_no_sense_are_refused(wrong, told):
    keys, queries = drawn(2, 12)
    with pytest.raises(ValueError, match=told):
        select(keys, **{"queries": queries, "budget": 6} | wrong)

"""Compute or reuse: the paper's formula, the official bookkeeping, the schedule's chunks."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from pipelines.errors import BadInput
from pipelines.flowcache import FlowCacheConfig, SkipMap
from pipelines.flowcache.calibration import threshold_for
from pipelines.flowcache.decision import (
    always_computed,
    line_on,
    relative_change,
    relative_distance,
    reuse,
    signal_weight,
)
from pipelines.flowcache.policy import FlowRule, TeaRule
from pipelines.flowcache.timeline import make_timeline
from pipelines.skyreels_v2.schedule import make_schedule

GOLDEN = Path(__file__).parents[1] / "golden" / "magi1" / "flowcache_traces.json"
TRACES = json.loads(GOLDEN.read_text())["traces"]


def timeline(chunks=3, steps=8, ar_step=2, prefix=0):
    from diffusers import UniPCMultistepScheduler

    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    )
    return make_timeline(make_schedule(scheduler, steps, 2 * chunks, prefix, ar_step, 2), 2)


def drive(rule, sizes):
    """Rows of chunks that a rule computes when the velocity of chunk i has size sizes[i]."""
    computed = []
    latents = torch.ones(1, 4, 2 * len(sizes), 2, 2)
    velocities = torch.cat([torch.full((1, 4, 2, 2, 2), size) for size in sizes], 2)
    for row in range(rule.timeline.rows):
        chosen = rule.choose(row)
        rule.after(row, velocities, latents)
        computed.append(chosen)
    return computed


def test_the_change_of_a_chunk_is_the_papers_formula():
    generator = torch.Generator().manual_seed(0)
    velocity, latents = torch.randn(2, 1, 4, 3, 5, 5, generator=generator).unbind()
    following = latents + velocity * -0.04
    wanted = (following - latents).abs().sum() / latents.abs().sum()
    assert relative_change(velocity, -0.04, latents).item() == pytest.approx(wanted.item(), 1e-5)


def test_the_change_is_summed_in_single_precision_whatever_the_model_computes_in():
    latents = torch.full((1, 16, 3, 60, 104), 0.37, dtype=torch.bfloat16)
    assert relative_change(latents, 0.5, latents).item() == pytest.approx(0.5, 1e-5)


def test_the_distance_of_two_embeddings_is_relative_to_the_earlier_one():
    assert relative_distance(torch.tensor([3.0, -1.0]), torch.tensor([1.0, -1.0])) == 1.0


@pytest.mark.parametrize(
    "trace", TRACES, ids=lambda t: f"{t['trajectory']}-{t['threshold']}-{t['warmup']}"
)
def test_the_sum_is_kept_as_in_the_official_traces(trace):
    sums: dict[int, float] = {}
    for _, first, _, steps, reused, changes, after in trace["rows"]:
        for offset, change in enumerate(changes):
            chunk = first + offset
            again = False
            if change is None:
                sums[chunk] = 0.0
            else:
                again, sums[chunk] = reuse(sums[chunk], change, trace["threshold"])
                if steps[offset] < trace["warmup"]:
                    again, sums[chunk] = False, 0.0
            assert again == bool(reused[offset])
            assert sums[chunk] == pytest.approx(after[offset], abs=1e-6)


def test_the_first_steps_and_the_last_one_are_always_computed():
    assert [always_computed(step, 6, 2) for step in range(6)] == [True, True, *[False] * 3, True]
    assert always_computed(0, 6, 0)
    assert all(always_computed(step, 3, 5) for step in range(3))


def test_a_velocity_goes_on_along_its_line_for_a_part_of_the_way_and_then_holds():
    a, b = torch.tensor([1.0]), torch.tensor([3.0])
    for sigma, wanted in ((0.6, 3.0), (0.55, 3.5), (0.46, 4.4), (0.4, 4.4), (0.0, 4.4)):
        assert line_on((0.8, a), (0.6, b), sigma).item() == pytest.approx(wanted)


def test_a_step_weighs_by_the_signal_and_one_on_average():
    levels = torch.linspace(0, 1, 100_001).tolist()
    weights = [signal_weight(sigma) for sigma in levels]
    assert sum(weights) / len(weights) == pytest.approx(1, abs=1e-3)
    assert weights[0] == pytest.approx(weights[-1])
    assert min(weights) == weights[50_000]


def test_chunks_of_one_row_decide_differently_when_one_moves_more():
    rule = FlowRule(FlowCacheConfig("flow", threshold=0.1, warmup=1), timeline(ar_step=0))
    rows = drive(rule, (0.1, 1.0, 4.0))
    counts = [sum(index in row for row in rows) for index in range(3)]
    assert counts[0] < counts[1] < counts[2]
    assert any(0 < len(row) < 3 for row in rows)


def test_staggered_chunks_decide_by_their_own_step():
    """The corollary: at one time, chunks at other noise levels move by other amounts."""
    rule = FlowRule(FlowCacheConfig("flow", threshold=0.15, warmup=1), timeline())
    rows = drive(rule, (1.0, 1.0, 1.0))
    lines = [
        [index in rows[row] for row in chunk.rows]
        for index, chunk in enumerate(rule.timeline.chunks)
    ]
    # One way for all of them, each two rows behind the one before it.
    assert lines[0] == lines[1] == lines[2]
    assert any(0 < len(set(rows[row])) < len(rule.timeline.moving[row]) for row in range(4, 8))


def test_nothing_is_reused_below_a_threshold_of_zero_and_all_that_may_be_above_a_high_one():
    for threshold, wanted in ((0.0, 8), (1e9, 3)):
        config = FlowCacheConfig("flow", threshold=threshold, warmup=2)
        rows = drive(FlowRule(config, timeline()), (1.0, 1.0, 1.0))
        assert sum(0 in row for row in rows) == wanted


def test_teacache_decides_once_for_all_chunks():
    def signal(row, chunks):
        return torch.full((len(chunks), 4), 1.0 + 0.1 * row)

    config = FlowCacheConfig("teacache", threshold=0.25, warmup=1)
    rule = TeaRule(config, timeline(ar_step=0), signal)
    rows = drive(rule, (0.1, 1.0, 4.0))
    assert all(row in ([], [0, 1, 2]) for row in rows)
    assert [number for number, row in enumerate(rows) if row] == [0, 3, 7]


def test_the_chunks_of_a_segment_know_their_rows_and_noise_levels():
    line = timeline(chunks=3, steps=8, ar_step=2, prefix=2)
    given, second, third = line.chunks
    assert (given.start, given.stop, given.rows) == (0, 2, ())
    assert second.rows == tuple(range(8))
    assert third.rows == tuple(range(2, 10))
    assert len(second.sigmas) == 9
    assert second.sigmas[0] > second.sigmas[-1] == 0.0
    assert sum(second.dt(step) for step in range(8)) == pytest.approx(-second.sigmas[0])
    assert line.finished(0) == [0]
    assert line.finished(8) == [0, 1]
    # It becomes clean: other latents and another timestep than in the row before.
    assert 1 in line.changed[8]
    assert 1 not in line.changed[9]
    assert 0 not in line.changed[1]


def test_the_last_chunk_may_be_shorter():
    from diffusers import UniPCMultistepScheduler

    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    )
    line = make_timeline(make_schedule(scheduler, 4, 9, 1, 0, 1), 3)
    assert [(c.start, c.stop) for c in line.chunks] == [(0, 1), (1, 4), (4, 7), (7, 9)]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"mode": "fast"}, "flowcache"),
        ({"attention": "sideways"}, "flowcache_attention"),
        ({"extrapolate": "square"}, "flowcache_extrapolate"),
        ({"weighting": "heavy"}, "flowcache_weighting"),
        ({"branches": "alone"}, "flowcache_branches"),
        ({"threshold": -0.1}, "flowcache_threshold"),
        ({"threshold": float("nan")}, "flowcache_threshold"),
        ({"warmup": -1}, "flowcache_warmup"),
        ({"warmup": 1.5}, "flowcache_warmup"),
        ({"chunk": 0}, "flowcache_chunk"),
        ({"kv_budget": 0}, "kv_budget"),
        ({"kv_budget": True}, "kv_budget"),
        ({"kv_unit": "frames"}, "kv_unit"),
        ({"kv_lambda": 1.1}, "kv_lambda"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(given, field):
    with pytest.raises(BadInput) as refused:
        FlowCacheConfig(**given)
    assert refused.value.field == field
    assert refused.value.fix


def test_it_is_said_which_settings_are_exact():
    assert FlowCacheConfig("exact").is_exact(3)
    assert FlowCacheConfig("exact").is_exact(1)
    assert FlowCacheConfig("exact", attention="causal").is_exact(3)
    assert not FlowCacheConfig("exact", attention="causal").is_exact(1)
    assert not FlowCacheConfig("exact", attention="bidirectional").is_exact(3)
    assert not FlowCacheConfig("exact", kv_budget=2).is_exact(3)
    assert not FlowCacheConfig("flow").is_exact(3)


def test_what_to_expect_is_said_in_words_and_is_what_holds():
    settings = [
        (FlowCacheConfig(mode, attention=attention, kv_budget=budget), block)
        for mode in ("exact", "flow", "teacache")
        for attention in ("auto", "causal", "bidirectional")
        for budget in (None, 2)
        for block in (1, 3)
    ]
    for config, block in settings:
        words = config.promise(block)
        assert words.startswith("Exact" if config.is_exact(block) else "Not exact: ")
    assert FlowCacheConfig("off").promise(3) == ""
    assert FlowCacheConfig("exact").promise(3) == "Exact: the same video for less work."
    assert "nothing to leave out" in FlowCacheConfig("exact").promise(1)


def recorded(rule, rows):
    """What a run over a `FlowRule` tells."""
    timeline = rule.timeline
    count = range(len(timeline.chunks))
    return SkipMap(
        steps=timeline.rows,
        chunks=len(timeline.chunks),
        computed=tuple(tuple(int(index in row) for index in count) for row in rows),
        moved=tuple(tuple(int(index in row) for index in count) for row in timeline.moving),
        passes=sum(map(len, rows)),
        plain_passes=timeline.rows * len(timeline.chunks),
        kv_bytes=0,
        exact=False,
        changes=rule.changes,
    )


def test_one_run_tells_the_threshold_for_a_wanted_speed_up():
    def at(threshold):
        rule = FlowRule(FlowCacheConfig("flow", threshold, warmup=1), timeline(steps=30))
        return recorded(rule, drive(rule, (0.5, 1.0, 1.5)))

    for wanted in (1.5, 2.0, 3.0):
        found = at(threshold_for([at(0.0)], 1, wanted))
        assert found.plain_passes / found.passes >= wanted * 0.95
        assert found.plain_passes / found.passes < wanted * 1.2


def test_a_speed_up_that_no_threshold_gives_is_refused():
    rule = FlowRule(FlowCacheConfig("flow", 0.0, warmup=4), timeline())
    run = recorded(rule, drive(rule, (1.0, 1.0, 1.0)))
    with pytest.raises(BadInput, match=r"speedup: 9.*Use 1 to 2\.40"):
        threshold_for([run], 4, 9.0)
    with pytest.raises(BadInput, match="flowcache flow first"):
        threshold_for([dataclasses.replace(run, changes=())], 4, 2.0)

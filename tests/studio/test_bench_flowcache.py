"""The benchmark of FlowCache: what it counts, what it compares, and what it draws."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from pipelines.errors import BadInput
from pipelines.flowcache import FlowCacheConfig
from studio import bench_flowcache, bench_growth, bench_plot, bench_settings
from studio.events import ignore
from studio.flops import FlopCount
from studio.quality import SAME, psnr, ssim

STEPS = 7
SMALL = {"width": 32, "height": 16, "causal_block": 2, "frames": 29}
"""Four chunks."""


@pytest.fixture(scope="module")
def told(tiny) -> dict:
    """The benchmark on a model with random weights."""
    return bench_flowcache.flowcache(str(tiny), 1, STEPS, SMALL)


def rows_of(told: dict, kind: str) -> list[dict]:
    return [row for row in told["rows"] if row["kind"] == kind]


def test_every_way_to_be_faster_is_in_the_table(told):
    assert [row["kind"] for row in told["rows"][:2]] == ["plain", "exact"]
    assert {row["kind"] for row in told["rows"]} == set(bench_settings.KINDS)
    assert told["prompts"] == 1 and told["chunks"] >= 4
    assert json.loads(json.dumps(told)) == told


def test_exact_is_the_plain_picture_for_less_work(told):
    (plain,), (exact,) = rows_of(told, "plain"), rows_of(told, "exact")
    assert plain["speedup"] == plain["wall_ratio"] == 1
    assert plain["psnr"] > 60 and exact["psnr"] == SAME and exact["ssim"] == 1
    assert exact["flops"] < plain["flops"] and exact["forwards"] < plain["forwards"]
    assert plain["kv_bytes"] == 0 < exact["kv_bytes"]


def test_fewer_steps_cost_less_and_are_what_the_modes_are_held_against(told):
    flops = [row["flops"] for row in rows_of(told, "fewer steps")]
    assert flops == sorted(flops, reverse=True)
    assert all(row["over"] == {} for row in rows_of(told, "fewer steps"))
    assert any("fewer steps" in row["over"] for row in told["rows"])
    assert all("teacache" not in row["over"] for row in rows_of(told, "teacache"))


def test_a_kv_budget_takes_less_memory_the_smaller_it_is(told):
    whole, *folded = rows_of(told, "in turn")
    assert whole["config"]["kv_budget"] is None and whole["psnr"] == SAME
    taken = [whole["kv_bytes"], *(row["kv_bytes"] for row in folded)]
    assert taken == sorted(taken, reverse=True) and len(set(taken)) == 3


def test_in_turn_plain_would_take_more_rows(told):
    in_turn, exact = rows_of(told, "in turn")[0], rows_of(told, "exact")[0]
    assert in_turn["ar_step"] == STEPS and in_turn["speedup"] > exact["speedup"]


def test_the_table_has_a_line_for_each_setting(told):
    lines = bench_flowcache.table(told).splitlines()
    assert len(lines) == 2 + len(told["rows"])
    assert [line.split()[0] for line in lines[2:4]] == ["plain", "exact"]


def test_the_plot_is_a_small_picture(told, tmp_path):
    bench_plot.draw(told, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size < 100_000
    with Image.open(tmp_path / "plot.png") as image:
        assert image.size == (bench_plot.WIDTH, bench_plot.HEIGHT)
        assert image.convert("RGB").getpixel((2, 2)) == (255, 255, 255)


@pytest.mark.parametrize("name", ["plot.jpg", "plot", "missing/plot.png"])
def test_a_plot_that_cannot_be_written_is_refused(tmp_path, name):
    with pytest.raises(BadInput, match="plot"):
        bench_plot.check(tmp_path / name)


def test_without_prompts_there_is_nothing_to_measure(tiny):
    with pytest.raises(BadInput, match="prompts"):
        bench_flowcache.flowcache(str(tiny), 0)


def test_quality_at_a_speed_lies_on_the_line_between_two_that_were_measured():
    points = [(1.5, 40.0), (2.5, 30.0), (3.5, 28.0)]
    assert bench_flowcache.at_speed(points, 2.0) == 35
    assert bench_flowcache.at_speed(points, 3.0) == 29
    assert bench_flowcache.at_speed(points, 1.0) is None
    assert bench_flowcache.at_speed(points, 4.0) is None


def test_keys_and_values_stay_flat_with_a_budget_and_grow_without(monkeypatch):
    monkeypatch.setattr(bench_growth, "LAYERS", 2)
    told = bench_growth.growth((4, 8, 16))
    first, second, third = told["rows"]
    flat = {row["kv_bytes_compressed"] for row in (second, third)}
    assert len(flat) == 1
    assert third["kv_bytes"] > 3 * first["kv_bytes"]
    assert third["flops_compressed"] < third["flops"] < third["plain_flops"]
    assert len(bench_growth.table(told).splitlines()) == 3 + 3


def test_the_model_of_the_growth_runs_in_half_precision_too(monkeypatch):
    monkeypatch.setattr(bench_growth, "LAYERS", 1)
    model = bench_growth.in_half(bench_growth._model(2, "cpu"))
    assert model.dtype == torch.bfloat16
    exact = FlowCacheConfig("exact")
    flops, kv_bytes = bench_growth._measured(model, (4, 4), 2, exact, (0, 1), ignore)
    # Keys and values of 2 chunks of 20 tokens, 2 heads of 128, two bytes each.
    assert flops > 0 and kv_bytes == 2 * 2 * 20 * 2 * 128 * 2


def test_growth_needs_two_chunks():
    with pytest.raises(BadInput, match="chunks"):
        bench_growth.growth((1,), False, ignore)


def test_flops_are_those_of_the_counter_of_torch():
    from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

    def attention(query, key, value, *_, out_shape=None, **__):
        return sdpa_flop_count(query, key, value)

    def work():
        tokens = torch.ones(2, 3, 5, 8)
        torch.nn.Linear(8, 7)(tokens)
        torch.nn.Conv3d(2, 4, (1, 2, 2))(torch.ones(1, 2, 3, 4, 4))
        tokens @ torch.ones(8, 4)
        torch.bmm(tokens[0], tokens[0].transpose(1, 2))
        for mask in (None, torch.ones(5, 5, dtype=torch.bool)):
            torch.nn.functional.scaled_dot_product_attention(tokens, tokens, tokens, mask)

    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with torch.inference_mode():
        with FlopCount() as count:
            work()
        with FlopCounterMode(display=False, custom_mapping={kernel: attention}) as counter:
            work()
    assert count.total == counter.get_total_flops() > 0


def test_psnr_and_ssim_know_the_same_clip_and_a_changed_one():
    frames = np.random.default_rng(0).integers(40, 200, (3, 24, 32, 3)).astype(np.uint8)
    assert psnr(frames, frames) == SAME and ssim(frames, frames) == pytest.approx(1)
    lighter = frames + 10
    assert psnr(lighter, frames) == pytest.approx(20 * np.log10(255 / 10))
    assert 0.9 < ssim(lighter, frames) < 1
    assert ssim(frames[:, ::-1], frames) < 0.3

"""FlowCache on the loop: what is reused, what is stored, and that nothing of it stays behind."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import json

import numpy as np
import pytest
import torch
from conftest import assert_same, chain, encode, seeded
from test_flowcache_exact import BLOCKS, NOISY, STAGGERED, difference, run

from pipelines.errors import BadInput
from pipelines.flowcache import FlowCacheConfig, SkipMap, disable_flowcache, enable_flowcache
from pipelines.flowcache.attention import rotary_of
from pipelines.flowcache.store import ChunkStore
from pipelines.flowcache.velocity import FlowVelocity

EXACT = FlowCacheConfig("exact")
EVERYTHING = FlowCacheConfig("flow", threshold=0.0)
NEVER = FlowCacheConfig("flow", threshold=1e9, warmup=1)
SOME = FlowCacheConfig("flow", threshold=0.03, warmup=1)
PAPER = dataclasses.replace(SOME, extrapolate="hold", weighting="none", branches="apart")
TEA = FlowCacheConfig("teacache", threshold=1.5, warmup=1)
EIGHT = {**STAGGERED, "steps": 8}


def assert_all_same(a, b):
    for x, y in zip(a, b, strict=True):
        assert_same(x, y)
        assert x.skip_map == y.skip_map


@pytest.fixture(scope="module")
def some(pipeline):
    """Two segments in mode `flow`, made once."""
    from conftest import Recipe

    return run(pipeline, Recipe().but(**EIGHT), SOME)


@pytest.mark.parametrize("mode", [BLOCKS, STAGGERED], ids=str)
def test_with_a_threshold_of_zero_flow_is_exact_to_the_bit(pipeline, recipe, mode):
    recipe = recipe.but(**mode)
    exact, flow = run(pipeline, recipe, EXACT), run(pipeline, recipe, EVERYTHING)
    assert difference(exact, flow) == 0.0


def test_a_row_in_which_all_chunks_reuse_runs_no_transformer(pipeline, recipe):
    recipe = recipe.but(segments=1, steps=8, **BLOCKS)
    transformer = pipeline.components["transformer"]
    calls = []
    hook = transformer.register_forward_pre_hook(lambda *_: calls.append(1))
    (output,) = run(pipeline, recipe, NEVER)
    hook.remove()
    assert output.skip_map.lines() == ["#------#"] * 3
    assert len(calls) == output.forwards == 2 * 2
    assert output.forwards_skipped == 2 * 6


def test_only_the_frames_of_the_chunks_that_compute_reach_the_transformer(pipeline, recipe):
    recipe = recipe.but(segments=1, guidance_scale=1.0, **EIGHT)
    transformer = pipeline.components["transformer"]
    frames = []
    hook = transformer.register_forward_pre_hook(
        lambda module, args, kwargs: frames.append(kwargs["hidden_states"].shape[2]),
        with_kwargs=True,
    )
    (output,) = run(pipeline, recipe, SOME)
    hook.remove()
    ran = [2 * sum(row) for row in output.skip_map.computed if any(row)]
    assert frames == ran
    assert sum(frames) == 2 * output.skip_map.passes


def test_chunks_decide_apart_and_the_map_tells_it(some):
    skipped = some[0].skip_map
    assert (skipped.steps, skipped.chunks) == (12, 3)
    assert any("-" in line and "#" in line for line in skipped.lines())
    assert skipped.passes < skipped.plain_passes
    assert not skipped.exact
    assert SkipMap.from_json(json.loads(json.dumps(skipped.to_json()))) == skipped


def test_the_branches_of_guidance_decide_together_or_apart(pipeline, recipe, some):
    recipe = recipe.but(**EIGHT)
    apart = run(pipeline, recipe, dataclasses.replace(SOME, branches="apart"))
    assert apart[0].skip_map != some[0].skip_map
    for output in (*some, *apart):
        assert output.skip_map.plain_passes == 2 * output.skip_map.steps * 3
    # Together, both of them run in every pass.
    cells = sum(map(sum, some[0].skip_map.computed))
    assert some[0].skip_map.passes == 2 * cells


def test_a_reused_velocity_moves_by_the_current_step(pipeline, recipe, monkeypatch):
    recipe = recipe.but(segments=1, overlap=0, steps=6, guidance_scale=1.0, **BLOCKS)
    own, seen, sigmas = FlowVelocity.__call__, [], []

    def recorded(self, row, model_input, timestep):
        velocity = own(self, row, model_input, timestep)
        seen.append((model_input.clone(), velocity))
        sigmas[:] = self.timeline.chunks[0].sigmas
        return velocity

    monkeypatch.setattr(FlowVelocity, "__call__", recorded)
    run(pipeline, recipe, NEVER)
    assert all(torch.equal(velocity, seen[0][1]) for _, velocity in seen[:5])
    for step, ((before, velocity), (after, _)) in enumerate(itertools.pairwise(seen)):
        wanted = before + velocity * (sigmas[step + 1] - sigmas[step])
        # The first correction of the scheduler starts from a sample that has moved on already.
        assert step == 1 or torch.allclose(after, wanted, atol=2e-3)


def test_teacache_runs_all_chunks_or_none(pipeline, recipe):
    (output,) = run(pipeline, recipe.but(segments=1, steps=8, **BLOCKS), TEA)
    rows = {row for row in output.skip_map.computed}
    assert rows == {(1, 1, 1), (0, 0, 0)}


@pytest.mark.parametrize("fps", [16, 24])
def test_teacache_looks_at_what_the_model_is_told_of_time_and_rate(pipeline, recipe, fps):
    run(pipeline, recipe.but(segments=1, fps=fps, **STAGGERED), TEA)


def test_the_rotary_embedding_is_where_the_latents_are(pipeline, recipe):
    """Between two forwards, a transformer that is offloaded in parts has it in main memory."""
    run(pipeline, recipe.but(segments=1))
    latents = torch.empty(1, 16, 3, 2, 4, device="meta")
    parts = rotary_of(pipeline.components["transformer"], latents)
    assert {part.device.type for part in parts} == {"meta"}


def test_extrapolation_changes_reused_steps_only(pipeline, recipe, some):
    held = dataclasses.replace(SOME, extrapolate="hold")
    other = run(pipeline, recipe.but(**EIGHT), held)
    assert difference(some, other) > 0
    nothing = dataclasses.replace(EVERYTHING, extrapolate="hold")
    recipe = recipe.but(**STAGGERED)
    assert difference(run(pipeline, recipe, EXACT), run(pipeline, recipe, nothing)) == 0.0


def test_the_papers_own_rule_can_be_had(pipeline, recipe, some):
    paper = run(pipeline, recipe.but(**EIGHT), PAPER)
    assert paper[0].skip_map.lines()[0] == "#--#-###k..."
    assert difference(some, paper) > 0


# Attention over all of the segment


def test_without_causal_blocks_finished_and_resting_chunks_keep_their_keys(pipeline, recipe):
    config = dataclasses.replace(SOME, chunk=2)
    outputs = run(pipeline, recipe.but(frames=21, steps=8), config)
    first, second = (output.skip_map for output in outputs)
    assert (first.chunks, second.chunks) == (3, 3)
    # Given frames are run once, and everything looks at what they left.
    assert second.lines()[0] == "k......."
    assert not first.exact


def test_bidirectional_attention_can_be_had_in_a_staggered_schedule(pipeline, recipe):
    recipe = recipe.but(**STAGGERED)
    both = dataclasses.replace(EXACT, attention="bidirectional")
    outputs = run(pipeline, recipe, both)
    assert all(o.skip_map.passes == o.skip_map.plain_passes for o in outputs)
    assert not any(o.skip_map.exact for o in outputs)
    assert difference(outputs, run(pipeline, recipe, EXACT)) > 1e-3
    waiting = run(pipeline, recipe, dataclasses.replace(EVERYTHING, attention="bidirectional"))
    assert waiting[0].skip_map.lines() == ["###k...", "k.###k.", "k...###"]


@pytest.mark.parametrize("attention", ["bidirectional", "causal"])
def test_a_last_chunk_that_is_shorter_is_like_the_others(pipeline, recipe, attention):
    recipe = recipe.but(frames=17, steps=8)
    nothing = dataclasses.replace(EVERYTHING, attention=attention, chunk=3)
    exact = dataclasses.replace(EXACT, attention=attention, chunk=3)
    outputs, others = run(pipeline, recipe, exact), run(pipeline, recipe, nothing)
    assert [o.skip_map.chunks for o in (*outputs, *others)] == [2] * 4
    # Where all look at all, what given frames left grows stale in the second segment.
    assert difference(outputs[:1], others[:1]) == 0.0
    some = run(pipeline, recipe, dataclasses.replace(SOME, attention=attention, chunk=3))
    assert 0 < some[0].skip_map.passes < some[0].skip_map.plain_passes
    assert all(np.isfinite(o.boundary["latents"]).all() for o in some)


def test_causal_attention_can_be_had_without_causal_blocks(pipeline, recipe):
    config = dataclasses.replace(EXACT, attention="causal", chunk=2)
    outputs = run(pipeline, recipe.but(frames=17), config)
    assert outputs[0].skip_map.chunks == 3
    assert not outputs[0].skip_map.exact
    # Three latent frames are the prefix and the last new chunk: 2, 1 given and 2 new.
    assert outputs[1].skip_map.lines() == ["k..", "###", "###"]


# Keys and values


@pytest.mark.parametrize("mode", [BLOCKS, STAGGERED, NOISY], ids=str)
def test_a_budget_for_all_chunks_is_no_compression_to_the_bit(pipeline, recipe, mode):
    recipe = recipe.but(**mode)
    for config in (EXACT, SOME):
        enough = dataclasses.replace(config, kv_budget=2)
        without, within = run(pipeline, recipe, config), run(pipeline, recipe, enough)
        assert difference(without, within) == 0.0
        assert [o.skip_map for o in without] == [o.skip_map for o in within]


def test_a_budget_is_given_in_chunks_or_in_tokens(pipeline, recipe):
    recipe = recipe.but(segments=1, causal_block=2, ar_step=3, frames=29)
    # 2 latent frames of 4 x 2 latent pixels, patched by 2 x 2.
    tokens_of_a_chunk = 2 * 2 * 1
    chunks = run(pipeline, recipe, dataclasses.replace(EXACT, kv_budget=2))
    tokens = dataclasses.replace(EXACT, kv_budget=2 * tokens_of_a_chunk, kv_unit="tokens")
    assert_all_same(run(pipeline, recipe, tokens), chunks)
    fewer = run(pipeline, recipe, dataclasses.replace(tokens, kv_budget=5))
    assert fewer[0].skip_map.kv_bytes < chunks[0].skip_map.kv_bytes
    enough = dataclasses.replace(tokens, kv_budget=3 * tokens_of_a_chunk)
    assert_all_same(run(pipeline, recipe, enough), run(pipeline, recipe, EXACT))


def test_with_a_budget_keys_and_values_take_no_more_for_more_chunks(pipeline, recipe):
    recipe = recipe.but(segments=1, overlap=0, causal_block=2, ar_step=3, guidance_scale=1.0)
    bytes_of = {}
    for budget in (None, 2):
        config = dataclasses.replace(EXACT, kv_budget=budget)
        bytes_of[budget] = [
            run(pipeline, recipe.but(frames=8 * chunks - 3), config)[0].skip_map.kv_bytes
            for chunks in (4, 8, 16)
        ]
    assert bytes_of[2][0] == bytes_of[2][1] == bytes_of[2][2]
    assert bytes_of[None][0] < bytes_of[None][1] < bytes_of[None][2]


def test_a_budget_changes_the_video_and_is_not_called_exact(pipeline, recipe):
    recipe = recipe.but(segments=1, **{**STAGGERED, "frames": 37})
    tight = run(pipeline, recipe, dataclasses.replace(EXACT, kv_budget=1))
    assert 0 < difference(tight, run(pipeline, recipe, EXACT)) < 10
    assert not tight[0].skip_map.exact


def test_in_half_precision_exact_differs_from_plain_by_rounding(tiny, recipe):
    from pipelines.skyreels_v2 import SkyReelsV2

    half = SkyReelsV2.open(tiny, dtype="bfloat16", device="cpu")
    recipe = recipe.but(**STAGGERED)
    plain, exact, flow = (run(half, recipe, config) for config in (None, EXACT, EVERYTHING))
    assert difference(plain, exact) < 0.2
    assert difference(exact, flow) == 0.0


# Nothing stays behind


def test_a_segment_depends_on_nothing_that_ran_before(pipeline, recipe, some):
    recipe = recipe.but(**EIGHT)
    inputs = encode(pipeline, recipe)
    run(pipeline, recipe.but(prompt="something else", width=48, segments=1), TEA)
    enable_flowcache(pipeline, SOME)
    try:
        alone = pipeline.generate(recipe, inputs, 1, some[0].boundary, seeded(2))
        assert_all_same([alone], some[1:])
        first = pipeline.generate(recipe, inputs, 0, None, seeded(1))
        assert_all_same([first], some[:1])
    finally:
        disable_flowcache(pipeline)


class Cancelled(Exception):
    pass


def test_after_a_cancel_it_starts_afresh(pipeline, recipe, some):
    def stop(step):
        if step.step == 5:
            raise Cancelled

    with pytest.raises(Cancelled):
        run(pipeline, recipe.but(**EIGHT), SOME, on_step=stop)
    assert_all_same(run(pipeline, recipe.but(**EIGHT), SOME), some)


def test_keys_and_values_are_gone_with_their_segment(pipeline, recipe):
    held = []

    def look(step):
        held.append(stores())
        if step.step == 3:
            raise Cancelled

    def stores() -> int:
        return sum(isinstance(thing, ChunkStore) for thing in gc.get_objects())

    # What errors of other tests still hold.
    gc.collect()
    run(pipeline, recipe.but(segments=1, **STAGGERED), SOME)
    assert stores() == 0
    with pytest.raises(Cancelled):
        run(pipeline, recipe.but(segments=1, **STAGGERED), SOME, on_step=look)
    gc.collect()
    assert held[-1] > 0 and stores() == 0


def test_after_a_failure_inside_the_model_the_transformer_is_whole(pipeline, recipe, some):
    recipe = recipe.but(**EIGHT)
    plain = run(pipeline, recipe)
    transformer = pipeline.components["transformer"]
    processors = {name: id(part) for name, part in transformer.attn_processors.items()}
    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) == 7:
            raise RuntimeError("out of luck")

    hook = transformer.blocks[1].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        run(pipeline, recipe, SOME)
    hook.remove()
    assert {name: id(part) for name, part in transformer.attn_processors.items()} == processors
    assert_all_same(run(pipeline, recipe), plain)
    assert_all_same(run(pipeline, recipe, SOME), some)


def test_turned_off_the_plain_result_comes_back_to_the_bit(pipeline, recipe):
    recipe = recipe.but(**STAGGERED)
    before = run(pipeline, recipe)
    run(pipeline, recipe, SOME)
    enable_flowcache(pipeline, FlowCacheConfig("off"))
    assert_all_same(chain(pipeline, recipe), before)


def test_weights_that_are_loaded_anew_are_used_with_flowcache_still_on(tiny, recipe, tmp_path):
    import shutil

    from safetensors.torch import load_file, save_file

    from pipelines.skyreels_v2 import SkyReelsV2

    folder = shutil.copytree(tiny, tmp_path / "model")
    pipeline = SkyReelsV2.open(folder, device="cpu")
    recipe = recipe.but(segments=1, **STAGGERED)
    enable_flowcache(pipeline, EXACT)
    (before,) = chain(pipeline, recipe)
    file = folder / "transformer" / "diffusion_pytorch_model.safetensors"
    save_file({name: weight * 1.1 for name, weight in load_file(file).items()}, file)
    (after,) = chain(pipeline, recipe)
    assert after.skip_map.lines() == before.skip_map.lines()
    assert not np.array_equal(before.frames, after.frames)


def test_a_model_without_flowcache_refuses_it_by_name(pipeline):
    class Other:
        capabilities = dataclasses.replace(pipeline.capabilities, flowcache_modes=("exact",))

    with pytest.raises(BadInput, match=r"flowcache: 'flow'.*off, exact"):
        enable_flowcache(Other(), SOME)
    Other.capabilities = dataclasses.replace(pipeline.capabilities, flowcache_modes=())
    with pytest.raises(BadInput, match="This model has none"):
        enable_flowcache(Other(), SOME)
    disable_flowcache(Other())

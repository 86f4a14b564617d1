"""Fit my GPU: what is chosen for which machine, what is never offered, and that it can be done."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import encode, seeded

from pipelines.errors import BadInput
from pipelines.memory import GB, OFFLOADS, Machine, Needs, choose, installed, offered
from tests.fixtures import tiny_wan

FOURTEEN = Needs(transformers=(28 * GB,), vae=1 * GB, denoise=5 * GB, decode=4 * GB)
PAIR = Needs(transformers=(28 * GB, 28 * GB), vae=1 * GB, denoise=5 * GB, decode=4 * GB)


def machine(gpu, ram, free=None, packages=()):
    """With so many gigabytes."""
    free = gpu if free is None else free
    return Machine(int(free * GB), int(gpu * GB), int(ram * GB), int(ram * GB), frozenset(packages))


@pytest.mark.parametrize(
    ("needs", "gpu", "ram", "weights", "offload"),
    [
        (FOURTEEN, 80, 128, "full", "none"),
        (PAIR, 80, 128, "full", "none"),
        (PAIR, 48, 128, "full", "model"),
        (FOURTEEN, 24, 64, "full", "group"),
        (PAIR, 24, 48, "fp8", "model"),
        (PAIR, 16, 48, "fp8", "group"),
        (FOURTEEN, 24, 16, "fp8", "none"),
        (FOURTEEN, 6.5, 64, "full", "sequential"),
        (FOURTEEN, 0, 64, "full", "none"),
    ],
)
def test_the_plainest_way_that_fits_is_chosen(needs, gpu, ram, weights, offload):
    choice = choose(machine(gpu, ram), needs)
    assert (choice.weights, choice.offload) == (weights, offload)
    assert choice.reason.endswith(".")


def test_what_others_use_now_changes_the_offload_and_not_the_result():
    empty, busy = machine(80, 128), machine(80, 128, free=20)
    assert choose(empty, FOURTEEN).offload == "none"
    assert choose(busy, FOURTEEN).offload == "group"
    assert choose(busy, FOURTEEN).weights == choose(empty, FOURTEEN).weights == "full"


def test_what_is_asked_for_is_kept_to():
    choice = choose(machine(80, 128), FOURTEEN, weights="fp8", offload="group", tiling="on")
    assert (choice.weights, choice.offload, choice.tiling) == ("fp8", "group", True)
    tight = choose(machine(24, 64), FOURTEEN, offload="none")
    assert tight.offload == "none" and (tight.weights == "fp8" or "run out" in tight.reason)
    assert "run out" in choose(machine(8, 64), FOURTEEN, "full", "none").reason


def test_large_pictures_are_decoded_in_tiles_where_the_gpu_is_small():
    assert choose(machine(8, 64), FOURTEEN).tiling
    assert not choose(machine(80, 64), FOURTEEN).tiling
    assert not choose(machine(8, 64), FOURTEEN, tiling="off").tiling
    assert not choose(machine(0, 64), FOURTEEN).tiling


@pytest.mark.parametrize(
    ("wanted", "field", "words"),
    [
        (("fp8", "sequential"), "offload", "does not work with weights in fp8; use one of none"),
        (("nf4", "group"), "offload", "use one of none, model"),
        (("gguf", "auto"), "weights", "one .gguf file in the folder of each"),
        (("int8", "auto"), "weights", "pip install torchao"),
    ],
)
def test_what_cannot_be_is_refused_by_name(wanted, field, words):
    packages = () if wanted[0] == "int8" else ("bitsandbytes", "gguf")
    with pytest.raises(BadInput, match=words) as refusal:
        choose(machine(80, 128, packages=packages), FOURTEEN, *wanted)
    assert refusal.value.field == field


def test_only_what_is_possible_here_is_offered():
    bare = offered(machine(24, 64), FOURTEEN)
    assert ("full", "sequential") in bare and ("fp8", "group") in bare
    assert not {weights for weights, _ in bare} & {"int8", "nf4", "gguf"}
    assert ("fp8", "sequential") not in bare
    assert ("nf4", "model") in offered(machine(24, 64, packages=("bitsandbytes",)), FOURTEEN)
    assert offered(machine(0, 64), FOURTEEN) == [("full", "none"), ("fp8", "none")]
    able = machine(0, 64, packages=("bitsandbytes", "torchao"))
    assert ("int8", "none") in offered(able, FOURTEEN)
    with pytest.raises(BadInput, match="needs a GPU"):
        choose(able, FOURTEEN, "nf4")
    for weights, offload in bare:
        assert offload in OFFLOADS[weights]
        choose(machine(24, 64), FOURTEEN, weights, offload)


def test_without_their_packages_quantised_weights_are_refused(recipe, wan):
    pipeline, recipe = wan
    for weights in {"int8", "nf4"} - ({"int8"} if "torchao" in installed() else set()):
        with pytest.raises(BadInput, match=r"pip install|needs a GPU"):
            pipeline.plan(recipe.but(weights=weights))


@pytest.fixture
def wan(opened, recipe):
    recipe = recipe.but(segments=1, overlap=0, frames=5, width=32, height=32, steps=2)
    return opened("wan21_t2v"), recipe


@pytest.fixture
def qwen(opened, recipe):
    recipe = recipe.but(segments=1, overlap=0, frames=1, width=32, height=32, steps=2)
    return opened("qwen_image"), recipe


@pytest.mark.parametrize("family", ["wan", "qwen"])
def test_fp8_weights_run_and_are_half_the_size_and_another_result(family, request):
    import torch

    pipeline, recipe = request.getfixturevalue(family)
    inputs = encode(pipeline, recipe)
    full = pipeline.generate(recipe, inputs, 0, None, seeded(1)).frames
    fp8 = pipeline.generate(recipe.but(weights="fp8"), inputs, 0, None, seeded(1)).frames
    stored = {p.dtype for p in pipeline.components["transformer"].parameters()}
    assert torch.float8_e4m3fn in stored
    assert (fp8 != full).any()
    assert np.abs(fp8.astype(int) - full.astype(int)).mean() < 40
    keys = [pipeline.segment_inputs(recipe.but(weights=w)) for w in ("auto", "full", "fp8")]
    assert keys[0] == keys[1] != keys[2]
    again = pipeline.generate(recipe, inputs, 0, None, seeded(1)).frames
    assert (again == full).all()


@pytest.mark.parametrize("family", ["wan", "qwen"])
def test_group_offload_changes_nothing_in_the_result(family, request):
    from pipelines.one_piece.holding import cast, offload_groups

    pipeline, recipe = request.getfixturevalue(family)
    inputs = encode(pipeline, recipe)
    for weights in ("full", "fp8"):
        recipe = recipe.but(weights=weights)
        plain = pipeline.generate(recipe, inputs, 0, None, seeded(1)).frames
        pipeline.free_denoiser()
        pipeline.load_denoiser(recipe.but(weights="full"))
        transformer = pipeline.components["transformer"]
        if weights == "fp8":
            cast(transformer, "float32")
        offload_groups(transformer, "cpu")
        pipeline._held = (weights, *pipeline._held[1:])
        offloaded = pipeline.generate(recipe, inputs, 0, None, seeded(1)).frames
        assert pipeline.components["transformer"] is transformer
        assert (offloaded == plain).all()


def test_tiling_is_in_the_keys_and_in_force(wan):
    pipeline, recipe = wan
    recipe = recipe.but(width=288, height=32, frames=1, steps=1)
    keys = [pipeline.segment_inputs(recipe.but(tiling=t)) for t in ("auto", "off", "on")]
    assert keys[0] == keys[1] != keys[2]
    inputs = encode(pipeline, recipe)
    whole, tiled = (
        pipeline.generate(recipe.but(tiling=t), inputs, 0, None, seeded(1)).frames
        for t in ("off", "on")
    )
    assert whole.shape == tiled.shape and (whole != tiled).any()


def test_an_encoder_that_waits_in_main_memory_encodes_the_same(opened, recipe, picture):
    import torch

    from pipelines.memory import must_wait
    from pipelines.one_piece.holding import offload_leaves

    assert must_wait(machine(8, 64), 11 * GB) and not must_wait(machine(24, 64), 11 * GB)
    assert not must_wait(machine(0, 64), 11 * GB)
    pipeline = opened("wan21_i2v")
    recipe = recipe.but(segments=1, overlap=0, frames=5, width=32, height=32, image=picture)
    parts = ["prompt", "image"]
    plain = pipeline.encode(recipe, parts)
    for name in ("text_encoder", "image_encoder"):
        offload_leaves(pipeline.components[name], "cpu")
    waiting = pipeline.encode(recipe, parts)
    for part in parts:
        assert torch.equal(waiting[part]["embeds"], plain[part]["embeds"])


def test_a_gguf_file_counts_only_where_each_transformer_has_one(tmp_path_factory, recipe):
    from pipelines.one_piece.holding import needs_of
    from pipelines.wan.checkpoint import Checkpoint

    folder = tmp_path_factory.mktemp("gguf") / "wan"
    tiny_wan.build("wan22_t2v", folder)
    names, asked = ("transformer", "transformer_2"), recipe.but(segments=1, overlap=0)
    (folder / "transformer" / "q4.gguf").write_bytes(b"0123")
    assert needs_of(Checkpoint.read(folder), names, asked).gguf == ()
    (folder / "transformer_2" / "q4.gguf").write_bytes(b"012345")
    assert needs_of(Checkpoint.read(folder), names, asked).gguf == (4, 6)
    (folder / "transformer" / "q8.gguf").write_bytes(b"01234567")
    assert needs_of(Checkpoint.read(folder), names, asked).gguf == ()


def test_each_of_several_processes_has_a_gpu_of_its_own(monkeypatch):
    import torch

    from pipelines.components import resolve

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert resolve(None, None) == ("bfloat16", "cuda")
    for rank, gpu in (("0", "cuda:0"), ("1", "cuda:1"), ("2", "cuda:0")):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert resolve(None, None)[1] == gpu
    assert resolve(None, "cpu")[1] == "cpu"

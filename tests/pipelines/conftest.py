"""What the tests of the models share: tiny checkpoints, recipes for them, and what holds for all of
them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pipelines.base import joined
from pipelines.errors import BadInput
from tests.fixtures import tiny_qwen, tiny_wan
from tests.fixtures.once import once


@dataclass(frozen=True)
class Lora:
    """A `pipelines.base.LoraFile`."""

    file: str
    strength: float = 1.0
    part: str = "both"


@dataclass(frozen=True)
class Recipe:
    """A `pipelines.base.Request` with the settings of a very small video."""

    prompt: str = "a cat and a dog in a kitchen"
    negative_prompt: str = "blurry, static"
    image: Path | None = None
    segments: int = 2
    frames: int = 13
    overlap: int = 5
    width: int = 32
    height: int = 16
    fps: int = 24
    steps: int = 3
    guidance_scale: float = 3.0
    shift: float = 8.0
    ar_step: int = 0
    causal_block: int = 1
    condition_noise: int = 0
    last_image: Path | None = None
    references: tuple[Path, ...] = ()
    guidance_scale_2: float | None = None
    loras: tuple[Lora, ...] = ()
    weights: str = "auto"
    offload: str = "auto"
    tiling: str = "auto"

    def but(self, **changes) -> Recipe:
        return replace(self, **changes)


@dataclass(frozen=True)
class TalkRecipe(Recipe):
    """With the fields of models that hear voices."""

    audio: Path | None = None
    audio_2: Path | None = None
    audio_scale: float | None = None
    color_correction: float | None = None
    apg: float | None = None
    faces: str = ""
    masks: tuple[Path, ...] = ()


@pytest.fixture
def recipe() -> Recipe:
    return Recipe()


@pytest.fixture(scope="module")
def one_thread():
    """Two threads that wait for each other on busy cores are slower than one."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def pipeline(tiny, one_thread):
    """One for a module: what ran before must not matter, so that they all share it."""
    from pipelines.skyreels_v2 import SkyReelsV2

    return SkyReelsV2.open(tiny, device="cpu")


@pytest.fixture
def checkpoint_of(tmp_path_factory):
    """`checkpoint_of(kind)`: the folder of a tiny Wan or Qwen-Image; read-only."""

    def folder(kind: str) -> Path:
        fixture = tiny_wan if kind in tiny_wan.KINDS else tiny_qwen
        return once(tmp_path_factory, kind, lambda folder: fixture.build(kind, folder))

    return folder


@pytest.fixture
def opened(checkpoint_of, one_thread):
    """`opened(kind)`: that checkpoint as a pipeline, in single precision on the CPU."""
    return lambda kind: reopened(checkpoint_of(kind))


@pytest.fixture
def refused(opened, recipe):
    """`refused(kind, field, words, **changes)`: the recipe so changed is, for that field."""

    def check(kind: str, field: str, words: str, **changes) -> None:
        with pytest.raises(BadInput, match=words) as refusal:
            opened(kind).plan(recipe.but(**changes))
        assert refusal.value.field == field

    return check


@pytest.fixture
def picture(tmp_path) -> Path:
    """A PNG of the size of the recipe."""
    import numpy as np
    from PIL import Image

    x, y = np.meshgrid(np.arange(32), np.arange(16))
    pixels = np.stack([x * 8, y * 8, (x + y) * 4], -1).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


@pytest.fixture
def last_picture(tmp_path) -> Path:
    """Another PNG, of another size."""
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (24, 40, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "last.png")
    return tmp_path / "last.png"


@pytest.fixture
def small_pictures(monkeypatch):
    """diffusers scales every picture to edit to a million pixels, which takes minutes here."""
    from diffusers.pipelines.qwenimage import (
        pipeline_qwenimage_edit,
        pipeline_qwenimage_edit_plus,
    )

    for module in (pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus):
        scaled = module.calculate_dimensions
        monkeypatch.setattr(
            module,
            "calculate_dimensions",
            lambda area, ratio, scaled=scaled: scaled(area // 64, ratio),
        )


def seeded(seed: int):
    """A CPU generator."""
    import torch

    return torch.Generator().manual_seed(seed)


def encode(pipeline, recipe) -> dict:
    """All encoder outputs of a recipe, as `generate` takes them."""
    return joined(pipeline.encode(recipe, pipeline.encoder_inputs(recipe)))


def chain(pipeline, recipe, seeds=(1, 2, 3, 4), on_step=None, inputs=None) -> list:
    """Every segment of a recipe, segment i under seeds[i]; `inputs` are its encoder outputs."""
    inputs = encode(pipeline, recipe) if inputs is None else inputs
    boundary, outputs = None, []
    for i in range(pipeline.plan(recipe).chain.segments):
        output = pipeline.generate(recipe, inputs, i, boundary, seeded(seeds[i]), on_step)
        outputs.append(output)
        boundary = output.boundary
    return outputs


def assert_same(a, b) -> None:
    """Two segments, to the bit."""
    import numpy as np
    import torch

    assert np.array_equal(a.frames, b.frames)
    assert torch.equal(a.boundary["latents"], b.boundary["latents"])


def reopened(folder: Path, dtype: str = "float32"):
    """A Wan or Qwen-Image in this folder, with nothing in memory."""
    from pipelines.qwen_image import QwenImage
    from pipelines.wan import Wan

    index = (folder / "model_index.json").read_text()
    family = Wan if any(name in index for name in Wan.pipeline_classes) else QwenImage
    return family.open(folder, dtype, "cpu")


def without_encoders(pipeline, folder: Path):
    """A copy in `folder` that has no files of them, opened."""
    shutil.copytree(pipeline.checkpoint.folder, folder)
    for name in pipeline.encoders:
        shutil.rmtree(folder / name)
    return reopened(folder)


def assert_holds_no_encoder(pipeline) -> None:
    """Of the codec, too, only the half that decodes."""
    assert pipeline.loaded == {"transformer", "scheduler", "vae"}
    names = [name for name, _ in pipeline.components["vae"].named_parameters()]
    assert names and all(name.startswith(("decoder.", "post_quant_conv.")) for name in names)


def assert_encodes_each_part_alone(pipeline, recipe) -> None:
    """With only what it needs in memory, and to the bits that it has with all the others."""
    import torch

    parts = list(pipeline.encoder_inputs(recipe))
    together = pipeline.encode(recipe, parts)
    for part in parts:
        pipeline.free_encoders()
        alone = pipeline.encode(recipe, [part])
        assert pipeline.loaded == set(pipeline.components_for(part))
        assert alone.keys() == {part}
        for name, tensor in alone[part].items():
            assert torch.equal(tensor, together[part][name])


class Enough(Exception):
    """Raised by `on_step` in tests."""


def assert_can_be_cancelled_in_a_step(pipeline, recipe, monkeypatch) -> None:
    """Within the first of its steps, and a run after that is as before."""
    from pipelines.one_piece import watch

    monkeypatch.setattr(watch, "BETWEEN", 0.0)
    inputs = encode(pipeline, recipe)
    expected = pipeline.generate(recipe, inputs, 0, None, seeded(1)).frames
    seen = []

    def cancel(step):
        seen.append(step.step)
        if seen.count(1) == 2:
            raise Enough

    with pytest.raises(Enough):
        pipeline.generate(recipe, inputs, 0, None, seeded(1), cancel)
    assert seen[-2:] == [1, 1] and 2 not in seen
    modules = pipeline.components["transformer"].modules()
    assert not any(module._forward_pre_hooks for module in modules)
    assert "encode" not in pipeline.components["vae"].__dict__
    again = pipeline.generate(recipe, inputs, 0, None, seeded(1)).frames
    assert (again == expected).all()


def assert_replay_equals(plain, folder: Path, recipe, dtype: str) -> None:
    """What a pipeline makes from stored encoder outputs is the same pixels as `plain(folder,
    recipe, dtype)` gives by seed, in 0 to 1: the call of diffusers itself."""
    import numpy as np

    inputs = encode(reopened(folder, dtype), recipe)
    pipeline, expected = reopened(folder, dtype), plain(folder, recipe, dtype)
    for seed in (7, 8):
        output = pipeline.generate(recipe, inputs, 0, None, seeded(seed))
        assert np.array_equal(output.frames, (expected(seed) * 255).round().astype(np.uint8))
        assert output.frames.shape == (recipe.frames, recipe.height, recipe.width, 3)
        assert output.frames.std() > 1

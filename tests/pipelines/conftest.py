"""What the tests of the models share: one tiny checkpoint a run, and recipes for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pipelines.base import joined


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


def chain(pipeline, recipe, seeds=(1, 2, 3), on_step=None) -> list:
    """Every segment of a recipe, segment i under seeds[i]."""
    inputs, boundary, outputs = encode(pipeline, recipe), None, []
    for i in range(recipe.segments):
        output = pipeline.generate(recipe, inputs, i, boundary, seeded(seeds[i]), on_step)
        outputs.append(output)
        boundary = output.boundary
    return outputs

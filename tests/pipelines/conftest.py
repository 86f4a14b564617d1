"""What the tests of the models share: one tiny checkpoint a run, and recipes for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Recipe:
    """A `pipelines.base.Request` with the settings of a very small video."""

    prompt: str = "a cat and a dog in a kitchen"
    negative_prompt: str = "blurry, static"
    image: Path | None = None
    segments: int = 2
    frames: int = 17
    overlap: int = 5
    width: int = 32
    height: int = 32
    fps: int = 24
    steps: int = 4
    guidance_scale: float = 3.0
    shift: float = 8.0
    ar_step: int = 0
    causal_block: int = 1
    condition_noise: int = 0

    def but(self, **changes) -> Recipe:
        return replace(self, **changes)


@pytest.fixture
def recipe() -> Recipe:
    return Recipe()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A SkyReels-V2 checkpoint with random weights; read-only, copy it before damaging it."""
    from tests.fixtures.tiny_skyreels import build

    return build(tmp_path_factory.mktemp("checkpoints") / "tiny-skyreels")


@pytest.fixture
def pipeline(tiny):
    from pipelines.skyreels_v2 import SkyReelsV2

    return SkyReelsV2.open(tiny, device="cpu")

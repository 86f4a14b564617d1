"""Quantised weights: takes of their own, near those of full weights, and retakes as ever.

GGUF is tried here always; int8 where torchao is installed. nf4 needs a GPU.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.memory import installed
from studio import actions, media
from studio.engine import Engine
from studio.verify import recompute
from tests.fixtures import tiny_gguf, tiny_qwen, tiny_wan
from tests.fixtures.once import once

ON_A_CPU = ["gguf", *(["int8"] if "torchao" in installed() else [])]


def _wan(folder: Path) -> None:
    tiny_wan.build("wan22_t2v", folder)
    for name in ("transformer", "transformer_2"):
        # GGUF quantises rows in pieces of 32.
        tiny_wan.transformer(attention_head_dim=16, ffn_dim=64).save_pretrained(folder / name)
        tiny_gguf.write(folder / name)


def _qwen(folder: Path) -> None:
    tiny_qwen.build("qwen_image", folder)
    tiny_gguf.write(folder / "transformer")


@pytest.fixture(scope="session", params=["wan", "qwen"])
def model(request, tmp_path_factory) -> Path:
    build = {"wan": _wan, "qwen": _qwen}[request.param]
    return once(tmp_path_factory, f"quantised_{request.param}", build)


@pytest.fixture
def make(library, model):
    """`make(engine, **given)`: a take of it."""
    size = {"width": 32, "height": 32, "steps": 2, **({"frames": 5} if _is_wan(model) else {})}

    def take(engine: Engine, folder: Path = model, **given):
        recipe = {"prompt": "a red boat", **size, **given}
        return actions.generate(library, engine, str(folder), recipe, [1], "boats")

    return take


def _is_wan(folder: Path) -> bool:
    return (folder / "transformer_2").is_dir()


def pixels(library, take) -> np.ndarray:
    path = library.result(take)
    shown = media.decode(path) if path.suffix == ".mp4" else media.read_image(path)
    return np.asarray(shown).astype(int)


@pytest.mark.parametrize("weights", ON_A_CPU)
def test_a_take_with_quantised_weights_is_its_own_and_near_the_full_one(library, make, weights):
    engine = Engine()
    full = make(engine)
    quantised = make(engine, weights=weights)
    assert quantised.encoder_source == "reused"
    assert quantised.take.segments[0].id != full.take.segments[0].id
    difference = np.abs(pixels(library, quantised.take) - pixels(library, full.take))
    assert difference.max() > 0 and difference.mean() < 5
    other = actions.retake(library, engine, quantised.take.id, 0, [2])
    assert (other.encoder_source, other.sources) == ("reused", ["generated"])
    back = actions.retake(library, engine, other.take.id, 0, [1])
    assert back.take == quantised.take and back.sources == ["reused"]
    assert [one.differs for one in recompute(library, Engine(), quantised.take)] == [()]

"""Tiny models that make one piece, a picture or a short video, as the tests of the studio use them:
their checkpoints, and the smallest recipe of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from studio import actions
from studio.engine import Engine
from studio.events import OnEvent, ignore
from studio.library import Library
from studio.render import Rendered
from tests.fixtures import tiny_qwen, tiny_wan
from tests.fixtures.once import once

SIZE = {"width": 32, "height": 32, "steps": 2}


def checkpoint(tmp_path_factory, kind: str) -> str:
    """The folder of a tiny checkpoint; read-only."""
    fixture = tiny_wan if kind in tiny_wan.KINDS else tiny_qwen
    return str(once(tmp_path_factory, kind, lambda folder: fixture.build(kind, folder)))


@dataclass(frozen=True)
class OnePiece:
    """A model, and what it is asked for."""

    model: str
    given: dict[str, Any]
    segment_file: str
    """The name of what holds the frames of its one segment."""

    def make(
        self, library: Library, engine: Engine, seed: int, on_event: OnEvent = ignore, **given: Any
    ) -> Rendered:
        recipe = {**self.given, **given}
        return actions.generate(library, engine, self.model, recipe, [seed], "one", on_event)

    def words(self, **given: Any) -> list[str]:
        """The same for `generate` by command."""
        recipe = {**self.given, **given}
        asked = [word for name, value in recipe.items() for word in (f"--{name}", str(value))]
        return ["--model", self.model, "--session", "one", *asked]


def pieces(tmp_path_factory) -> dict[str, OnePiece]:
    """By what comes out."""
    picture = {"prompt": "a cat that bakes a cake", **SIZE}
    video = {"prompt": "an astronaut on the moon", **SIZE, "frames": 5}
    return {
        "picture": OnePiece(checkpoint(tmp_path_factory, "qwen_image"), picture, "image.png"),
        "video": OnePiece(checkpoint(tmp_path_factory, "wan22_t2v"), video, "video.mp4"),
    }

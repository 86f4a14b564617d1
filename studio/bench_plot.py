"""Draws the FlowCache benchmark: quality against speed-up, one line for each way to be faster."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import BadInput

if TYPE_CHECKING:
    from PIL import ImageDraw

WIDTH, HEIGHT = 960, 560
LEFT, RIGHT, TOP, BOTTOM = 64, 124, 104, 70
SCALE = 2
"""Drawn this many times larger and scaled down, for smooth lines."""
INK, MUTED, GRID, PAPER = "#1f2328", "#59636e", "#e3e6ea", "#ffffff"
LINES = {
    "flow": ("flow", "#0b62d6"),
    "as published": ("as published", "#7a3fb0"),
    "teacache": ("teacache", "#b3430b"),
    "fewer steps": ("fewer steps", "#4b7d2a"),
}
WANTED = 30.0
"""Decibels at which a clip still passes for the same one."""


def draw(told: dict[str, Any], out: Path) -> None:
    """Writes what `bench_flowcache.flowcache` gave as a PNG. Raises BadInput for another suffix or
    a folder that is not there."""
    from PIL import Image, ImageDraw

    check(out)
    lines = {
        kind: sorted((row["speedup"], row["psnr"]) for row in told["rows"] if row["kind"] == kind)
        for kind in LINES
    }
    points = [point for line in lines.values() for point in line]
    across = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, least_step=0.5)
    up = _Axis([*(y for _, y in points), WANTED], HEIGHT - BOTTOM, TOP, least_step=2)
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), PAPER)
    pen = _Pen(ImageDraw.Draw(image))
    pen.text((LEFT - 36, 14), "FlowCache: quality against speed-up", INK, 22)
    pen.text((LEFT - 36, 42), _caption(told), MUTED, 14)
    for value in across.ticks:
        pen.line([(across(value), TOP), (across(value), HEIGHT - BOTTOM)], GRID, 1)
        pen.text((across(value), HEIGHT - BOTTOM + 8), f"{value:g}x", MUTED, 14, "ma")
    for value in up.ticks:
        pen.line([(LEFT, up(value)), (WIDTH - RIGHT, up(value))], GRID, 1)
        pen.text((LEFT - 10, up(value)), f"{value:g}", MUTED, 14, "rm")
    pen.line([(LEFT, up(WANTED)), (WIDTH - RIGHT, up(WANTED))], MUTED, 1)
    pen.text(
        ((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 34), "times fewer FLOPs than plain", INK, 15, "ma"
    )
    pen.text((LEFT - 36, TOP - 30), "PSNR, dB", INK, 15)
    labels = []
    for kind, line in lines.items():
        words, colour = LINES[kind]
        placed = [(across(x), up(y)) for x, y in line]
        pen.line(placed, colour, 3)
        for place in placed:
            pen.dot(place, colour, 5)
        if placed:
            labels.append([placed[-1][1], placed[-1][0], words, colour])
    for y, x, words, colour in _apart(labels):
        pen.text((x + 12, y), words, colour, 16, "lm")
    image = image.resize((WIDTH, HEIGHT), Image.LANCZOS)
    image.quantize(64, dither=Image.Dither.NONE).save(out, optimize=True)


def check(out: Path) -> None:
    """Raises BadInput if a plot cannot be written there."""
    if out.suffix.lower() != ".png":
        raise BadInput("plot", str(out), "Give a file that ends in .png.")
    if not out.absolute().parent.is_dir():
        raise BadInput("plot", str(out), "There is no such folder; make it first.")


def _caption(told: dict[str, Any]) -> str:
    return (
        f"{told['model']}, {told['prompts']} clips of {told['chunks']} chunks, {told['steps']} "
        "steps; PSNR of the frames against all of the work"
    )


def _apart(labels: list[list[Any]], gap: float = 20) -> list[list[Any]]:
    """Labels by height, pushed down where they would overlap."""
    labels = sorted(labels)
    for above, below in itertools.pairwise(labels):
        below[0] = max(below[0], above[0] + gap)
    return labels


class _Axis:
    """Values to pixels, over a range that ends on round ticks."""

    def __init__(self, values: Iterable[float], start: float, stop: float, least_step: float):
        values = list(values)
        low, high = min(values), max(values)
        step = next(
            s for s in (least_step * k for k in (1, 2, 5, 10, 20, 50)) if (high - low) / s <= 8
        )
        first, last = int(low // step), int(-(-high // step))
        last = max(last, first + 1)
        self.ticks = [k * step for k in range(first, last + 1)]
        self.start, self.stop = start, stop

    def __call__(self, value: float) -> float:
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return self.start + share * (self.stop - self.start)


class _Pen:
    """Draws in the picture's own pixels on the larger canvas."""

    def __init__(self, canvas: ImageDraw.ImageDraw) -> None:
        self.canvas = canvas

    def line(self, points: list[tuple[float, float]], colour: str, width: int) -> None:
        scaled = [(x * SCALE, y * SCALE) for x, y in points]
        self.canvas.line(scaled, colour, width * SCALE, joint="curve")

    def dot(self, at: tuple[float, float], colour: str, radius: float) -> None:
        self.canvas.ellipse(self._around(at, radius), colour)

    def text(
        self, at: tuple[float, float], words: str, colour: str, size: int, anchor: str = "la"
    ) -> None:
        from PIL import ImageFont

        font = ImageFont.load_default(size * SCALE)
        self.canvas.text((at[0] * SCALE, at[1] * SCALE), words, colour, font, anchor=anchor)

    def _around(self, at: tuple[float, float], radius: float) -> tuple[float, ...]:
        x, y, r = at[0] * SCALE, at[1] * SCALE, radius * SCALE
        return (x - r, y - r, x + r, y + r)

"""Reads land, time of day, actor, colour and direction off a clip with plain image processing.

No network: palettes are compared, silhouettes are searched for by correlation, and the heading
is the sign of the optical flow, since the land scrolls against it.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .dataset import (
    ACTOR_LIGHT,
    ACTORS,
    AMBIENT,
    COLOURS,
    GROUNDS,
    HEIGHT,
    LANDS,
    SKIES,
    TIMES,
    WIDTH,
    actor_shapes,
)

LOOKS = 6  # frames of a clip that are searched for the actor
SILHOUETTE_SCALE = 1.72
NARROW, WIDE = 20.0, 40.0  # colour tolerances: against the scenery, and at all
FFT_SHAPE = (100, 135)  # room for a silhouette at any edge
LIKELY_ROWS = slice(8, 52)  # where an actor's centre may be
VISIBLE = 0.30  # least silhouette score of a visible actor
SHADES = (1.0, 0.82)
JUMP = 3.5  # a frame difference this many times the median is a jump
DRIFT = 16.0  # grey levels between the first and the last second


@dataclass(frozen=True)
class Verdict:
    """What the judge sees.

    visible: share of looks with an actor. jump: largest over median frame difference.
    drift: mean difference of the row colours of the first and the last second, in grey levels.
    steady: land and time read the same in both.
    """

    land: str
    time: str
    actor: str
    colour: str
    direction: str
    visible: float
    jump: float
    drift: float
    steady: bool

    @property
    def smooth(self) -> bool:
        return self.jump <= JUMP

    @property
    def holds(self) -> bool:
        """No drift over the clip."""
        return self.steady and self.drift <= DRIFT


def judge(frames: np.ndarray, fps: int = 12) -> Verdict:
    """uint8 [T, H, W, 3] -> Verdict. Raises ValueError for anything else or under two frames."""
    frames = np.asarray(frames)
    if frames.ndim != 4 or frames.shape[1:] != (HEIGHT, WIDTH, 3) or len(frames) < 2:
        raise ValueError(
            f"The judge takes [T, {HEIGHT}, {WIDTH}, 3] with T >= 2, not {frames.shape}."
        )
    land, time = read_place(frames)
    seen = find_actor(frames, land, time)
    first, last = frames[:fps], frames[-fps:]
    return Verdict(
        land=land,
        time=time,
        actor=seen.actor,
        colour=seen.colour,
        direction=read_direction(frames, seen.place),
        visible=float((seen.scores > VISIBLE).mean()),
        jump=largest_jump(frames),
        drift=float(np.abs(row_colours(first) - row_colours(last)).mean()),
        steady=read_place(first) == read_place(last),
    )


# ---------------------------------------------------------------- land and time of day


def row_colours(frames: np.ndarray) -> np.ndarray:
    """The median colour of each row [H, 3]: sky and land without what is small."""
    sample = frames[:: max(1, len(frames) // LOOKS)].astype(np.float32)
    return np.median(sample.transpose(1, 0, 2, 3).reshape(HEIGHT, -1, 3), axis=1)


@lru_cache(maxsize=1)
def _places() -> tuple[list[tuple[str, str]], np.ndarray]:
    """Each (land, time) and its colours at the top and at the bottom of the picture [N, 2, 3]."""
    names, colours = [], []
    for time in TIMES:
        low, high, _ = (np.array(c, np.float32) for c in SKIES[time])
        for land in LANDS:
            if land == "sea":
                bottom = np.array((13, 52, 100)) * AMBIENT[time] + low * 0.02
            else:
                bottom = np.array(GROUNDS[land]) * AMBIENT[time] * 0.95 + low * 0.06
            names.append((land, time))
            colours.append([high * 0.9 + low * 0.1, bottom])
    return names, np.array(colours, np.float32)


def read_place(frames: np.ndarray) -> tuple[str, str]:
    """(land, time) whose palette is nearest to the clip's top and bottom rows."""
    rows = row_colours(frames)
    seen = np.stack([rows[2:6].mean(0), rows[-8:].mean(0)])
    names, colours = _places()
    return names[int(((colours - seen) ** 2).sum((1, 2)).argmin())]


# ---------------------------------------------------------------- actor and colour


@lru_cache(maxsize=1)
def _silhouettes() -> tuple[list[str], np.ndarray]:
    """Actor of each silhouette, and its correlation kernel's transform.

    A kernel is positive inside the coloured parts and negative in a ring around them, each
    summing to one, so that a patch of colour of just this shape scores 1.
    """
    names, kernels = [], []
    y, x = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32) + 0.5
    for actor in ACTORS:
        for heading in (1.0,) if actor == "balloon" else (1.0, -1.0):
            for flap in (-0.8, 0.0, 0.8) if actor == "bird" else (0.0,):
                u = (x - WIDTH / 2) / SILHOUETTE_SCALE * heading
                v = (y - HEIGHT / 2) / SILHOUETTE_SCALE
                shapes = actor_shapes(actor, u, v, np.float32(flap))
                coloured = [d for d, part in shapes if not isinstance(part, tuple)]
                distance = np.minimum.reduce(coloured) * SILHOUETTE_SCALE
                inside = np.clip(0.5 - distance, 0, 1)
                ring = ((distance > 1.5) & (distance < 5.0)).astype(np.float32)
                names.append(actor)
                kernels.append(inside / inside.sum() - ring / ring.sum())
    return names, np.conj(np.fft.rfft2(np.array(kernels, np.float32), FFT_SHAPE))


def _scenery(land: str, time: str) -> np.ndarray:
    """Colours of clouds, sun, sky and land, which an actor must be told from [N, 3]."""
    low, high, sun = (np.array(c, np.float32) for c in SKIES[time])
    amb = AMBIENT[time]
    middle = (low + high) / 2
    cloud = 0.8 * (140 * amb + 0.45 * low) + 0.2 * middle
    if land == "sea":
        lands = [np.array((30, 95, 150)) * amb + low * 0.15, np.array((12, 50, 98)) * amb]
    else:
        ground = np.array(GROUNDS[land], np.float32) * amb
        lands = [ground * s + low * w for s, w in ((0.465, 0.3), (0.69, 0.18), (0.95, 0.06))]
    return np.array([cloud, sun, low, middle, high, *lands], np.float32)


def colour_maps(frame: np.ndarray, land: str, time: str) -> np.ndarray:
    """How surely each pixel has each of the colours rather than the scenery's: [6, H, W], 0..1."""
    pixels = frame.astype(np.float32)
    palette = np.array(list(COLOURS.values()), np.float32) * ACTOR_LIGHT[time]

    def distance(colours):
        return ((pixels[None] - colours[:, None, None]) ** 2).sum(-1)

    scenery = np.exp(-distance(_scenery(land, time)) / (2 * NARROW**2)).sum(0)
    nearest = np.minimum.reduce([distance(palette * shade) for shade in SHADES])
    actor = np.exp(-nearest / (2 * NARROW**2))
    return np.exp(-nearest / (2 * WIDE**2)) * (actor + 1e-3) / (actor + scenery + 1e-3)


@dataclass(frozen=True)
class Sighting:
    """The actor as found: its score in each look, and its mean place (row, column)."""

    actor: str
    colour: str
    scores: np.ndarray
    place: tuple[float, float]


def find_actor(frames: np.ndarray, land: str, time: str) -> Sighting:
    """Search LOOKS frames for every silhouette in every colour; the best mean score wins."""
    names, kernels = _silhouettes()
    looks = frames[np.linspace(0, len(frames) - 1, LOOKS).round().astype(int)]
    best = np.empty((len(looks), len(COLOURS), len(ACTORS)))
    where = np.empty(best.shape, int)
    for i, frame in enumerate(looks):
        maps = np.fft.rfft2(colour_maps(frame, land, time).astype(np.float32), FFT_SHAPE)
        scores = np.fft.irfft2(maps[:, None] * kernels[None], FFT_SHAPE)
        scores = np.roll(scores, (HEIGHT // 2, WIDTH // 2), (2, 3))[:, :, :HEIGHT, :WIDTH]
        scores = scores[:, :, LIKELY_ROWS].reshape(len(COLOURS), len(names), -1)
        for k, actor in enumerate(ACTORS):
            own = scores[:, [n == actor for n in names]].max(1)
            best[i, :, k], where[i, :, k] = own.max(1), own.argmax(1)
    mean = best.mean(0)
    colour, actor = np.unravel_index(mean.argmax(), mean.shape)
    rows, columns = np.divmod(where[:, colour, actor], WIDTH)
    place = float(rows.mean()) + LIKELY_ROWS.start, float(columns.mean())
    return Sighting(ACTORS[actor], list(COLOURS)[colour], best[:, colour, actor], place)


# ---------------------------------------------------------------- motion


def read_direction(frames: np.ndarray, place: tuple[float, float]) -> str:
    """Heading of the actor at `place`: against the optical flow of the scenery around it.

    Each pair of frames votes with its least-squares flow (sum Ix It / sum Ix^2). Frames are two
    apart, so that slow hills move enough; strong edges weigh less, so that night votes like day.
    """
    x = frames.astype(np.float32).mean(-1)
    x = (x[:, :, :-2] + 2 * x[:, :, 1:-1] + x[:, :, 2:]) / 4
    first, second = x[:-2], x[2:]
    both = (first + second) / 2
    across = (both[:, :, 2:] - both[:, :, :-2]) / 2
    later = (second - first)[:, :, 1:-1]
    rows, columns = np.mgrid[:HEIGHT, 2 : WIDTH - 2]
    away = (np.abs(columns - place[1]) > 18) | (np.abs(rows - place[0]) > 30)
    scenery = away & (rows > HEIGHT * 9 // 20)  # the land, whose scrolling is the clearest
    weight = scenery / (np.abs(across) + np.abs(later) + 2)
    flow = -(across * later * weight).sum((1, 2)) / ((across**2 * weight).sum((1, 2)) + 1e-3)
    return "left" if np.mean(np.clip(flow, -2, 2)) > 0 else "right"


def largest_jump(frames: np.ndarray) -> float:
    """Largest mean frame difference over the median one; the first, slowest frames included."""
    change = np.abs(np.diff(frames.astype(np.int16), axis=0)).mean((1, 2, 3))
    return float(change.max() / max(float(np.median(change)), 0.2))


# ---------------------------------------------------------------- command line


def main(argv: list[str] | None = None) -> None:
    """Generate clips (or draw them) and score them."""
    from .evaluate import add_arguments, run

    parser = argparse.ArgumentParser(prog="python -m pipelines.starter.judge", description=__doc__)
    add_arguments(parser)
    run(parser.parse_args(argv))


if __name__ == "__main__":
    main()

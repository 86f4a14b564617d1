"""Storybook scenes drawn with signed distance functions: what the starter model learns to film.

The camera follows the actor and the land scrolls behind it, so that actor and direction are
legible in every frame of a clip of any length.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

HEIGHT, WIDTH, FPS = 64, 96, 12

LANDS = ("sea", "green hills", "desert", "snowy mountains")
TIMES = ("dawn", "noon", "sunset", "night")
ACTORS = ("boat", "balloon", "bird", "kite")
DIRECTIONS = ("left", "right")
COLOURS = {
    "red": (222, 40, 40),
    "yellow": (252, 208, 40),
    "blue": (45, 90, 230),
    "white": (248, 248, 248),
    "green": (45, 170, 75),
    "purple": (155, 60, 215),
}

# time of day -> (sky at the horizon, sky at the top, sun or moon)
SKIES = {
    "dawn": ((255, 205, 190), (150, 170, 225), (255, 225, 160)),
    "noon": ((215, 238, 255), (85, 160, 240), (255, 245, 190)),
    "sunset": ((255, 150, 80), (120, 70, 140), (255, 90, 50)),
    "night": ((50, 60, 110), (12, 14, 40), (240, 240, 225)),
}
GROUNDS = {
    "green hills": (70, 140, 70),
    "desert": (225, 180, 105),
    "snowy mountains": (225, 232, 245),
}
AMBIENT = {"dawn": 1.0, "noon": 1.0, "sunset": 0.8, "night": 0.45}
ACTOR_LIGHT = {"dawn": 1.0, "noon": 1.0, "sunset": 0.92, "night": 0.8}
INK = (38, 30, 48)
SOFTNESS = 1.5  # width of an edge in pixels: soft edges survive 8 x 8 x 4 compression

# extent of each actor in its own units (behind, above, ahead, below); +x points ahead
EXTENTS = {
    "boat": (10.0, 17.5, 11.0, 4.5),
    "balloon": (7.0, 8.0, 7.0, 13.0),
    "bird": (9.5, 7.5, 9.5, 4.0),
    "kite": (9.0, 7.5, 6.5, 14.0),
}


@dataclass(frozen=True)
class Scene:
    """The five things a caption says and the judge reads."""

    land: str
    time: str
    actor: str
    colour: str
    direction: str


@dataclass(frozen=True)
class Clip:
    """frames uint8 [T, H, W, 3]; boxes float32 [T, 4], the actor as x0, y0, x1, y1 in pixels."""

    frames: np.ndarray
    boxes: np.ndarray
    scene: Scene


def all_scenes() -> list[Scene]:
    """Every allowed combination, 624 of them: a boat sails only on the sea."""
    return [
        Scene(*values)
        for values in itertools.product(LANDS, TIMES, ACTORS, COLOURS, DIRECTIONS)
        if values[2] != "boat" or values[0] == "sea"
    ]


def random_scene(rng: np.random.Generator) -> Scene:
    """Actor first, then the rest, so that the four actors are equally frequent."""
    actor = ACTORS[rng.integers(len(ACTORS))]
    land = "sea" if actor == "boat" else LANDS[rng.integers(len(LANDS))]
    return Scene(
        land=land,
        time=TIMES[rng.integers(len(TIMES))],
        actor=actor,
        colour=list(COLOURS)[rng.integers(len(COLOURS))],
        direction=DIRECTIONS[rng.integers(2)],
    )


def draw_clip(scene: Scene, num_frames: int, rng: np.random.Generator) -> Clip:
    """Draw `num_frames` frames of `scene`; rng decides layout, speeds and shapes of the land."""
    t = np.arange(num_frames, dtype=np.float32)[:, None, None]
    heading = -1.0 if scene.direction == "left" else 1.0
    speed = heading * rng.uniform(1.0, 1.6)
    horizon = HEIGHT * rng.uniform(0.56, 0.66)
    x, y, scale = _actor_path(scene.actor, heading, horizon, t, rng)

    sky, amb = SKIES[scene.time], AMBIENT[scene.time]
    image = np.empty((num_frames, HEIGHT, WIDTH, 3), np.float32)
    sun_x = _sun_column(float(x.mean()), rng)
    _paint_sky(image, sky, horizon, sun_x, rng)
    _paint_clouds(image, sky, amb, speed, t, rng)
    if scene.land == "sea":
        _paint_sea(image, sky, amb, horizon, speed, sun_x, t, rng)
    else:
        _paint_hills(image, scene.land, sky, amb, horizon, speed, t, rng)
    flap = np.sin(t * 0.4 + rng.uniform(0, 6.28))
    colour = np.array(COLOURS[scene.colour], np.float32) * ACTOR_LIGHT[scene.time]
    paint_actor(image, scene.actor, colour, max(amb, 0.6), heading, x, y, scale, flap)
    boxes = _boxes(scene.actor, heading, x, y, scale)
    return Clip(np.clip(image, 0, 255).astype(np.uint8), boxes, scene)


# ---------------------------------------------------------------- signed distances, in pixels


def _ellipse(x, y, cx, cy, a, b):
    return (np.sqrt(((x - cx) / a) ** 2 + ((y - cy) / b) ** 2) - 1) * min(a, b)


def _polygon(x, y, points):
    """Convex polygon, given clockwise on the screen (y down)."""
    distance = None
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
        length = np.hypot(x1 - x0, y1 - y0)
        edge = -((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) / length
        distance = edge if distance is None else np.maximum(distance, edge)
    return distance


def _coverage(distance):
    return np.clip(0.5 - distance / SOFTNESS, 0, 1)


def _over(image, colour, alpha):
    """Blend `colour` over a view of the image, in place; alpha broadcasts to [T, h, w]."""
    image += (np.asarray(colour, np.float32) - image) * alpha[..., None]


def _grid(rows: slice, columns: slice = slice(0, WIDTH)):
    y, x = np.mgrid[rows, columns].astype(np.float32) + 0.5
    return x[None], y[None]


# ---------------------------------------------------------------- background


def _sun_column(actor_x: float, rng) -> float:
    """The sun keeps clear of the actor, so that neither hides the other."""
    while True:
        column = rng.uniform(0.08, 0.92) * WIDTH
        if abs(column - actor_x) > 24:
            return column


def _paint_sky(image, sky, horizon, sun_x, rng):
    low, high, sun = (np.array(c, np.float32) for c in sky)
    x, y = _grid(slice(0, HEIGHT))
    fall = np.clip(y / horizon, 0, 1)[..., None]
    still = (high * (1 - fall) + low * fall) * np.ones((1, HEIGHT, WIDTH, 1), np.float32)
    sun_y, radius = rng.uniform(0.14, 0.36) * HEIGHT, rng.uniform(5, 7.5)
    glow = np.exp(-((x - sun_x) ** 2 + (y - sun_y) ** 2) / (2 * (radius * 2.2) ** 2)) * 0.45
    _over(still, sun, glow)
    _over(still, sun, _coverage(_ellipse(x, y, sun_x, sun_y, radius, radius)))
    image[:] = still


def _paint_clouds(image, sky, amb, speed, t, rng):
    colour = np.full(3, 255 * 0.55 * amb) + np.array(sky[0]) * 0.45
    for _ in range(rng.integers(1, 4)):
        start, cy = rng.uniform(0, WIDTH), rng.uniform(0.08, 0.38) * HEIGHT
        size = rng.uniform(6, 11)
        drift = -speed * rng.uniform(0.3, 0.5)
        cx = (start + drift * t + 20) % (WIDTH + 40) - 20
        rows = slice(max(0, int(cy - size * 0.5 - 2)), min(HEIGHT, int(cy + size * 0.5 + 4)))
        x, y = _grid(rows)
        puffs = [
            _ellipse(x, y, cx + k * size * 0.8, cy + dip, size * (0.9 - dip / 6), size * 0.42)
            for k, dip in ((-1, 1.5), (0, 0.0), (1, 1.5))
        ]
        _over(image[:, rows], colour, _coverage(np.minimum.reduce(puffs)) * 0.8)


def _paint_sea(image, sky, amb, horizon, speed, sun_x, t, rng):
    top = int(horizon) - 1
    rows = slice(top, HEIGHT)
    x, y = _grid(rows)
    low, sun = np.array(sky[0], np.float32), np.array(sky[2], np.float32)
    depth = np.clip((y - horizon) / (HEIGHT - horizon), 0, 1)[..., None]
    near, far = np.array((10, 45, 90)) * amb, np.array((30, 95, 150)) * amb
    water = far * (1 - depth) + near * depth + low * 0.15 * (1 - depth)
    view = image[:, rows]
    _over(view, 0, _coverage(horizon - y))
    view += water * _coverage(horizon - y)[..., None]
    phase = rng.uniform(0, 6.28, 4)
    # two rows of long swells, faster the nearer, tell the heading even after compression
    for k, share in enumerate((0.38, 0.78)):
        crest = horizon + share * (HEIGHT - horizon)
        wave = np.sin((x + speed * t * (0.7, 1.1)[k]) * (0.27, 0.2)[k] + phase[k])
        height = 2.4 + 1.2 * k
        alpha = np.clip(wave, 0, 1) ** 1.5 * np.clip(1 - np.abs(y - crest) / height, 0, 1)
        _over(view, np.array((150, 195, 225)) * amb + low * 0.1, alpha * 0.6)
    ripple = 0.6 + 0.4 * np.sin(y * 1.7 + t * 0.5 + phase[3])
    glitter = np.exp(-(((x - sun_x) / 5) ** 2)) * 0.35 * ripple * (y > horizon)
    _over(view, sun, glitter)


def _paint_hills(image, land, sky, amb, horizon, speed, t, rng):
    ground, low = np.array(GROUNDS[land], np.float32), np.array(sky[0], np.float32)
    phase, relief = rng.uniform(0, 6.28, 6), rng.uniform(0.6, 1, 3)
    columns = np.arange(WIDTH, dtype=np.float32)[None, None] + 0.5
    rows = slice(max(0, int(horizon) - 18), HEIGHT)
    _, y = _grid(rows)
    for k in range(3):
        frequency = (0.05, 0.08, 0.11)[k]
        scrolled = (columns + speed * t * (0.35, 0.7, 1.1)[k]) * frequency
        if land == "snowy mountains":
            shape = np.abs((scrolled * 0.8 + phase[k]) % 2 - 1) * 2 - 1
        else:
            shape = np.sin(scrolled + phase[k]) + 0.4 * np.sin(scrolled * 2.1 + phase[k + 3])
        ridge = horizon - 6 + k * 6 + relief[k] * (7, 5, 4)[k] * shape
        shade = ground * (0.62 + 0.19 * k) * amb * (0.75 + 0.1 * k) + low * (0.3 - 0.12 * k)
        _over(image[:, rows], shade, _coverage(ridge - y))


# ---------------------------------------------------------------- the actor


def _actor_path(actor, heading, horizon, t, rng):
    """Columns x and rows y of the actor [T, 1, 1] and its scale: it sways, room ahead of it."""
    scale = rng.uniform(1.6, 1.85)
    centre = WIDTH * (0.5 - 0.1 * heading) + rng.uniform(-7, 7)
    x = centre + rng.uniform(2, 5) * np.sin(t * 0.06 + rng.uniform(0, 6.28))
    if actor == "boat":
        row = horizon + 4
    elif actor == "bird":
        row = rng.uniform(0.24, 0.44) * HEIGHT
    else:
        row = rng.uniform(0.24, 0.36) * HEIGHT
    y = row + rng.uniform(0.8, 1.8) * np.sin(t * 0.3 + rng.uniform(0, 6.28))
    return x.astype(np.float32), y.astype(np.float32), scale


def actor_shapes(actor: str, u, v, flap):
    """Parts of an actor as (distance, part) in its own units; u points ahead, v down.

    part is a shade of the actor's colour (float) or a fixed rgb tuple.
    """
    if actor == "boat":
        hull = _polygon(u, v, [(-9.5, -1.5), (10.5, -1.5), (6.5, 4.0), (-7.0, 4.0)])
        main = _polygon(u, v, [(-0.5, -17.0), (-0.5, -2.0), (-9.0, -2.0)])
        jib = _polygon(u, v, [(0.8, -13.5), (8.5, -2.0), (0.8, -2.0)])
        return [(hull, (125, 75, 45)), (main, 1.0), (jib, 0.85)]
    if actor == "balloon":
        basket = np.maximum(np.abs(u) - 2.0, np.abs(v - 11) - 1.7)
        envelope = _ellipse(u, v, 0, 0, 6.8, 7.8)
        return [(basket, (125, 75, 45)), (envelope, 1.0), (_ellipse(u, v, 0, 0, 2.4, 7.6), 0.78)]
    if actor == "bird":
        lift = flap * 4.0
        parts = []
        for side in (-1, 1):
            tip = (side * 9.0, -2.5 - lift)
            wing = [(0.6 * side, -2.4), tip, (1.4 * side, 2.2)]
            parts.append((_moving_triangle(u, v, wing if side > 0 else wing[::-1]), 1.0))
        body = _ellipse(u, v, 0, 0, 5.0, 2.5)
        beak = _polygon(u, v, [(5.0, -2.4), (8.2, -0.8), (5.0, 0.2)])
        head = _ellipse(u, v, 4.2, -1.2, 2.1, 2.0)
        return [*parts, (beak, (240, 150, 40)), (body, 0.9), (head, 0.9)]
    lean = u - 0.25 * v
    diamond = np.abs(lean) * 0.78 + np.abs(v) * 0.62 - 4.6
    fall = v - 6.5
    sway = u - 1.4 + fall * (0.9 - 0.25 * np.sin(flap * 1.2 + fall * 0.5))
    tail = np.maximum(np.abs(sway) * 0.75 - 0.9, np.abs(fall - 3.5) - 3.7)
    return [(tail, 0.75), (diamond, 1.0), (np.maximum(diamond, np.abs(lean) - 0.7), 0.8)]


def _moving_triangle(u, v, points):
    """A triangle whose corners are numbers or arrays [T, 1, 1]; either winding."""
    (ax, ay), (bx, by), (cx, cy) = points
    winding = np.sign((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))
    distance = None
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
        length = np.hypot(x1 - x0, y1 - y0)
        edge = -winding * ((x1 - x0) * (v - y0) - (y1 - y0) * (u - x0)) / length
        distance = edge if distance is None else np.maximum(distance, edge)
    return distance


def paint_actor(image, actor, colour, light, heading, x, y, scale, flap):
    """Paint the actor into image [T, H, W, 3] at x, y [T, 1, 1]: an ink rim, then its parts."""
    behind, above, ahead, below = (e * scale + 3 for e in EXTENTS[actor])
    reach = max(behind, ahead)
    rows = slice(max(0, int(y.min() - above)), min(HEIGHT, int(y.max() + below) + 1))
    columns = slice(max(0, int(x.min() - reach)), min(WIDTH, int(x.max() + reach) + 1))
    px, py = _grid(rows, columns)
    u, v = (px - x) / scale * heading, (py - y) / scale
    parts = [(d * scale, part) for d, part in actor_shapes(actor, u, v, flap)]
    view = image[:, rows, columns]
    outline = np.minimum.reduce([d for d, _ in parts])
    _over(view, np.array(INK) * light, _coverage(outline - 1.2) * 0.4)
    for distance, part in parts:
        paint = np.array(part) * light if isinstance(part, tuple) else colour * part
        _over(view, paint, _coverage(distance))


def _boxes(actor, heading, x, y, scale) -> np.ndarray:
    behind, above, ahead, below = (e * scale for e in EXTENTS[actor])
    left, right = (behind, ahead) if heading > 0 else (ahead, behind)
    box = np.concatenate([x - left, y - above, x + right, y + below], axis=-1)[:, 0]
    return np.clip(box, 0, [WIDTH, HEIGHT, WIDTH, HEIGHT]).astype(np.float32)

"""Portraits drawn with signed distance functions: the faces that the talking starter learns.

A Face is what stays (skin, hair, clothes, place); a Pose is what moves from frame to frame.
Lengths are in pixels of a picture of WIDTH x HEIGHT, for a face of scale 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

HEIGHT, WIDTH, FPS = 64, 96, 25
SOFTNESS = 1.5  # width of an edge in pixels: soft edges survive 8 x 8 x 4 compression

SKINS = (
    (255, 219, 190), (244, 200, 165), (230, 180, 140), (205, 150, 110),
    (176, 122, 84), (146, 98, 66), (250, 208, 178), (222, 166, 128),
)  # fmt: skip
HAIRS = (
    (40, 30, 28), (86, 56, 36), (128, 84, 48), (214, 170, 96),
    (170, 74, 40), (150, 148, 152), (58, 42, 60), (236, 212, 150),
)  # fmt: skip
EYES = ((70, 45, 30), (60, 110, 170), (70, 120, 70), (40, 40, 50), (110, 80, 50))
CLOTHES = (
    (60, 90, 160), (170, 60, 60), (70, 130, 90), (230, 225, 215), (60, 60, 75),
    (210, 160, 60), (140, 90, 160), (90, 160, 170),
)  # fmt: skip
BACKGROUNDS = (
    (120, 160, 190), (190, 170, 140), (150, 180, 150), (200, 190, 205), (90, 100, 125),
    (225, 215, 195), (165, 140, 170), (110, 135, 130),
)  # fmt: skip
HAIR_STYLES = ("short", "long", "bob", "bald", "tall")
MOUTH_INSIDE = (58, 16, 24)

MOUTH_ROW = 11.5  # below the centre of the head
MOUTH_HALF_WIDTH = 8.2
MOUTH_HALF_HEIGHT = 5.6  # of a mouth that is wide open
JAW_DROP = 2.4
MARGIN = 4  # pixels; heads move less


@dataclass(frozen=True)
class Face:
    """Looks and place of one person; colours are rgb 0..255, `x` and `y` the head's centre."""

    x: float
    y: float
    scale: float
    skin: tuple[int, int, int]
    hair: tuple[int, int, int]
    eyes: tuple[int, int, int]
    clothes: tuple[int, int, int]
    style: str
    head_width: float
    head_height: float
    eye_distance: float
    brow: float
    nose: float
    glasses: bool
    beard: bool

    @property
    def mouth_box(self) -> tuple[float, float, float, float]:
        """x0, y0, x1, y1 in pixels; holds the mouth, open or shut, however the head moves."""
        half = (MOUTH_HALF_WIDTH * 1.15 + 3) * self.scale
        row = self.y + MOUTH_ROW * self.scale
        return (
            self.x - half,
            row - 6.0 * self.scale,
            self.x + half,
            row + (2 * MOUTH_HALF_HEIGHT - 1.0) * self.scale,
        )

    @property
    def eyes_box(self) -> tuple[float, float, float, float]:
        """x0, y0, x1, y1 in pixels; holds both eyes, however the head moves."""
        half = (self.eye_distance + 5) * self.scale
        return self.x - half, self.y - 8 * self.scale, self.x + half, self.y + 4 * self.scale


@dataclass(frozen=True)
class Pose:
    """What moves, each an array [T]: mouth 0..1 (open), width about 1, lids 0..1 (shut), gaze and
    the head's shift in pixels."""

    mouth: np.ndarray
    width: np.ndarray
    lids: np.ndarray
    gaze: np.ndarray
    shift_x: np.ndarray
    shift_y: np.ndarray

    def at(self, frames) -> Pose:
        """The pose at some of its frames."""
        return Pose(*(getattr(self, name)[frames] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Backdrop:
    """The wall behind: a colour, how much darker it gets, and a soft shape on it."""

    colour: tuple[int, int, int]
    fall: float
    shape: str
    place: float
    light: float


def random_backdrop(rng: np.random.Generator) -> Backdrop:
    """One wall; its shape is a window, a lamp's glow, a shelf or nothing."""
    return Backdrop(
        colour=_varied(BACKGROUNDS, rng, 12),
        fall=float(rng.uniform(0.0, 0.3)),
        shape=("window", "glow", "shelf", "plain")[rng.integers(4)],
        place=float(rng.uniform(0.05, 0.95)),
        light=float(rng.uniform(0.1, 0.3)),
    )


def random_face(rng: np.random.Generator, x: float, y: float, scale: float) -> Face:
    """A face at a place; every other property is drawn."""
    return Face(
        x=x,
        y=y,
        scale=scale,
        skin=_varied(SKINS, rng, 8),
        hair=_varied(HAIRS, rng, 10),
        eyes=_varied(EYES, rng, 8),
        clothes=_varied(CLOTHES, rng, 15),
        style=HAIR_STYLES[rng.choice(5, p=(0.3, 0.25, 0.2, 0.1, 0.15))],
        head_width=float(rng.uniform(16.0, 18.5)),
        head_height=float(rng.uniform(20.5, 22.5)),
        eye_distance=float(rng.uniform(6.8, 8.2)),
        brow=float(rng.uniform(-1, 1)),
        nose=float(rng.uniform(1.5, 2.6)),
        glasses=bool(rng.random() < 0.15),
        beard=bool(rng.random() < 0.12),
    )


def draw_faces(backdrop: Backdrop, people: list[tuple[Face, Pose]]) -> np.ndarray:
    """Frames uint8 [T, HEIGHT, WIDTH, 3] of one or more people before a backdrop."""
    frames = len(people[0][1].mouth)
    image = np.empty((frames, 3, HEIGHT, WIDTH), np.float32)  # planes: numpy likes long rows
    image[:] = _backdrop(backdrop)
    for face, pose in people:
        _paint_person(image, face, pose)
    return (np.clip(image, 0, 255) + 0.5).astype(np.uint8).transpose(0, 2, 3, 1)


# ---------------------------------------------------------------- signed distances, in pixels


def _ellipse(x, y, cx, cy, a, b):
    """To first order: the value of the ellipse's equation over the length of its gradient."""
    p, q = (x - cx) / a, (y - cy) / b
    near = np.sqrt(p * p + q * q)
    return near * (near - 1) / (np.sqrt((p / a) ** 2 + (q / b) ** 2) + 1e-6)


def _box(x, y, cx, cy, a, b):
    return np.maximum(np.abs(x - cx) - a, np.abs(y - cy) - b)


def _over(image, colour, distance, strength=1.0):
    """Blend `colour` over a view [T, 3, h, w] in place where distance [T, h, w] is negative."""
    alpha = distance * (-1 / SOFTNESS)
    alpha += 0.5
    np.clip(alpha, 0, 1, out=alpha)
    alpha = (alpha * strength).astype(np.float32, copy=False)
    for k in range(3):
        plane = image[:, k]
        plane += (np.float32(colour[k]) - plane) * alpha


def _varied(colours, rng, spread) -> tuple[int, int, int]:
    colour = np.array(colours[rng.integers(len(colours))]) + rng.uniform(-spread, spread, 3)
    return tuple(int(v) for v in np.clip(colour, 0, 255))


def _backdrop(backdrop: Backdrop) -> np.ndarray:
    """The wall [1, 3, HEIGHT, WIDTH]."""
    y, x = (np.mgrid[:HEIGHT, :WIDTH].astype(np.float32) + 0.5)[:, None]
    base = np.array(backdrop.colour, np.float32)
    wall = base[None, :, None, None] * (1 - backdrop.fall * (y / HEIGHT))[:, None]
    light = base * 0.9 + (255 - base * 0.9) * backdrop.light * 1.6
    column = backdrop.place * WIDTH
    if backdrop.shape == "window":
        pane = _box(x, y, column, 22, 11, 15)
        _over(wall, light, pane)
        _over(wall, base * 0.7, np.maximum(np.abs(x - column) - 0.8, pane))
    elif backdrop.shape == "glow":
        glow = np.exp(-((x - column) ** 2 + (y - 14) ** 2) / 400.0)[:, None]
        wall += (light[None, :, None, None] - wall) * glow
    elif backdrop.shape == "shelf":
        _over(wall, base * 0.6, _box(x, y, column, 26, 20, 1.4))
        for k in range(5):
            book = _box(x, y, column - 14 + 6 * k, 20 - k % 2, 1.9, 4.5 + k % 2)
            _over(wall, CLOTHES[(k * 3 + int(column)) % len(CLOTHES)], book, 0.8)
    return wall


# ---------------------------------------------------------------- one person


def _paint_person(image, face: Face, pose: Pose) -> None:
    s = face.scale
    y, x = (np.mgrid[:HEIGHT, :WIDTH].astype(np.float32) + 0.5)[:, None]
    x, y = (x - face.x) / s, (y - face.y) / s
    body = image[:1].copy()  # it stays; the head moves
    _paint_body(body, face, x, y)
    image[:] = np.where(np.abs(x) < 30, body, image)
    head = (slice(0, min(HEIGHT, int(face.y + 28 * s) + 4)), _columns(face, 23))
    u = x[:, *head] - (pose.shift_x / np.float32(s))[:, None, None]
    v = y[:, *head] - (pose.shift_y / np.float32(s))[:, None, None]
    _paint_head(image[:, :, *head], face, pose, u, v, head)


def _columns(face: Face, reach: float) -> slice:
    """Columns of a box around the head's centre, with room for its movement."""
    reach = reach * face.scale + MARGIN
    return slice(max(0, int(face.x - reach)), min(WIDTH, int(face.x + reach) + 1))


def _within(face: Face, head, reach: float, above: float, below: float) -> tuple[slice, slice]:
    """A smaller box, as rows and columns inside the view `head`."""
    rows = face.y + above * face.scale - MARGIN, face.y + below * face.scale + MARGIN
    columns, offset = _columns(face, reach), head[1].start
    return (
        slice(max(0, int(rows[0])), int(rows[1]) + 1),
        slice(columns.start - offset, columns.stop - offset),
    )


def _paint_body(view, face, x, y) -> None:
    s = face.scale
    if face.style == "long":
        _over(view, np.array(face.hair) * 0.85, s * _ellipse(x, y, 0, 6, 21, 27))
    neck = np.array(face.skin) * 0.86
    _over(view, neck, s * _box(x, y, 0, 22, 6.5, 9))
    _over(view, face.clothes, s * _ellipse(x, y, 0, 46, 26, 21))
    _over(view, neck, s * _ellipse(x, y, 0, 25.5, 6.5, 4.0))


def _paint_head(view, face, pose, u, v, where) -> None:
    s = face.scale
    skin, hair = np.array(face.skin), np.array(face.hair)
    mouth = pose.mouth[:, None, None]
    a, b = face.head_width, face.head_height
    if face.style == "bob":
        _over(view, hair * 0.9, s * _ellipse(u, v, 0, -1, a + 4, b + 1))
    jaw = np.where(v > 0, b + JAW_DROP * mouth, b)
    for side in (-1, 1):
        _over(view, skin * 0.9, s * _ellipse(u, v, side * a, 0, 2.6, 4.2))
    head = s * _ellipse(u, v, 0, 0, a, jaw)
    _over(view, skin, head)
    _over(view, skin * 0.88, np.maximum(head, s * (6.0 - u * 0.9)), 0.35)  # shade on one cheek
    if face.beard:
        beard = np.maximum(head, s * (6.5 - v + 0.02 * u**2))
        _over(view, hair * 0.6 + skin * 0.4, beard, 0.8)
    _paint_hair(view, face, hair, head, u, v, s)
    # the rest is small: only its own rows and columns are painted
    eyes, nose = _within(face, where, 15, -11, 4), _within(face, where, 5, 2, 7)
    lips = _within(face, where, 11, 9, 21)
    _paint_eyes(view[:, :, *eyes], face, pose, skin, hair, u[:, *eyes], v[:, *eyes], s)
    tip = _ellipse(u[:, *nose], v[:, *nose], 0, 4.2, face.nose, 1.6)
    _over(view[:, :, *nose], skin * 0.78, s * tip, 0.8)
    _paint_mouth(view[:, :, *lips], face, pose, skin, u[:, *lips], v[:, *lips], s)


def _paint_hair(view, face, hair, head, u, v, s) -> None:
    if face.style == "bald":
        return
    height = {"short": 3.0, "tall": 6.5}.get(face.style, 3.5)
    cap = _ellipse(u, v, 0, -5 - height * 0.4, face.head_width + 1.5, face.head_height - 3)
    line = v + 11.5 - 0.022 * u**2 - 1.5 * np.sin(u * 0.25 + face.brow)
    _over(view, hair, s * np.maximum(cap, line))
    if face.style in ("long", "bob"):
        strands = np.maximum(np.abs(np.abs(u) - face.head_width - 0.5) - 2.6, np.abs(v + 1) - 13)
        _over(view, hair * 0.95, s * strands)


def _paint_eyes(view, face, pose, skin, hair, u, v, s) -> None:
    lids = pose.lids[:, None, None]
    gaze = pose.gaze[:, None, None]
    open_ = np.maximum(3.1 * (1 - lids), 0.4)
    for side in (-1, 1):
        x = side * face.eye_distance
        # where an ellipse is flat its distance is far too small beyond its ends
        white = np.maximum(_ellipse(u, v, x, -3.5, 4.3, open_), np.abs(u - x) - 4.3)
        _over(view, skin * 0.6, s * (white - 0.5), 0.7)
        _over(view, (250, 248, 244), s * white, 1.0 - lids)
        iris = np.maximum(_ellipse(u, v, x + gaze, -3.5, 2.2, 2.4), white)
        _over(view, face.eyes, s * iris, 1.0 - lids)
        pupil = np.maximum(_ellipse(u, v, x + gaze, -3.5, 1.0, 1.1), white)
        _over(view, (15, 12, 15), s * pupil, 1.0 - lids)
        brow = _box(u, v + side * face.brow * 0.06 * (u - x), x, -8.6 + 0.3 * face.brow, 4.2, 0.8)
        _over(view, hair * 0.7, s * brow, 0.9)
        if face.glasses:
            _over(view, (30, 30, 36), s * (np.abs(_ellipse(u, v, x, -3.3, 5.6, 5.0)) - 0.5), 0.8)


def _paint_mouth(view, face, pose, skin, u, v, s) -> None:
    mouth = pose.mouth[:, None, None]
    half = MOUTH_HALF_WIDTH * pose.width[:, None, None]
    tall = 0.5 + (MOUTH_HALF_HEIGHT - 0.5) * mouth
    row = MOUTH_ROW - 0.5 + 0.62 * (tall - 0.5)  # the jaw opens downwards
    hole = np.maximum(_ellipse(u, v, 0, row, half, tall), np.abs(u) - half)
    lips = skin * (0.72, 0.5, 0.5) + np.array((28, 4, 8))
    _over(view, lips, s * _ellipse(u, v, 0, row, half + 1.0, tall + 1.3))
    _over(view, MOUTH_INSIDE, s * (hole + 0.2))
    teeth = np.maximum(hole + 0.8, np.abs(v - (row - tall + 1.0)) - 0.9)
    _over(view, (240, 236, 228), s * teeth, np.clip(mouth * 3 - 0.6, 0, 0.9))
    tongue = np.maximum(hole + 0.8, _ellipse(u, v, 0, row + tall + 0.6, half * 0.6, 2.6))
    _over(view, (176, 78, 84), s * tongue, np.clip(mouth * 3 - 1.0, 0, 0.8))

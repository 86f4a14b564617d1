"""Scenes of one or two people who talk: faces, their voices, and how they move while they do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .faces import FPS, WIDTH, Backdrop, Face, Pose, draw_faces, random_backdrop, random_face
from .voices import RATE, mouth_width, openness, random_voice, speak

LIVELINESS = {"calm": 0.3, "": 1.0, "lively": 1.9}  # how much heads move


@dataclass(frozen=True)
class Scene:
    """Who is seen, how lively they are, and each person's wave float32 [N] and pose."""

    backdrop: Backdrop
    faces: tuple[Face, ...]
    waves: tuple[np.ndarray, ...]
    poses: tuple[Pose, ...]
    mood: str

    @property
    def num_frames(self) -> int:
        """Frames that the voices last."""
        return len(self.poses[0].mouth)

    def draw(self, frames: slice | np.ndarray) -> np.ndarray:
        """Frames uint8 [T, H, W, 3]."""
        people = [
            (face, pose.at(frames)) for face, pose in zip(self.faces, self.poses, strict=True)
        ]
        return draw_faces(self.backdrop, people)


def random_scene(rng: np.random.Generator, seconds: float, people: int = 1) -> Scene:
    """A scene of `people` (1 or 2) with voices of `seconds`; two people mostly take turns."""
    backdrop = random_backdrop(rng)
    mood = tuple(LIVELINESS)[rng.choice(3, p=(0.2, 0.6, 0.2))]
    faces = _places(rng, people)
    waves = _voices(rng, seconds, people)
    frames = len(waves[0]) * FPS // RATE
    poses = tuple(move(wave, frames, rng, LIVELINESS[mood]) for wave in waves)
    return Scene(backdrop, faces, waves, poses, mood)


def _places(rng, people: int) -> tuple[Face, ...]:
    if people == 1:
        x = WIDTH / 2 + rng.uniform(-5, 5)
        return (random_face(rng, float(x), float(rng.uniform(28, 31)), float(rng.uniform(1, 1.1))),)
    return tuple(
        random_face(
            rng,
            float(WIDTH * share + rng.uniform(-1.5, 1.5)),
            float(rng.uniform(29, 33)),
            float(rng.uniform(0.95, 1.02)),
        )
        for share in (0.25, 0.75)
    )


def _voices(rng, seconds: float, people: int) -> tuple[np.ndarray, ...]:
    if people == 1:
        return (speak(random_voice(rng), seconds, rng),)
    waves = [speak(random_voice(rng), seconds, rng) for _ in range(2)]
    style = rng.random()
    if style < 0.6:  # turns: one falls silent where the other begins
        turn = round(rng.uniform(0.6, 2.0) * RATE)
        turns = (np.arange(len(waves[0])) + rng.integers(0, 2 * turn)) // turn % 2
        edge = 1600  # samples of a fade
        total = np.cumsum(np.pad(turns.astype(np.float32), (edge, 0), mode="edge"))
        open_ = (total[edge:] - total[:-edge]) / edge
        waves = [waves[0] * open_, waves[1] * (1 - open_)]
    elif style < 0.75:  # one listens throughout
        waves[rng.integers(2)] *= 0
    return tuple(wave.astype(np.float32) for wave in waves)


# ---------------------------------------------------------------- movement


def move(wave: np.ndarray, frames: int, rng: np.random.Generator, lively: float = 1.0) -> Pose:
    """A pose of `frames` frames whose mouth follows `wave`; blinks, gaze and head are drawn."""
    return Pose(
        mouth=openness(wave, frames).astype(np.float32),
        width=mouth_width(wave, frames).astype(np.float32),
        lids=_blinks(frames, rng),
        gaze=_glances(frames, rng),
        shift_x=(_sway(frames, rng) * 1.6 * lively).astype(np.float32),
        shift_y=(_sway(frames, rng) * 1.1 * lively).astype(np.float32),
    )


def _sway(frames: int, rng) -> np.ndarray:
    """A slow wander within about -1..1."""
    t = np.arange(frames) / FPS
    rates = rng.uniform((0.1, 0.25, 0.5), (0.2, 0.45, 0.8))
    turns = 2 * np.pi * rates[:, None] * t + rng.uniform(0, 6.28, (3, 1))
    return (np.array((0.6, 0.3, 0.15))[:, None] * np.sin(turns)).sum(0)


def _blinks(frames: int, rng) -> np.ndarray:
    """Lids 0..1: shut for a moment every 2 seconds or so (people: every 3 to 4)."""
    lids = np.zeros(frames + 16, np.float32)
    shape = np.array((0.35, 0.85, 1.0, 1.0, 0.8, 0.45, 0.15), np.float32)
    at = int(rng.exponential(1.2) * FPS)
    while at < frames:
        lids[at : at + len(shape)] = shape
        at += int((0.7 + rng.exponential(1.4)) * FPS)
    return lids[:frames]


def _glances(frames: int, rng) -> np.ndarray:
    """Where the eyes look, -1.3..1.3 pixels: holds, then moves on within three frames."""
    gaze, at, now = np.zeros(frames, np.float32), 0, 0.0
    while at < frames:
        length = int(rng.uniform(0.6, 2.5) * FPS)
        gaze[at : at + length] = now
        now = float(rng.choice((0.0, 0.0, rng.uniform(-1.3, 1.3))))
        at += length
    return np.convolve(np.pad(gaze, 1, mode="edge"), np.ones(3, np.float32) / 3, "valid")

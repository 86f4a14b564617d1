"""A voice without words: glottal pulses through moving formants, in syllables with pauses.

Also how a mouth follows any voice: `openness` is defined on the sound alone, so that it holds for
recordings of people too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .faces import FPS

RATE = 16_000
HOP = RATE // FPS  # 640 samples to a frame

# first three formants in Hz (Peterson & Barney 1952, men's averages, rounded)
VOWELS = {
    "ee": (270, 2290, 3010),
    "ih": (390, 1990, 2550),
    "eh": (530, 1840, 2480),
    "ae": (660, 1720, 2410),
    "ah": (730, 1090, 2440),
    "aw": (570, 840, 2410),
    "oo": (300, 870, 2240),
    "er": (490, 1350, 1690),
}
BANDWIDTHS = (80.0, 110.0, 160.0)
CONTROL = 200  # control points a second


@dataclass(frozen=True)
class Voice:
    """pitch in Hz, size of the vocal tract (1 is a man's, less is smaller), syllables a second."""

    pitch: float
    tract: float
    tempo: float
    breath: float


def random_voice(rng: np.random.Generator) -> Voice:
    """A speaker: high voices have small tracts."""
    high = rng.random()
    return Voice(
        pitch=float(90 * 2 ** (1.4 * high) * rng.uniform(0.92, 1.08)),
        tract=float(1.0 + 0.2 * high + rng.uniform(-0.04, 0.04)),
        tempo=float(rng.uniform(2.8, 4.6)),
        breath=float(rng.uniform(0.01, 0.05)),
    )


def speak(voice: Voice, seconds: float, rng: np.random.Generator, talk: float = 0.8) -> np.ndarray:
    """A waveform float32 [seconds * RATE], loudest sample 0.5; `talk` is the share of speech."""
    points = int(np.ceil(seconds * CONTROL)) + 1
    loud, formants, hiss = _score(voice, points, rng, talk)
    samples = round(seconds * RATE)
    knots = np.arange(points) / CONTROL
    drift = 1 + 0.1 * np.sin(2 * np.pi * 0.4 * knots + rng.uniform(0, 6.28))
    drift = drift + 0.05 * np.sin(2 * np.pi * 1.7 * knots + rng.uniform(0, 6.28)) + 0.08 * loud
    pitch = voice.pitch * drift
    phase = 2 * np.pi * np.cumsum(_fine(pitch, samples)) / RATE
    sound = np.zeros(samples, np.float32)
    # sin(k a) = 2 cos(a) sin((k - 1) a) - sin((k - 2) a)
    before, now = np.zeros(samples, np.float32), np.sin(phase).astype(np.float32)
    turn = (2 * np.cos(phase)).astype(np.float32)
    for k in range(1, int(4000 / voice.pitch) + 1):
        sound += _fine(_response(k * pitch, formants) * loud / k, samples) * now
        before, now = now, turn * now - before
    noise = rng.standard_normal(samples, np.float32)
    noise[1:] -= 0.9 * noise[:-1]
    sound = sound / (np.abs(sound).max() + 1e-9)
    sound += _fine(hiss * 0.12 + loud * voice.breath, samples) * noise * 0.5
    return (0.5 * sound / (np.abs(sound).max() + 1e-9)).astype(np.float32)


def _fine(curve: np.ndarray, samples: int) -> np.ndarray:
    """Control points -> samples, by straight lines."""
    steps = RATE // CONTROL
    way = np.arange(steps, dtype=np.float32) / steps
    curve = curve.astype(np.float32)
    return (curve[:-1, None] + np.diff(curve)[:, None] * way).reshape(-1)[:samples]


def _score(voice: Voice, points: int, rng, talk: float):
    """Control curves [points]: loudness 0..1, formants [points, 3], hiss of consonants 0..1."""
    loud, hiss = np.zeros(points), np.zeros(points)
    formants = np.empty((points, 3))
    names = list(VOWELS)
    formants[:] = np.array(VOWELS["ah"]) * voice.tract
    at = int(rng.uniform(0, 0.5) * CONTROL) if rng.random() < 0.6 else 0
    while at < points:
        for _ in range(rng.integers(2, 8)):  # a phrase
            length = int(CONTROL / voice.tempo * rng.uniform(0.7, 1.4))
            at = _syllable(at, length, loud, formants, hiss, names, voice, rng)
        pause = rng.uniform(0.15, 0.7) if talk >= 0.5 else rng.uniform(0.8, 2.5)
        at += int(pause * CONTROL)
    window = np.hanning(int(0.05 * CONTROL) | 1)
    smooth = window / window.sum()
    formants = np.stack([np.convolve(f, smooth, "same") for f in formants.T], 1)
    edge = len(smooth)
    formants[:edge], formants[-edge:] = formants[edge], formants[-edge - 1]
    return np.convolve(loud, smooth, "same"), formants, np.convolve(hiss, smooth, "same")


def _syllable(at, length, loud, formants, hiss, names, voice, rng) -> int:
    """Write one syllable (consonant, vowel, fall) and return where the next begins."""
    onset = int(length * rng.uniform(0.1, 0.3))
    vowel = slice(at + onset, at + length)
    count = len(loud[vowel])
    if count > 1:
        arc = np.sin(np.pi * (np.arange(count) + 0.5) / (length - onset)) ** 0.6
        loud[vowel] = arc * rng.uniform(0.35, 1.0)
    stretch = slice(at, at + length)
    formants[stretch] = np.array(VOWELS[names[rng.integers(len(names))]]) * voice.tract
    if rng.random() < 0.6:
        hiss[at : at + onset] = rng.uniform(0.3, 1.0)
    return at + length


def _response(frequency, formants) -> np.ndarray:
    """Gain of three resonances in parallel at `frequency` [points] in Hz."""
    gain = np.zeros_like(frequency)
    for k, width in enumerate(BANDWIDTHS):
        gain += (1.0, 0.6, 0.35)[k] / np.sqrt(1 + ((frequency - formants[:, k]) / width) ** 2)
    return gain + 0.02


# ---------------------------------------------------------------- how a mouth follows


def normalised(wave: np.ndarray) -> np.ndarray:
    """Zero mean and unit variance, as wav2vec2's feature extractor makes it."""
    wave = wave.astype(np.float64)
    return (wave - wave.mean()) / np.sqrt(wave.var() + 1e-7)


def loudness(wave: np.ndarray, frames: int | None = None) -> np.ndarray:
    """Root mean square of each frame [T], smoothed over about three frames; 1 is the average of
    the whole wave."""
    wave = normalised(wave)
    frames = frames or len(wave) // HOP
    padded = np.zeros(frames * HOP)
    padded[: min(len(wave), len(padded))] = wave[: len(padded)]
    power = (padded.reshape(frames, HOP) ** 2).mean(1)
    return _smooth(np.sqrt(power), 1.1)


def openness(wave: np.ndarray, frames: int | None = None) -> np.ndarray:
    """How far a mouth opens [T], 0..1."""
    return np.clip(loudness(wave, frames) / 1.7, 0, 1) ** 0.85


def mouth_width(wave: np.ndarray, frames: int | None = None) -> np.ndarray:
    """Width of a mouth [T] around 1: bright sounds ("ee") wide, dark ones ("oo") narrow.

    Brightness is the share of the spectrum above 1,400 Hz, where the second formant is.
    """
    wave = normalised(wave)
    frames = frames or len(wave) // HOP
    padded = np.zeros(frames * HOP)
    padded[: min(len(wave), len(padded))] = wave[: len(padded)]
    spectrum = np.abs(np.fft.rfft(padded.reshape(frames, HOP) * np.hanning(HOP), axis=1)) ** 2
    split = int(1400 / (RATE / HOP))
    low, high = spectrum[:, 4:split].sum(1), spectrum[:, split : split * 2 + 10].sum(1)
    bright = (high + 1e-3) / (low + high + 2e-3)
    loud = spectrum.sum(1) / (spectrum.sum(1) + HOP * 2)
    return 1 + _smooth((np.clip(bright * 3, 0, 1) - 0.5) * loud, 1.3) * 0.3


def _smooth(x: np.ndarray, sigma: float) -> np.ndarray:
    reach = int(np.ceil(3 * sigma))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return np.convolve(np.pad(x, reach, mode="edge"), kernel / kernel.sum(), "valid")

"""Makes the sample pictures and voices of the checkpoint: `python -m pipelines.talking.samples`.

A face and a voice for it, and two faces with a voice each that take turns; drawn from fixed seeds
that no training uses.
"""

from __future__ import annotations

import argparse
import wave
from pathlib import Path

import numpy as np

from .faces import Face, draw_faces, random_backdrop, random_face
from .scenes import move
from .voices import RATE, Voice, speak

ASSETS = Path(__file__).parents[2] / "assets" / "talking"
SECONDS = 5.0
LARGER = 4  # pictures are drawn by pixels and enlarged, so that people can see them


def main(argv: list[str] | None = None) -> None:
    """Write face.png, voice.wav, faces.png, voice_left.wav and voice_right.wav."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.talking.samples")
    parser.add_argument("--out", type=Path, default=ASSETS, metavar="DIR")
    write_samples(parser.parse_args(argv).out)


def write_samples(out: Path) -> None:
    """Write the five files into `out`."""
    from PIL import Image

    rng = np.random.default_rng(20)
    voice = speak(Voice(pitch=205, tract=1.17, tempo=3.4, breath=0.02), SECONDS, rng)
    write_wave(out / "voice.wav", voice)
    left, right = _turns(rng)
    write_wave(out / "voice_left.wav", left)
    write_wave(out / "voice_right.wav", right)
    for name, seed in (("face.png", 30), ("faces.png", 44)):
        picture = portrait(sample_faces(name), np.random.default_rng(seed))
        image = Image.fromarray(picture)
        size = (image.width * LARGER, image.height * LARGER)
        image.resize(size, Image.Resampling.BICUBIC).save(out / name, optimize=True)


def sample_faces(name: str) -> list[Face]:
    """Who is in face.png and in faces.png, from left to right."""
    if name == "face.png":
        return [random_face(np.random.default_rng(30), 48.0, 29.5, 1.05)]
    return [
        random_face(np.random.default_rng(20), 24.0, 30.5, 1.0),
        random_face(np.random.default_rng(1), 72.0, 31.5, 0.98),
    ]


def portrait(faces: list[Face], rng: np.random.Generator) -> np.ndarray:
    """One picture uint8 [H, W, 3] of faces at rest."""
    rest = move(np.zeros(RATE, np.float32), 1, np.random.default_rng(0), lively=0.0)
    return draw_faces(random_backdrop(rng), [(face, rest) for face in faces])[0]


def _turns(rng) -> tuple[np.ndarray, np.ndarray]:
    """Two voices; the second answers where the first is done."""
    low = speak(Voice(pitch=112, tract=1.0, tempo=3.2, breath=0.02), SECONDS, rng)
    high = speak(Voice(pitch=220, tract=1.2, tempo=3.7, breath=0.02), SECONDS, rng)
    first = np.arange(len(low)) < len(low) * 0.5
    return np.where(first, low, 0).astype(np.float32), np.where(first, 0, high).astype(np.float32)


def write_wave(path: Path, samples: np.ndarray) -> None:
    """Mono 16-bit PCM at 16 kHz."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    main()

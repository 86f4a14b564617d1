"""Takes of the talking starter with its own face and voice, at few steps: what is tested with them
is reuse, length and sound, not beauty."""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any

import numpy as np

from studio import actions
from studio.engine import Engine
from studio.library import Library
from tests.fixtures.voices import RATE, write_wav
from tests.studio.test_media_audio import read_sound

TALKING = Path(__file__).parents[2] / "assets" / "talking"
FPS, F, M = 25, 33, 9
SEEDS, FRAMES = (1, 2, 3), 75
"""Of the take that the tests share: three segments, and the voice ends within the last."""


def sample_voice(frames: float, name: str = "voice.wav") -> np.ndarray:
    """The first so many frames of a sample voice, which starts again where it ends; float32
    `[samples]` at 16 kHz."""
    with wave.open(str(TALKING / name)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
    return np.resize(samples / 32768, round(frames * RATE / FPS))


def speech(voice: Path, **changes: Any) -> dict[str, Any]:
    """Recipe fields: the sample face speaks this file."""
    given = {"prompt": "a person talks", "image": TALKING / "face.png", "audio": voice, "steps": 2}
    return {**given, **changes}


def build(folder: Path, engine: Engine) -> None:
    """A library with the take that the tests share, and its voice beside it."""
    folder.mkdir()
    voice = write_wav(folder / "voice.wav", sample_voice(FRAMES))
    with Library(folder / "library") as library:
        actions.generate(library, engine, "talking", speech(voice), SEEDS)


def heard(result: Path, voice: Path) -> tuple[np.ndarray, np.ndarray]:
    """What is heard in a result and in its voice, from the first frame on to the last of the
    result, at 48 kHz; a voice may be a little longer."""
    sound = read_sound(result)
    return sound, read_sound(voice)[: len(sound)]

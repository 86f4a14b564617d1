"""Scores talking videos: does each mouth follow its own voice, and does the person stay?

python -m pipelines.talking.judge                    16 new faces with new voices, 4 segments
python -m pipelines.talking.judge --people 2         two faces and two voices
python -m pipelines.talking.judge --segments 8       drift over 8 segments
python -m pipelines.talking.judge --drawn            drawn clips instead: is the judge right?
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from .faces import FPS
from .reading import (
    background_drift,
    correlation,
    count_blinks,
    head_shift,
    identity_drift,
    mouth_opening,
)
from .scenes import Scene, random_scene
from .shards import MOTION, SEGMENT
from .voices import loudness

CHECKPOINT = Path(__file__).parents[2] / "assets" / "talking"


@dataclass(frozen=True)
class Scores:
    """Means over all mouths.

    follows and shuffled: correlation of the mouth's opening with the loudness of its own voice,
    and with those of all other scenes. other: with the voice of the other person in the picture
    (0 for one person). background and identity: drift in levels of 0..255. blinks a minute; head,
    standard deviation of its column in pixels.
    """

    follows: float
    lowest: float
    shuffled: float
    other: float
    background: float
    identity: float
    blinks: float
    head: float

    def __str__(self) -> str:
        return "  ".join(f"{field.name} {getattr(self, field.name):.2f}" for field in fields(self))


def score(clips: list[np.ndarray], scenes: list[Scene]) -> Scores:
    """Score clips uint8 [T, H, W, 3] that should show the scenes' faces speaking their voices.

    A person who never speaks has no course to follow and counts only for what stays still.
    """
    courses, voices, owner = [], [], []
    for index, (frames, scene) in enumerate(zip(clips, scenes, strict=True)):
        for face, wave in zip(scene.faces, scene.waves, strict=True):
            courses.append(mouth_opening(frames, face))
            voices.append(loudness(wave, scene.num_frames)[: len(frames)])
            owner.append(index)
    table = np.array([[correlation(mouth, voice) for voice in voices] for mouth in courses])
    owner, speaks = np.array(owner), np.array([voice.any() for voice in voices])
    own = np.eye(len(owner), dtype=bool)
    together = (owner[:, None] == owner[None]) & ~own
    heard = np.broadcast_to(speaks[None], table.shape)
    apart = owner[:, None] != owner[None]
    people = [(f, s, face) for f, s in zip(clips, scenes, strict=True) for face in s.faces]
    minutes = sum(len(frames) for frames, _, _ in people) / FPS / 60
    return Scores(
        follows=_mean(table[own & heard]),
        lowest=float(table[own & heard].min(initial=1.0)),
        shuffled=_mean(table[apart & heard]),
        other=_mean(table[together & heard]),
        background=_mean(
            [background_drift(f, s.faces) for f, s in zip(clips, scenes, strict=True)]
        ),
        identity=_mean([identity_drift(f, face) for f, _, face in people]),
        blinks=sum(count_blinks(f, face) for f, _, face in people) / minutes,
        head=_mean([head_shift(f, face).std() for f, _, face in people]),
    )


def _mean(values) -> float:
    return float(np.mean(values)) if len(values) else 0.0


def new_scenes(count: int, segments: int, people: int, seed: int) -> list[Scene]:
    """Scenes as long as so many segments, of faces and voices that no training has seen."""
    rng = np.random.default_rng([977, seed, people])
    frames = SEGMENT + (segments - 1) * (SEGMENT - MOTION)
    return [random_scene(rng, (frames + 1) / FPS, people) for _ in range(count)]


def filmed(scene: Scene, model, sampling) -> np.ndarray:
    """The model's clip of the scene's first picture and voices, with the plain segment loop."""
    import torch

    from .batches import person_masks
    from .captions import MOODS
    from .hearing import hear
    from .sample import generate
    from .voices import normalised

    with torch.inference_mode():
        features = torch.stack(
            [
                hear(model.ear, torch.from_numpy(normalised(w)).float()[None], scene.num_frames)[0]
                for w in scene.waves
            ]
        )
    masks = None
    if len(scene.faces) > 1:
        masks = person_masks(torch.zeros(1, 2, 4), None)[0]
    text = model.constants.texts[np.flatnonzero(model.constants.moods == MOODS.index(scene.mood))]
    picture = scene.draw(np.arange(1))[0]
    return generate(model, picture, features, masks, text[0], scene.num_frames, sampling)


def main(argv: list[str] | None = None) -> None:
    """Film or draw new scenes, and print their scores."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.talking.judge",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT, metavar="DIR")
    parser.add_argument("--clips", type=int, default=16)
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--people", type=int, default=1, choices=(1, 2))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--audio-scale", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drawn", action="store_true", help="score the drawings themselves")
    parser.add_argument("--codec", action="store_true", help="score drawings after the codec")
    parser.add_argument(
        "--sheet", type=Path, metavar="PNG", help="write every 6th frame of 6 clips"
    )
    arguments = parser.parse_args(argv)
    scenes = new_scenes(arguments.clips, arguments.segments, arguments.people, arguments.seed)
    clips = _clips(scenes, arguments)
    if arguments.sheet:
        write_sheet(clips, arguments.sheet)
    print(score(clips, scenes))


def _clips(scenes: list[Scene], arguments) -> list[np.ndarray]:
    drawn = [scene.draw(np.arange(scene.num_frames // 4 * 4 - 3)) for scene in scenes]
    if arguments.drawn:
        return drawn
    from .sample import Sampling, load_model, through_codec

    model = load_model(arguments.checkpoint)
    if arguments.codec:
        return [through_codec(model.codec, frames) for frames in drawn]
    sampling = Sampling(arguments.steps, arguments.audio_scale, arguments.seed)
    return [filmed(scene, model, sampling) for scene in scenes]


def write_sheet(clips: list[np.ndarray], path: Path, rows: int = 6, columns: int = 12) -> None:
    """A picture of every sixth frame of the first clips, a row each."""
    from PIL import Image

    strips = [np.concatenate(list(frames[::6][:columns]), 1) for frames in clips[:rows]]
    Image.fromarray(np.concatenate(strips)).save(path)


if __name__ == "__main__":
    main()

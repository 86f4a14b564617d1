"""Scores a checkpoint with the judge: clips of random scenes, a share right for each attribute."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .captions import plain_caption, random_caption
from .dataset import Scene, draw_clip, random_scene
from .judge import Verdict, judge

if TYPE_CHECKING:
    from .sample import Starter

CHECKPOINT = Path(__file__).resolve().parents[2] / "assets" / "starter"
ATTRIBUTES = tuple(field.name for field in fields(Scene))
STRIDE, FIRST = 24, 33


@dataclass(frozen=True)
class Scores:
    """Shares of clips in 0..1; `overall` counts a clip when all five attributes are right."""

    clips: int
    land: float
    time: float
    actor: float
    colour: float
    direction: float
    mean: float
    overall: float
    visible: float
    smooth: float
    holds: float


def score(scenes: list[Scene], verdicts: list[Verdict]) -> Scores:
    """Compare what was asked with what the judge saw; an actor counts as visible when it is in
    three quarters of the looks."""
    right = np.array(
        [
            [getattr(scene, name) == getattr(verdict, name) for name in ATTRIBUTES]
            for scene, verdict in zip(scenes, verdicts, strict=True)
        ]
    )
    shares = {name: float(right[:, k].mean()) for k, name in enumerate(ATTRIBUTES)}
    return Scores(
        clips=len(scenes),
        **shares,
        mean=float(right.mean()),
        overall=float(right.all(1).mean()),
        visible=float(np.mean([v.visible >= 0.75 for v in verdicts])),
        smooth=float(np.mean([v.smooth for v in verdicts])),
        holds=float(np.mean([v.holds for v in verdicts])),
    )


def draw_scenes(clips: int, seed: int) -> list[Scene]:
    rng = np.random.default_rng([seed, 1])
    return [random_scene(rng) for _ in range(clips)]


def drawn_clips(scenes: list[Scene], segments: int, seed: int):
    """Ground truth: the clips that the model should make, one at a time."""
    rng = np.random.default_rng([seed, 2])
    for scene in scenes:
        yield draw_clip(scene, FIRST + (segments - 1) * STRIDE, rng).frames


def through_codec(codec, frames: np.ndarray) -> np.ndarray:
    """frames uint8 [T, H, W, 3], encoded and decoded."""
    import torch

    video = torch.from_numpy(frames).permute(3, 0, 1, 2)[None].float() / 127.5 - 1
    with torch.inference_mode():
        video = codec.decode(codec.encode(video).latent_dist.mode()).sample[0]
    return ((video + 1) * 127.5).round().byte().permute(1, 2, 3, 0).numpy()


def generated_clips(starter: Starter, scenes: list[Scene], arguments: argparse.Namespace):
    """Clips from the model, in batches."""
    from .sample import SampleSettings, sample_clips

    rng = np.random.default_rng([arguments.seed, 3])
    natural = arguments.captions == "natural"
    prompts = [random_caption(s, rng)[0] if natural else plain_caption(s) for s in scenes]
    settings = SampleSettings(
        segments=arguments.segments,
        steps=arguments.steps,
        guidance_scale=arguments.guidance,
        chunkwise=arguments.chunkwise,
    )
    for start in range(0, len(prompts), arguments.batch):
        part = prompts[start : start + arguments.batch]
        yield from sample_clips(starter, part, settings, arguments.seed + start)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINT, metavar="DIR")
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--segments", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=3.0, metavar="SCALE")
    parser.add_argument(
        "--chunkwise", action="store_true", help="finish each chunk before the next one begins"
    )
    parser.add_argument(
        "--source",
        choices=("model", "drawn", "codec"),
        default="model",
        help="judge generated clips, drawn ones, or drawn ones after the codec",
    )
    parser.add_argument("--captions", choices=("plain", "natural"), default="plain")
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--threads", type=int, help="CPU threads; all cores by default")
    parser.add_argument("--sheet", type=Path, help="also write a contact sheet of 12 clips (PNG)")
    parser.add_argument("--json", action="store_true")


def run(arguments: argparse.Namespace) -> Scores:
    """Make the clips, judge each, print the scores."""
    started = time.monotonic()
    scenes = draw_scenes(arguments.clips, arguments.seed)
    clips = drawn_clips(scenes, arguments.segments, arguments.seed)
    if arguments.source != "drawn":
        clips = _from_checkpoint(clips, scenes, arguments)
    verdicts, kept = [], []
    for frames in clips:
        verdicts.append(judge(frames))
        if len(kept) < 12:
            kept.append(frames)
    if arguments.sheet:
        _write_sheet(arguments.sheet, kept)
    scores = score(scenes, verdicts)
    _print(scores, verdicts, time.monotonic() - started, arguments.json)
    return scores


def _from_checkpoint(drawn, scenes, arguments):
    import torch

    from .sample import load_starter

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    starter = load_starter(arguments.checkpoint)
    if arguments.source == "codec":
        return (through_codec(starter.codec, frames) for frames in drawn)
    return generated_clips(starter, scenes, arguments)


def _write_sheet(path: Path, clips: list[np.ndarray]) -> None:
    from PIL import Image

    from .sample import contact_sheet

    Image.fromarray(contact_sheet(np.stack(clips))).save(path, optimize=True)


def _print(scores: Scores, verdicts: list[Verdict], seconds: float, as_json: bool) -> None:
    figures = {field.name: getattr(scores, field.name) for field in fields(Scores)}
    figures["median_jump"] = float(np.median([v.jump for v in verdicts]))
    figures["median_drift"] = float(np.median([v.drift for v in verdicts]))
    figures["seconds"] = round(seconds, 1)
    if as_json:
        print(json.dumps({k: round(v, 4) for k, v in figures.items()}))
        return
    for name, value in figures.items():
        print(f"{name:>12}  {value:.3f}" if isinstance(value, float) else f"{name:>12}  {value}")

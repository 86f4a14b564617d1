"""The benchmark of FlowCache: what leaving out work saves, and what it costs in the picture.

Every setting makes the same clips from the same noise, one after the other in one run, so that
times compare; quality is measured on the decoded frames against mode `exact`, which gives the plain
pipeline's own picture. The fair rival is `exact` with fewer steps: it is free of any cache.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pipelines.base import OnStep, Step, Tensors, joined
from pipelines.errors import BadInput
from pipelines.flowcache import disable_flowcache, enable_flowcache
from studio import software
from studio.bench_settings import CHUNKS, KINDS, MODES, STEPS, Setting, ladder, recipe_of
from studio.engine import Engine
from studio.events import Event, OnEvent, Stage, ignore
from studio.recipe import Recipe

if TYPE_CHECKING:
    import numpy as np

    from pipelines.base import Pipeline
    from pipelines.starter.dataset import Scene

SEED = 1000
RIVALS = ("fewer steps", "teacache")
"""What a mode has to be better than at the same speed."""


@dataclass
class Measured:
    """Sums over the clips of one setting, and what was measured of each."""

    flops: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    forwards: float = 0.0
    kv_bytes: int = 0
    psnr: list[float] = field(default_factory=list)
    ssim: list[float] = field(default_factory=list)
    verdicts: list[Any] = field(default_factory=list)


def flowcache(
    model: str,
    prompts: int = 12,
    steps: int = STEPS,
    given: Mapping[str, Any] = MappingProxyType({}),
    on_event: OnEvent = ignore,
) -> dict[str, Any]:
    """The table of every setting, and what it was measured on. `given` are recipe fields that
    replace the model's own. Raises BadInput as a render does."""
    if prompts < 1:
        raise BadInput("prompts", prompts, "Use a whole number from 1.")
    recipe = recipe_of(model, steps, given)
    pipe = Engine().pipeline(model)
    # Refuses what the model cannot do before anything is rendered.
    pipe.plan(recipe)
    scenes = _scenes(prompts)
    settings = ladder(steps)
    measured = [Measured() for _ in settings]
    try:
        for n, (_, prompt) in enumerate(scenes):
            one = recipe.changed({"prompt": prompt})
            inputs = joined(pipe.encode(one, pipe.encoder_inputs(one)))
            references: dict[bool, np.ndarray] = {}
            for k, (setting, sums) in enumerate(zip(settings, measured, strict=True)):
                at = (n * len(settings) + k, prompts * len(settings))

                def on_step(step: Step, at: tuple[int, int] = at) -> None:
                    on_event(Event(Stage.DENOISE, *at, step.step, step.steps))

                frames = _clip(pipe, one, inputs, setting, SEED + n, sums, on_step)
                reference = references.setdefault(setting.kind == "in turn", frames)
                _look(frames, reference, recipe, sums)
    finally:
        disable_flowcache(pipe)
    rows = _rows(settings, measured, [scene for scene, _ in scenes])
    return {
        "model": recipe.model,
        "prompts": prompts,
        "chunks": CHUNKS,
        "steps": steps,
        "recipe": recipe.model_dump(mode="json", exclude={"prompt"}),
        "rows": rows,
        "software": software.versions(),
    }


def _scenes(prompts: int) -> list[tuple[Scene, str]]:
    from pipelines.starter.captions import plain_caption
    from pipelines.starter.evaluate import draw_scenes

    return [(scene, plain_caption(scene)) for scene in draw_scenes(prompts, SEED)]


def _clip(
    pipe: Pipeline,
    recipe: Recipe,
    inputs: Tensors,
    setting: Setting,
    seed: int,
    sums: Measured,
    on_step: OnStep,
) -> np.ndarray:
    """Frames of one clip under one setting; what they cost is added to `sums`."""
    import torch

    from studio.flops import FlopCount

    if setting.config is None:
        disable_flowcache(pipe)
    else:
        enable_flowcache(pipe, setting.config)
    recipe = recipe.changed({"steps": setting.steps, "ar_step": setting.lag})
    pipe.load_denoiser()
    began = time.process_time()
    counted, spent = 0, began

    def after(step: Step) -> None:
        # What comes after the last step is decoding, which no setting changes.
        nonlocal counted, spent
        counted, spent = count.total, time.process_time()
        on_step(step)

    generator = torch.Generator().manual_seed(seed)
    with FlopCount() as count:
        output = pipe.generate(recipe, inputs, 0, None, generator, after)
    sums.flops += counted
    sums.cpu += spent - began
    sums.wall += output.seconds["denoise"]
    skipped = output.skip_map
    sums.forwards += output.forwards if skipped is None else skipped.passes / skipped.chunks
    sums.kv_bytes = max(sums.kv_bytes, 0 if skipped is None else skipped.kv_bytes)
    return output.frames


def _look(frames: np.ndarray, reference: np.ndarray, recipe: Recipe, sums: Measured) -> None:
    from studio.quality import psnr, ssim

    sums.psnr.append(psnr(frames, reference))
    sums.ssim.append(ssim(frames, reference))
    if recipe.model == "starter":
        from pipelines.starter.judge import judge

        sums.verdicts.append(judge(frames, recipe.fps))


def _rows(
    settings: list[Setting], measured: list[Measured], scenes: list[Scene]
) -> list[dict[str, Any]]:
    base, plain = next(p for p in zip(settings, measured, strict=True) if p[0].config is None)
    rows = []
    for setting, sums in zip(settings, measured, strict=True):
        # Plain does the same in every row; in turn there are more of them.
        longer = setting.rows / base.rows if setting.kind == "in turn" else 1
        rows.append(
            {
                "what": setting.name,
                "kind": setting.kind,
                "steps": setting.steps,
                "ar_step": setting.lag,
                "config": setting.config and asdict(setting.config),
                "flops": sums.flops // len(scenes),
                "speedup": round(longer * plain.flops / sums.flops, 3),
                "forwards": round(sums.forwards / len(scenes), 2),
                "wall_ratio": round(sums.wall / plain.wall / longer, 4),
                "cpu_ratio": round(sums.cpu / plain.cpu / longer, 4),
                "psnr": round(fmean(sums.psnr), 2),
                "psnr_least": round(min(sums.psnr), 2),
                "ssim": round(fmean(sums.ssim), 4),
                "judge": _judged(scenes, sums.verdicts),
                "kv_bytes": sums.kv_bytes,
            }
        )
    lines = {
        rival: sorted((row["speedup"], row["psnr"]) for row in rows if row["kind"] == rival)
        for rival in RIVALS
    }
    for row in rows:
        row["over"] = {
            rival: round(row["psnr"] - there, 2)
            for rival, line in lines.items()
            if row["kind"] in MODES
            and row["kind"] != rival
            and (there := at_speed(line, row["speedup"])) is not None
        }
    return sorted(rows, key=lambda row: KINDS.index(row["kind"]))


def at_speed(points: list[tuple[float, float]], speed: float) -> float | None:
    """PSNR at a speed-up, on the lines through `points` in their order; None outside them."""
    for (slow, best), (fast, worst) in itertools.pairwise(points):
        if slow <= speed <= fast:
            return best + (worst - best) * (speed - slow) / ((fast - slow) or 1)
    return None


def _judged(scenes: list[Scene], verdicts: list[Any]) -> float | None:
    """Share of what was asked for (land, time, actor, colour, direction) that the judge sees."""
    if not verdicts:
        return None
    from pipelines.starter.evaluate import score

    return round(score(scenes, verdicts).mean, 3)


def table(told: dict[str, Any]) -> str:
    """The same for reading."""
    lines = [
        f"{told['model']}: {told['prompts']} clips of {told['chunks']} chunks, "
        f"{told['steps']} steps, each chunk {told['recipe']['ar_step']} steps behind the last",
        f"{'':<18}{'GFLOPs':>9}{'speed-up':>10}{'time':>7}{'forwards':>10}{'PSNR':>8}"
        f"{'SSIM':>8}{'judge':>7}{'KV kB':>8}{'dB over fewer steps':>21}{'over teacache':>15}",
    ]
    lines += ["".join(cells) for cells in _cells(told["rows"])]
    return "\n".join(lines)


def _cells(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    for row in rows:
        over = [row["over"].get(rival) for rival in RIVALS]
        steps, teacache = ("" if dB is None else f"{dB:+.2f}" for dB in over)
        judged = row["judge"]
        yield [
            f"{row['what']:<18}{row['flops'] / 1e9:>9.1f}{row['speedup']:>9.2f}x",
            f"{row['wall_ratio']:>7.2f}{row['forwards']:>10.1f}{row['psnr']:>8.2f}",
            f"{row['ssim']:>8.4f}{'-' if judged is None else f'{judged:.2f}':>7}",
            f"{row['kv_bytes'] / 1e3:>8.0f}{steps:>21}{teacache:>15}",
        ]

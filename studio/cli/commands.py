"""What each command does with its words: call an action, print what came of it."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pipelines.errors import BadInput
from pipelines.flowcache import SkipMap
from studio import actions, flowcache
from studio.cli.main import CancelOnSignal
from studio.cli.progress import Progress
from studio.engine import Engine
from studio.history import TakeRow
from studio.library import Library, default_folder
from studio.ranks import Ranks
from studio.recipe import Recipe
from studio.report import render_report, take_report

Answer = tuple[dict[str, Any] | list[Any], str, int]
"""What a command says: the JSON object, the same in words, the exit code."""


def run(options: argparse.Namespace) -> int:
    """Runs the command that was parsed and returns its exit code."""
    command: Callable[[argparse.Namespace], Answer] = COMMANDS[options.command]
    answer, words, code = command(options)
    if Ranks.here().main:
        print(json.dumps(answer) if options.json else words)
    return code


def _library(options: argparse.Namespace, make: bool = False) -> Library:
    """The library that was named. Only a command that makes something makes a library too."""
    return Library(getattr(options, "library", None), make)


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The recipe fields that were given on the command line."""
    names = set(Recipe.model_fields) - {"model"}
    given = {k: v for k, v in vars(options).items() if k in names and v is not None}
    # Either says where the persons are: one takes the place of the other.
    for name, other, none in (("faces", "masks", ()), ("masks", "faces", "")):
        if name in given and other not in given:
            return given | {other: none}
    return given


def _seeds(options: argparse.Namespace) -> list[int] | None:
    return [options.seed] if options.seed is not None else options.seeds


def _generate(options: argparse.Namespace) -> Answer:
    with _library(options, make=True) as library, CancelOnSignal() as signals:
        rendered = actions.generate(
            library,
            Engine(),
            options.model,
            _given(options),
            _seeds(options),
            options.session,
            Progress(lambda: signals.asked),
        )
        return render_report(library, rendered), _in_words(library, rendered), 0


def _retake(options: argparse.Namespace) -> Answer:
    with _library(options) as library, CancelOnSignal() as signals:
        rendered = actions.retake(
            library,
            Engine(),
            options.take,
            options.keep,
            _seeds(options),
            _given(options),
            Progress(lambda: signals.asked),
        )
        return render_report(library, rendered), _in_words(library, rendered), 0


def _in_words(library: Library, rendered) -> str:
    new, total = rendered.sources.count("generated"), len(rendered.sources)
    lines = [
        f"take {rendered.take.id[:12]}  {new} of {total} segments new, "
        f"{rendered.timings['total']:.1f} s",
        f"seeds {','.join(map(str, rendered.take.seeds))}",
        str(library.result(rendered.take)),
    ]
    return "\n".join(lines)


def _takes(options: argparse.Namespace) -> Answer:
    if options.limit < 1:
        raise BadInput("limit", options.limit, "Use a whole number from 1.")
    with _library(options) as library:
        sessions = [name for name, _ in library.history.sessions()]
        if options.session is not None and options.session not in sessions:
            known = ", ".join(sessions[:5]) or "none yet"
            raise BadInput("session", options.session, f"There is no such session ({known}).")
        rows = library.history.takes(options.session, options.limit)
    if not rows:
        return [], "No takes yet. Make one: python app.py generate --prompt TEXT", 0
    return [asdict(row) for row in rows], "\n".join(_row_in_words(row) for row in rows), 0


def _row_in_words(row: TakeRow) -> str:
    marks = ("=" if row.baseline else " ") + ("*" * row.stars).ljust(5)
    # A prompt may hold what a terminal would obey.
    prompt = "".join(c for c in " ".join(row.prompt.split()) if c.isprintable())
    short = prompt if len(prompt) <= 44 else prompt[:43] + "…"
    return (
        f"{row.id[:12]} {marks} {row.created[:16].replace('T', ' ')}  {row.segments:>3} seg "
        f"{row.seconds:>6.1f} s  {row.model:<12} {short}"
    )


def _show(options: argparse.Namespace) -> Answer:
    with _library(options) as library:
        take = library.take(options.take)
        told = take_report(library, take)
        if options.speedup is not None:
            told["flowcache_threshold"] = flowcache.threshold_for(library, take, options.speedup)
    width = max(len(name) for name in told)
    lines = []
    for name, value in told.items():
        if name == "segments":
            lines += [
                f"{'segment ' + str(s['index'] + 1):<{width}}  frames {s['frames'][0]}-"
                f"{s['frames'][1] - 1}  seed {s['seed']}  {s['id'][:12]}"
                for s in value
            ]
        elif name == "chapters":
            lines += _chapters_in_words(value, width)
        elif name == "flowcache":
            lines += _flowcache_in_words(value, width)
        elif isinstance(value, dict):
            lines += [f"{name}.{k:<{max(width - len(name) - 1, 0)}}  {v}" for k, v in value.items()]
        else:
            lines.append(f"{name:<{width}}  {value}")
    return told, "\n".join(lines), 0


def _chapters_in_words(chapters: list[dict[str, Any]], width: int) -> list[str]:
    """What changes in the recipe, and from which segment on; nothing for a take of one recipe."""
    lines = []
    for before, chapter in itertools.pairwise(chapters):
        old, new = before["recipe"], chapter["recipe"]
        lines += [
            f"{'from segment ' + str(chapter['first'] + 1):<{width}}  {name} {value}"
            for name, value in new.items()
            if value != old[name]
        ]
    return lines


def _flowcache_in_words(maps: list[dict[str, Any] | None], width: int) -> list[str]:
    """A picture of each segment that FlowCache made: a line for a chunk, a column for a step."""
    lines = []
    for index, fields in enumerate(maps):
        if fields is None:
            continue
        skipped = SkipMap.from_json(fields)
        share = skipped.passes / skipped.plain_passes
        exact = "exact" if skipped.exact else "not exact"
        lines.append(f"{'flowcache ' + str(index + 1):<{width}}  {share:.0%} computed, {exact}")
        lines += [f"{'':<{width}}  {line}" for line in skipped.lines()]
    if lines:
        lines.append(f"{'':<{width}}  # computed  - reused  k keys and values only  . not run")
    return lines


def _accept(options: argparse.Namespace) -> Answer:
    with _library(options) as library:
        take, before = actions.accept(library, options.take)
    answer = {"take": take.id, "session": take.session, "before": before}
    return answer, f"{take.id[:12]} is the baseline of {take.session}", 0


def _export(options: argparse.Namespace) -> Answer:
    with _library(options) as library:
        out = actions.export(library, options.takes, options.to, options.scale, options.overwrite)
    return {"file": str(out.absolute())}, str(out), 0


def _verify(options: argparse.Namespace) -> Answer:
    from studio import verify

    with _library(options) as library:
        answer: dict[str, Any] = {}
        lines: list[str] = []
        if options.rebuild:
            answer["rebuilt"] = library.rebuild()
            lines.append(f"history.sqlite rebuilt from {answer['rebuilt']} takes")
        if options.recompute:
            take = library.take(options.recompute)
            with CancelOnSignal() as signals:
                again = verify.recompute(library, Engine(), take, Progress(lambda: signals.asked))
            answer |= {"take": take.id, "segments": [asdict(part) for part in again]}
            answer["faults"] = [asdict(fault) for fault in library.store.faults("takes", take.id)]
            answer["same"] = not any(part.differs for part in again) and not answer["faults"]
            lines += [f"{fault['file']}: {fault['what']}" for fault in answer["faults"]]
            lines += [
                f"segment {part.index + 1} (index {part.index}): "
                + (f"differs in {', '.join(part.differs)}" if part.differs else "same")
                for part in again
            ]
        else:
            faults = [*library.store.verify(), *verify.missing(library)]
            answer["faults"] = [asdict(fault) for fault in faults]
            lines += [f"{f.kind}/{f.key}/{f.file}: {f.what}" for f in faults]
            lines.append("1 fault" if len(faults) == 1 else f"{len(faults)} faults")
            if faults:
                lines.append("Generate or retake with the same seeds makes what is missing anew.")
    bad = bool(answer.get("faults")) or not answer.get("same", True)
    return answer, "\n".join(lines), int(bad)


def _models(options: argparse.Namespace) -> Answer:
    from studio.models import Models
    from studio.report import models_report, support_matrix

    folder = getattr(options, "library", None) or default_folder()
    rows = models_report(Models(folder.expanduser().absolute()).added())
    partly = [row for row in rows if row["size_on_disk"] and not row["present"]]
    here = ["here"]
    here += ["yes" if row["present"] else "partly" if row in partly else "no" for row in rows]
    table = [[*cells, last] for cells, last in zip(support_matrix(rows), here, strict=True)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in table
    ]
    lines += [f"{row['id']}: {row['problem']}" for row in partly]
    return rows, "\n".join(lines), 0


def _doctor(options: argparse.Namespace) -> Answer:
    from studio import doctor

    with _library(options, make=True) as library:
        checks = doctor.checks(library)
        answer: dict[str, Any] = {"checks": [asdict(check) for check in checks]}
        lines = [f"{'ok ' if c.ok else 'BAD'} {c.name}: {c.told}" for c in checks]
        if options.clean:
            removed = doctor.clean(library, options.older_than)
            answer["removed"] = removed
            lines.append(f"removed {removed['entries']} entries, {removed['bytes'] / 1e6:.1f} MB")
    return answer, "\n".join(lines), int(not all(check.ok for check in checks))


def _bench(options: argparse.Namespace) -> Answer:
    with CancelOnSignal() as signals:
        progress = Progress(lambda: signals.asked)
        _check_bench(options)
        if options.what == "flowcache":
            return _bench_flowcache(options, progress)
        from studio import bench

        files = {name: getattr(options, name) for name in ("image", "audio")}
        told = bench.reuse(options.model, options.segments, options.steps, progress, files)
    return told, bench.table(told), 0


def _check_bench(options: argparse.Namespace) -> None:
    """Raises BadInput for an option of the other benchmark, which this one does not read."""
    of = {"reuse": ("segments", "image", "audio"), "flowcache": ("plot", "growth", "full")}
    (other,) = of.keys() - {options.what}
    for name in of[other]:
        if value := getattr(options, name):
            raise BadInput(name, value, f"It is an option of bench {other}; leave it out.")


def _bench_flowcache(options: argparse.Namespace, progress: Progress) -> Answer:
    if options.growth:
        from studio import bench_growth

        told = bench_growth.growth(full=options.full, on_event=progress)
        return told, bench_growth.table(told), 0
    from studio import bench_flowcache, bench_plot

    if options.plot is not None:
        bench_plot.check(options.plot)
    told = bench_flowcache.flowcache(
        options.model,
        options.prompts,
        bench_flowcache.STEPS if options.steps is None else options.steps,
        on_event=progress,
    )
    if options.plot is not None:
        bench_plot.draw(told, options.plot)
    return told, bench_flowcache.table(told), 0


COMMANDS: dict[str, Callable[[argparse.Namespace], Answer]] = {
    "generate": _generate,
    "retake": _retake,
    "takes": _takes,
    "show": _show,
    "accept": _accept,
    "export": _export,
    "verify": _verify,
    "models": _models,
    "doctor": _doctor,
    "bench": _bench,
}

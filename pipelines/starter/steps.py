"""The command line of a training in steps: `python -m … STEP --work W`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .team import Team


class Steps:
    """A parser with a subcommand for each step; `run` of what it parses is the step's function."""

    def __init__(self, prog: str, text: str) -> None:
        self.parser = argparse.ArgumentParser(
            prog=prog, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self._steps = self.parser.add_subparsers(required=True, metavar="STEP")

    def add(
        self, name: str, run: Callable[[argparse.Namespace], None], text: str
    ) -> argparse.ArgumentParser:
        step = self._steps.add_parser(name, help=text, description=text)
        step.add_argument("--work", type=Path, required=True, metavar="DIR")
        step.set_defaults(run=run)
        return step


def add_run_options(step: argparse.ArgumentParser, finish: float, learning_rate: float) -> None:
    """What every `TrainingRun` is told; `finish` is in minutes."""
    step.add_argument("--minutes", type=float, default=60, help="of this run")
    step.add_argument(
        "--finish",
        type=float,
        default=finish,
        metavar="MINUTES",
        help="decay the rate over the last",
    )
    step.add_argument("--learning-rate", type=float, default=learning_rate)
    step.add_argument("--resume", action="store_true")
    step.add_argument("--rank", type=int, default=0, help="number of this process")
    step.add_argument("--size", type=int, default=1, help="processes training together")
    step.add_argument("--meeting-file", type=Path, help="a new file, the same for all")


def run_settings(arguments: argparse.Namespace) -> dict[str, float]:
    """Fields of `RunSettings` that were told."""
    return {
        "minutes": arguments.minutes,
        "decay_minutes": arguments.finish,
        "learning_rate": arguments.learning_rate,
    }


def join_team(arguments: argparse.Namespace) -> Team:
    """Waits for the other processes, where there are any."""
    from .team import Team

    if arguments.size > 1 and not arguments.meeting_file:
        raise SystemExit("--size above 1 needs --meeting-file, the same new file for each process.")
    return Team.join(arguments.rank, arguments.size, arguments.meeting_file)


def say(line: str) -> None:
    print(line, flush=True)

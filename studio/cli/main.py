"""From the words on the command line to an exit code: the one place where errors become codes."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from pipelines.errors import BadInput
from studio.cli.parser import build


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. Results go to stdout, all else to stderr."""
    # A name that is not Unicode, or a terminal that knows less of it, is no reason to fail.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    as_json = "--json" in (sys.argv[1:] if words is None else words)
    try:
        options = build().parse_args(words)
        logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
        if options.command is None:
            from studio.server import serve

            return serve(options.host, options.port, getattr(options, "library", None))
        from studio.cli import commands

        return commands.run(options)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Exception, KeyboardInterrupt) as error:
        return _report(error, as_json)


def _report(error: BaseException, as_json: bool) -> int:
    # Imported late: `--help` must not wait for what knows all errors.
    from studio.errors import Cancelled, NotCompatible, exit_code, is_known

    if isinstance(error, (Cancelled, KeyboardInterrupt)):
        message = "Cancelled. Finished segments are kept; run the same again to go on from there."
    else:
        message = str(error) or type(error).__name__
    if as_json:
        told: dict[str, object] = {"error": message, "type": type(error).__name__}
        if isinstance(error, BadInput):
            told |= {"field": error.field, "value": str(error.value), "fix": error.fix}
        if isinstance(error, NotCompatible):
            told["differences"] = [
                {"field": d.name, "kept": d.kept, "asked": d.asked} for d in error.differences
            ]
        print(json.dumps(told, default=str))
    print(message, file=sys.stderr)
    if not is_known(error):
        logging.getLogger(__name__).debug("", exc_info=error)
        if os.environ.get("RETAKE_TRACEBACK"):
            raise error
    return exit_code(error)


class CancelOnSignal:
    """SIGINT and SIGTERM ask a render to stop at its next step; a second one stops it at once."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> CancelOnSignal:
        self._before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

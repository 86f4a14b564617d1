"""The ffmpeg of imageio-ffmpeg, reading a file that a person gave: what it writes comes through a
pipe, and how it ended is told before anything of it is used."""

from __future__ import annotations

import math
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from pipelines.errors import BadInput

WHOLE = 0.98
"""Of what its header says a file holds: one with faults that gives so much all the same is used."""
MOST_WAIT = 3600
"""Seconds that ffmpeg may take for a file, or for one picture of it."""
LOOKS = 0.2
"""Seconds after which it is looked anew whether that has passed."""
MOST_SAID = 1_000_000
"""Bytes that are read of its log, which begins with the header of the file."""
_INTERRUPTED, _NO_MEMORY = 255, 244
"""Exit codes of ffmpeg after a signal that it takes itself, and for ENOMEM."""
_FAULT = re.compile(r"^(?:\[[^\]]*\] )*\[(?:error|fatal)\]", re.MULTILINE)
_DURATION = re.compile(r"^\[info\]   Duration: (\d+):(\d+):(\d+(?:\.\d+)?)", re.MULTILINE)
_STREAM = r"^\[info\]   Stream #0:\d+\S*: {}: "


class Ffmpeg:
    """One run, as a context: what still runs at its end is killed.

    `outputs` are the arguments after the file, and have to write to `pipe:1`; `inputs` those before
    it. Only files are opened, of the formats that `demuxers` names.
    """

    def __init__(
        self,
        path: Path,
        field: str,
        demuxers: Sequence[str],
        *outputs: str,
        inputs: Sequence[str] = (),
    ) -> None:
        import imageio_ffmpeg

        self._path, self._field, self._late = path, field, False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the run
        only = ("-protocol_whitelist", "file", "-format_whitelist", ",".join(demuxers))
        quiet = ("-hide_banner", "-nostdin", "-nostats", "-loglevel", "level+info")
        source = (*inputs, *only, "-i", f"file:{path.resolve()}")
        # In a session of its own: a Ctrl-C is for whoever reads, not for half of what it reads.
        self._process = subprocess.Popen(
            [imageio_ffmpeg.get_ffmpeg_exe(), *quiet, *source, *outputs],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._until, self._over = math.inf, threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def __enter__(self) -> Ffmpeg:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._process.kill()
        self._process.stdout.close()
        self._process.wait()
        self._log.close()

    def read(self, count: int = -1) -> bytes:
        """So many bytes, or all; fewer where there are no more."""
        with self._in_time():
            return self._process.stdout.read(count)

    def lines(self) -> Iterator[str]:
        """Whole ones: where it was stopped, the last may be cut off."""
        with self._in_time():
            for line in self._process.stdout:
                if line.endswith(b"\n"):
                    yield line.decode("utf-8", "replace")

    def ended(self) -> bool:
        """Whether it ended well. Raises BadInput if it was stopped, which says nothing of the
        file."""
        with self._in_time():
            code = self._process.wait()
        if self._late:
            fix = f"Reading it took longer than {MOST_WAIT // 60} minutes; make it smaller."
            raise BadInput(self._field, str(self._path), fix)
        if code < 0 or code in (_INTERRUPTED, _NO_MEMORY):
            how = f" by {signal.Signals(-code).name}" if code < 0 else ""
            fix = f"ffmpeg was stopped{how} while it read it, as when memory is short; try again."
            raise BadInput(self._field, str(self._path), fix)
        return code == 0

    def said(self) -> str:
        """The beginning of what it told of the file and its faults, line by line."""
        self._log.seek(0)
        return self._log.read(MOST_SAID).decode("utf-8", "replace")

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        self._until = time.monotonic() + MOST_WAIT
        try:
            yield
        finally:
            self._until = math.inf

    def _watch(self) -> None:
        while not self._over.wait(LOOKS):
            if time.monotonic() > self._until:
                self._late = True
                self._process.kill()
                return


def has_faults(said: str) -> bool:
    return _FAULT.search(said) is not None


def has_stream(said: str, kind: str) -> bool:
    """`Video` or `Audio`."""
    return re.search(_STREAM.format(kind), said, re.MULTILINE) is not None


def declared(said: str) -> float | None:
    """Seconds that the header of the file promises; None if it says nothing."""
    match = _DURATION.search(said)
    if match is None:
        return None
    hours, minutes, seconds = match.groups()
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)

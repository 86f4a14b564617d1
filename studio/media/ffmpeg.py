"""Runs ffmpeg, the binary that comes with the imageio-ffmpeg wheel, and puts its failures in words.

Pictures go in and come out through pipes; nothing is installed by hand, nothing goes via a shell.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import subprocess
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import imageio_ffmpeg
import numpy as np

from studio.media.errors import DiskFull, MediaError

QUIET = ("-hide_banner", "-loglevel", "error", "-nostdin", "-y")


@functools.cache
def binary() -> str:
    """Path of ffmpeg. Raises MediaError if there is none."""
    try:
        return imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        raise MediaError("ffmpeg was not found. Install it: pip install imageio-ffmpeg") from error


def version() -> str:
    """`ffmpeg 7.1`, say. Raises MediaError if it is missing or does not start."""
    try:
        told = subprocess.run([binary(), "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise MediaError(f"ffmpeg does not start: {error}") from error
    return " ".join(told.stdout.split("\n", 1)[0].replace("version ", "").split()[:2])


def url(path: Path) -> str:
    """`path` as ffmpeg takes it literally, whatever its name begins with or contains."""
    return f"file:{os.path.abspath(path)}"


def run(
    arguments: Sequence[str],
    failure: str,
    *,
    frames: Iterable[np.ndarray] = (),
    into: np.ndarray | None = None,
) -> int:
    """Run ffmpeg with `arguments`, and return how many bytes came out of its stdout.

    frames: pictures of one shape, uint8, that go to its stdin (`pipe:0`) one after the other.
    into: what it writes to its stdout (`pipe:1`) fills this contiguous uint8 array.
    failure: what to say went wrong, such as "a.mp4 cannot be written"; the last line of what
        ffmpeg said follows.

    Raises MediaError, or DiskFull if that was the reason. If `frames` raises, ffmpeg is stopped.
    """
    try:
        process = subprocess.Popen(
            [binary(), *QUIET, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C in a terminal goes to all of its processes; when to stop is ours to say.
            start_new_session=True,
        )
    except OSError as error:
        raise MediaError(f"{failure}: ffmpeg did not start ({error.strerror})") from error
    said: list[bytes] = []
    # Drained beside the work: an ffmpeg with much to complain about would otherwise block on it.
    listener = threading.Thread(target=lambda: said.append(process.stderr.read()), daemon=True)
    listener.start()
    try:
        _feed(process, frames)
        count = _fill(process, into)
        code = process.wait()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        listener.join()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        process.stderr.close()
    if code != 0:
        raise _error(failure, code, b"".join(said).decode("utf-8", "replace"))
    return count


def _feed(process: subprocess.Popen, frames: Iterable[np.ndarray]) -> None:
    # A broken pipe means that ffmpeg ended early: its exit code and its last words say why.
    with contextlib.suppress(BrokenPipeError):
        for frame in frames:
            process.stdin.write(np.ascontiguousarray(frame).data)
        process.stdin.close()


def _fill(process: subprocess.Popen, into: np.ndarray | None) -> int:
    if into is None:
        return len(process.stdout.read())
    count = process.stdout.readinto(memoryview(into).cast("B"))
    return count + len(process.stdout.read())


def _error(failure: str, code: int, said: str) -> MediaError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else f"ffmpeg ended with {code}"
    if "No space left on device" in said:
        return DiskFull(f"{failure}: {os.strerror(errno.ENOSPC)}")
    return MediaError(f"{failure}: {last}")

"""Starts `python app.py …` within milliseconds: from a process that has the imports behind it.

Importing Gradio and torch takes some eight seconds of one core, for each server of each test. Here
one process of a test run imports them, computes nothing, and forks a child for every start. What is
forked is a process of its own in every way that tests look at: its pid, its files, its signals, its
exit. The tests of the start itself (`test_server.py`, `test_commands.py`) run a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
WORD = 1 << 20
POLL_SECONDS = 0.01


class Forked:
    """What tests use of a `subprocess.Popen` in text mode."""

    def __init__(self, nursery: Nursery, pid: int, stdout: IO[str], stderr: IO[str]) -> None:
        self.pid, self.stdout, self.stderr = pid, stdout, stderr
        self.returncode: int | None = None
        self._nursery = nursery

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.exit_of(self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        give_up = time.monotonic() + (timeout or float("inf"))
        while self.poll() is None:
            if time.monotonic() > give_up:
                raise subprocess.TimeoutExpired("app.py", timeout or 0)
            time.sleep(POLL_SECONDS)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All of its output and errors, once it has ended."""
        with ThreadPoolExecutor(1) as beside:
            errors = beside.submit(self.stderr.read)
            output = self.stdout.read()
        self.wait(timeout)
        return output, errors.result()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks, seen from a test run; made when it is first needed."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
            )

    def start(self, words: Sequence[object], environment: Mapping[str, str]) -> Forked:
        """`python app.py WORDS` in the project's folder, with nothing on its standard input."""
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        with open(os.devnull) as nothing:
            asked = {"words": [str(word) for word in words], "environment": dict(environment)}
            told = self._ask(asked, [nothing.fileno(), out_end, err_end])
        os.close(out_end)
        os.close(err_end)
        return Forked(self, told["pid"], os.fdopen(out), os.fdopen(err))

    def exit_of(self, pid: int) -> int | None:
        return self._ask({"pid": pid})["code"]

    def close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _ask(self, asked: Mapping[str, object], files: Sequence[int] = ()) -> dict:
        socket.send_fds(self._socket, [json.dumps(asked).encode()], files)
        return json.loads(self._socket.recv(WORD))


def warm_up() -> None:
    """Imports most of what a render does, and computes nothing: every child begins with it."""
    import torch  # noqa: F401
    from diffusers import QwenImagePipeline, SkyReelsV2DiffusionForcingPipeline  # noqa: F401
    from transformers import Qwen2_5_VLForConditionalGeneration, UMT5EncoderModel  # noqa: F401

    # A child that collects garbage would copy all of it, only to look through it.
    gc.collect()
    gc.freeze()


def serve(requests: socket.socket) -> None:
    """Forks and tells of ends until the other side is gone."""
    import gradio  # noqa: F401

    import studio.api  # noqa: F401

    warm_up()
    codes: dict[int, int] = {}
    while True:
        message, files, _, _ = socket.recv_fds(requests, WORD, 3)
        if not message:
            return
        asked = json.loads(message)
        if "pid" in asked:
            answer = {"code": _exit(asked["pid"], codes)}
        else:
            answer = {"pid": _fork(asked, files, requests)}
        for file in files:
            os.close(file)
        requests.send(json.dumps(answer).encode())


def _exit(pid: int, codes: dict[int, int]) -> int | None:
    if pid not in codes:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return None
        codes[pid] = os.waitstatus_to_exitcode(status)
    return codes[pid]


def _fork(asked: Mapping, files: Sequence[int], requests: socket.socket) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        requests.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
        sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv = ["app.py", *asked["words"]]
        from studio.cli import main

        code = main()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        # As the interpreter would end.
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))

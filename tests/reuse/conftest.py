from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reuse import Entry, Store

HERE = Path(__file__).parent
VIDEO = b"frames " * 50


def staged(store: Store) -> list[Path]:
    """What is being written, or was left or set aside."""
    return [path for path in store.staging.iterdir() if not path.name.startswith(".")]


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "library")


@pytest.fixture
def publish():
    """Publishes an entry of one or more small files."""

    def publish(store: Store, key: str = "k1", kind: str = "segments", **fields) -> Entry:
        files = fields.pop("files", {"video.mp4": VIDEO})
        with store.stage() as staging:
            for name, data in files.items():
                staging.file(name).write_bytes(data)
            return staging.publish(kind, key, fields)

    return publish


@pytest.fixture
def worker():
    """Starts tests/reuse/worker.py as a process of its own; whatever still runs is killed."""
    started = []

    def start(*arguments: object) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, HERE / "worker.py", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()

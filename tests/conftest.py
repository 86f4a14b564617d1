"""What all tests share: a tiny checkpoint, no network, and threads that sleep while they wait."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forked import Nursery

# Before torch is imported, here and in every process that a test starts.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file stays on one worker, and so do all files that need a browser: pages and renders of
    two at once would wait for each other's cores."""
    for item in items:
        group = "browser" if item.path.parent.name == "browser" else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> Path:
    """A SkyReels-V2 checkpoint with random weights; read-only, copy it before damaging it."""
    from tests.fixtures.tiny_skyreels import build

    return build(tmp_path_factory.mktemp("checkpoints") / "tiny-skyreels")


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Starts `python app.py …` without waiting for its imports."""
    made = Nursery()
    yield made
    made.close()

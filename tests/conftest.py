"""What all tests share: a tiny checkpoint, no network, and threads that sleep while they wait."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.forked import Nursery

# Before torch is imported, here and in every process that a test starts.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


class OneBrowser(LoadFileScheduling):
    """A file stays on one worker, and so do all files that need a browser: pages and renders of
    two at once would wait for each other's cores."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "tests/browser" if file.startswith("tests/browser/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneBrowser:
    return OneBrowser(config, log)


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

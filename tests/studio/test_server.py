"""The server: up when the page is usable, closed to others, down within seconds."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from studio.cli import main
from tests.forked import Forked
from tests.studio.conftest import ROOT, environment

UP_SECONDS, DOWN_SECONDS = 120, 5


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(library: Path, port: int) -> subprocess.Popen[str]:
    """A server in a fresh interpreter, as people start it."""
    server = subprocess.Popen(
        [sys.executable, "app.py", "--port", str(port), "--library", str(library)],
        cwd=ROOT,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_up(server, port)
    return server


def wait_until_up(server: subprocess.Popen[str] | Forked, port: int) -> None:
    """Until it answers `/api/health`."""
    give_up = time.monotonic() + UP_SECONDS
    while time.monotonic() < give_up:
        assert server.poll() is None, server.stderr.read()
        try:
            if httpx.get(f"http://127.0.0.1:{port}/api/health", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    server.kill()
    raise AssertionError("the server did not come up")


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    port = free_port()
    server = start(tmp_path_factory.mktemp("served") / "library", port)
    yield f"http://127.0.0.1:{port}"
    server.send_signal(signal.SIGTERM)
    assert server.wait(DOWN_SECONDS) is not None


def test_health_and_the_page_answer(address):
    assert httpx.get(f"{address}/api/health").json() == {"status": "ok"}
    page = httpx.get(address)
    assert page.status_code == 200 and "Retake" in page.text


def test_other_hosts_and_pages_of_others_are_refused(address):
    port = address.rpartition(":")[2]
    wrong_host = httpx.get(f"{address}/api/health", headers={"Host": f"evil.example:{port}"})
    assert wrong_host.status_code == 400
    for path in ("/api/health", "/", "/gradio_api/info"):
        foreign = httpx.get(address + path, headers={"Origin": "http://evil.example"})
        assert foreign.status_code == 403
    assert httpx.get(f"{address}/api/health", headers={"Origin": address}).status_code == 200


@pytest.mark.parametrize(
    "name", ["nothing", "0" * 40, "../history.sqlite", "%2e%2e%2fhistory.sqlite"]
)
def test_media_is_served_by_id_and_never_by_path(address, name):
    assert httpx.get(f"{address}/api/takes/{name}/result").status_code == 404


def test_a_port_that_is_taken_is_named(capsys, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["--port", str(port), "--library", str(tmp_path)]) == 2
    assert f"port: {port}" in capsys.readouterr().err

"""A real browser on a real server with the real starter model."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, expect, sync_playwright

from tests.forked import Forked, Nursery
from tests.studio.conftest import environment
from tests.studio.test_server import free_port, wait_until_up

CHROMIUM = "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
RENDER_MS = 180_000
DESKTOP, PHONE = (1440, 900), (390, 844)

OpenPage = Callable[..., Page]


class Server:
    """A studio over one library, which can be stopped and started again on the same port."""

    def __init__(self, library: Path, nursery: Nursery) -> None:
        self.library, self.port, self.nursery = library, free_port(), nursery
        self.process: Forked | None = None
        self.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        words = ["--port", self.port, "--library", self.library]
        self.process = self.nursery.start(words, environment())
        wait_until_up(self.process, self.port)

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(5)
            self.process = None


@pytest.fixture
def server(tmp_path, nursery) -> Iterator[Server]:
    """A studio with a library of its own, empty."""
    made = Server(tmp_path / "library", nursery)
    yield made
    made.stop()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as opened:
        yield opened


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    opened = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
    yield opened
    opened.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens pages of a server; at the end fails on any console error, any error in a script and
    any request that left the machine. `away=True` allows the errors of a server that is down."""
    faults: list[str] = []
    contexts = []

    def watched(
        address: str, size: tuple[int, int] = DESKTOP, away: bool = False, **options
    ) -> Page:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, accept_downloads=True, **options
        )
        contexts.append(context)
        return watch(context.new_page(), address, away)

    def watch(page: Page, address: str, away: bool = False) -> Page:
        server = urlsplit(address)
        own = (f"{server.scheme}://{server.netloc}/", "data:", "blob:")
        page.on("console", lambda m: note(told(m)) if m.type == "error" and not away else None)
        page.on("pageerror", lambda error: note(str(error)))
        page.on("request", lambda r: None if r.url.startswith(own) else note(r.url))
        page.goto(address)
        expect(main_button(page)).to_be_enabled(timeout=30_000)
        return page

    def told(message: ConsoleMessage) -> str:
        return f"{message.text} {message.location['url']}"

    def note(text: str) -> None:
        faults.append(text)

    watched.watch = watch
    yield watched
    for context in contexts:
        context.close()
    assert faults == []


def main_button(page: Page):
    return page.get_by_role("button", name="Generate")


def retake_button(page: Page):
    return page.get_by_role("button", name="Retake")


def tiles(page: Page):
    return page.locator("#timeline [data-index]")


def tile(page: Page, number: int):
    """The tile of a segment, counted from 1 as the page does."""
    return page.locator(f'#timeline [data-index="{number - 1}"] .tile-face')

"""Makes the pictures of the README from the studio itself: `python assets/readme/make.py`.

Starts a studio over an empty library, works in it as a person would, and writes page.webp (the page
with two takes side by side) and loop.webp (the loop from a click to the accepted take) beside this
file. Needs what the tests need.
"""

from __future__ import annotations

import io
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WIDE, TALL = 1280, 800
LOOP_WIDTH = 880
PROMPT = "a red balloon drifting right over snowy mountains at dawn"
RENDER_MS = 240_000


class Film:
    """Pictures of a page, each with the milliseconds that it stays."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[tuple[Image.Image, int]] = []

    def shoot(self, stay: int = 120) -> None:
        data = self.page.screenshot(type="jpeg", quality=90)
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        size = (LOOP_WIDTH, round(picture.height * LOOP_WIDTH / picture.width))
        self.frames.append((picture.resize(size, Image.Resampling.LANCZOS), stay))

    def shoot_while(self, done, every: float = 0.5, stay: int = 120) -> None:
        """Pictures until `done()` holds; waiting is shown faster than it was."""
        give_up = time.monotonic() + RENDER_MS / 1000
        while not done() and time.monotonic() < give_up:
            self.shoot(stay)
            self.page.wait_for_timeout(every * 1000)

    def write(self, path: Path) -> None:
        first, *rest = (picture for picture, _ in self.frames)
        times = [stay for _, stay in self.frames]
        first.save(
            path, save_all=True, append_images=rest, duration=times, loop=0, quality=55, method=6
        )


@contextmanager
def studio(library: str):
    """The address of a studio over this library."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "app.py", "--port", str(port), "--library", library]
    server = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                urllib.request.urlopen(f"{address}/api/health", timeout=2)
                break
            except OSError:
                time.sleep(0.2)
        yield address
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(10)


def cards(page: Page) -> int:
    return page.locator("#takes .card").count()


def make(page: Page) -> None:
    film = Film(page)
    page.get_by_label("Prompt", exact=True).fill(PROMPT)
    page.get_by_label("Seed", exact=True).fill("7")
    page.get_by_role("button", name="Generate").click()
    film.shoot_while(lambda: cards(page) == 1, every=1.2)
    page.wait_for_timeout(800)
    film.shoot(700)

    page.locator('#timeline [data-index="1"] .tile-face').click()
    button = page.get_by_role("button", name="Retake")
    expect(button).to_have_text(re.compile("about"), timeout=20_000)
    page.get_by_label("Seed of the new segments").fill("23")
    page.wait_for_timeout(600)
    film.shoot(1600)
    button.click()
    film.shoot_while(lambda: cards(page) == 2, every=0.8)
    page.wait_for_timeout(600)
    for _ in range(14):
        film.shoot(200)
        page.wait_for_timeout(150)
    page.mouse.click(WIDE / 2, 2)
    page.keyboard.press("Space")
    # Where the takes differ.
    page.get_by_role("slider", name="Position").fill("92")
    page.wait_for_timeout(800)
    page.screenshot(path=HERE / "page.png")
    page.get_by_role("button", name="Accept").first.click()
    page.wait_for_timeout(700)
    film.shoot(2000)
    film.write(HERE / "loop.webp")
    with Image.open(HERE / "page.png") as picture:
        picture.convert("RGB").save(HERE / "page.webp", quality=82, method=6)
    (HERE / "page.png").unlink()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as library,
        studio(library) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium")
        page = browser.new_page(viewport={"width": WIDE, "height": TALL})
        page.goto(address)
        expect(page.get_by_role("button", name="Generate")).to_be_enabled(timeout=60_000)
        make(page)
        browser.close()


if __name__ == "__main__":
    main()

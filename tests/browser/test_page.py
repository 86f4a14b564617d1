"""The page in a real browser, on the real starter model."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.studio.test_server import free_port, start

CHROMIUM = "/usr/bin/chromium"
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
RENDER_MS = 120_000


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    port = free_port()
    server = start(tmp_path_factory.mktemp("page") / "library", port)
    yield f"http://127.0.0.1:{port}"
    server.send_signal(signal.SIGTERM)
    server.wait(5)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page at desktop size; fails on any console error and on any request to elsewhere."""
    opened = browser.new_page(viewport={"width": 1440, "height": 900})
    faults: list[str] = []
    opened.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on(
        "request",
        lambda request: (
            faults.append(request.url)
            if not request.url.startswith((address, "data:", "blob:"))
            else None
        ),
    )
    opened.goto(address)
    expect(opened.get_by_role("button", name="Generate")).to_be_visible(timeout=30_000)
    opened.wait_for_timeout(1000)
    yield opened
    opened.close()
    assert faults == []


def status(page: Page):
    return page.locator("#status textarea")


def test_generate_plays_a_take_and_retake_plays_another(page):
    page.get_by_role("button", name="Generate").click()
    expect(status(page)).to_have_value(re.compile("Done"), timeout=RENDER_MS)
    video = page.locator("#player video")
    expect(video).to_be_visible()
    first = video.get_attribute("src")
    page.wait_for_function("document.querySelector('#player video').readyState >= 2")
    assert page.evaluate("document.querySelector('#player video').videoWidth") == 96
    page.get_by_role("button", name="Retake").click()
    expect(status(page)).to_have_value(re.compile("2 of 4 segments new"), timeout=RENDER_MS)
    assert video.get_attribute("src") != first


def test_a_prompt_full_of_markup_runs_nowhere(page):
    prompt = '<img src=x onerror="document.title=1"> ${1+1} {{7*7}} 🪁 </script>'
    page.locator("#prompt textarea").fill(prompt)
    page.get_by_role("button", name="Generate").click()
    expect(status(page)).to_have_value(re.compile("Done"), timeout=RENDER_MS)
    assert page.title() == "Retake"
    assert page.locator("#prompt textarea").input_value() == prompt


def test_an_empty_prompt_is_told_in_a_toast(page):
    page.locator("#prompt textarea").fill("  ")
    page.get_by_role("button", name="Generate").click()
    expect(page.locator("[data-testid=toast-body]")).to_contain_text("prompt")


def test_the_page_fits_a_phone(page):
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_restart_in_the_middle_of_a_job_loses_nothing(browser, tmp_path):
    """SIGTERM with a page open and a job running ends it within 5 s; the next server goes on."""
    port, folder = free_port(), tmp_path / "library"
    server = start(folder, port)
    opened = browser.new_page()
    opened.goto(f"http://127.0.0.1:{port}")
    opened.get_by_role("button", name="Generate").wait_for(timeout=30_000)
    opened.wait_for_timeout(1000)
    opened.get_by_role("button", name="Generate").click()
    expect(status(opened)).to_have_value(re.compile("Segment 2 of 4"), timeout=RENDER_MS)
    server.send_signal(signal.SIGTERM)
    assert server.wait(5) is not None
    server = start(folder, port)
    opened.reload()
    expect(status(opened)).to_have_value(
        re.compile("Done. [0-3] of 4 segments new"), timeout=RENDER_MS
    )
    opened.close()
    server.send_signal(signal.SIGTERM)
    assert server.wait(5) is not None

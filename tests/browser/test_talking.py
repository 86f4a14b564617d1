"""The page with a model that hears a voice: the voice decides how long a video gets."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from studio import actions
from studio.engine import Engine
from studio.library import Library
from tests.browser.conftest import OpenPage, Server, tile, tiles
from tests.fixtures.voices import hum, write_wav
from tests.studio.conftest import ROOT

FACE = ROOT / "assets" / "talking" / "face.png"


@pytest.fixture
def page(server: Server, open_page: OpenPage, tmp_path) -> Page:
    """A session with a take of two segments, 33 and 7 frames, in a browser that may be refused."""
    voice = write_wav(tmp_path / "voice.wav", hum(40 / 25))
    given = {"prompt": "a face speaks", "image": FACE, "audio": voice, "steps": 1}
    with Library(server.library) as library:
        actions.generate(library, Engine(), "talking", given, [1], "talk")
    opened = open_page(server.address, away=True)
    opened.evaluate("sessionStorage.setItem('retake.session', 'talk')")
    opened.reload()
    expect(tiles(opened)).to_have_count(2, timeout=30_000)
    return opened


def main(page: Page):
    return page.locator("#timeline .bar-main")


def test_the_page_goes_by_the_length_of_the_voice(page: Page, server: Server, tmp_path: Path):
    rail = page.locator("#recipe")
    expect(rail.get_by_label("Segments", exact=True)).to_have_attribute("placeholder", "all")
    expect(rail).to_contain_text("As many as the voice takes")
    expect(rail.locator(".recipe-length")).to_have_text("")

    page.get_by_role("button", name="Add segments").click()
    told = page.locator("#timeline .bar-told")
    expect(told).to_contain_text("The voice ends with segment 2: there is nothing to add after it.")

    tile(page, 1).click()
    expect(main(page)).to_contain_text("Retake 1–2")
    longer = write_wav(tmp_path / "longer.wav", hum(100 / 25))
    rail.get_by_label("Voice", exact=True).set_input_files(longer)
    # 33 + 24 + 24 + 19 frames
    expect(main(page)).to_contain_text("Retake 1–4", timeout=30_000)

    # What is made has tiles of its own lengths, whatever the take has that it is made from.
    busy = {"prompt": "a boat", "segments": 50, "steps": 100}
    body = {"kind": "generate", "model": "starter", "recipe": busy, "session": "other"}
    httpx.post(f"{server.address}/api/orders", json=body).raise_for_status()
    main(page).click()
    made = page.locator("#timeline [data-other-index]")
    expect(made).to_have_count(4, timeout=30_000)
    assert made.evaluate_all("all => all.map((one) => one.style.flexGrow)") == [
        "33", "24", "24", "19",
    ]  # fmt: skip

"""Other ways to work: by keyboard only, on a phone, with text that looks like markup; and axe."""

from __future__ import annotations

import importlib.resources
import json
import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, RENDER_MS, main_button, retake_button, tile, tiles
from tests.browser.test_story import few_steps, wait_for_takes

NASTY = "<img src=x onerror=\"window.ran=1\"> ${window.ran=2} {{7*7}} 🚤 ‮drawkcab‬ 'quoted' \\u0041"


def test_all_of_it_by_keyboard(server, open_page):
    page = open_page(server.address)
    few_steps(page, 4)
    page.get_by_label("Prompt", exact=True).focus()
    page.keyboard.press("Control+Enter")
    wait_for_takes(page, 1)
    page.locator("body").click(position={"x": 720, "y": 5})
    page.keyboard.press("3")
    expect(retake_button(page)).to_have_text(re.compile("^Retake 3–4"))
    page.keyboard.press("ArrowRight")
    expect(retake_button(page)).to_have_text(re.compile("^Retake 4, keep 1–3"))
    page.keyboard.press("Home")
    expect(retake_button(page)).to_have_text(re.compile("^Retake 1–4"))
    page.keyboard.press("End")
    page.keyboard.press("r")
    wait_for_takes(page, 2)
    expect(page.locator("#stage video")).to_have_count(2)
    page.keyboard.press("*")
    expect(page.locator("#takes .is-shown .card-stars").last).to_have_text("★★★★★")
    page.keyboard.press("?")
    sheet = page.get_by_role("dialog")
    expect(sheet).to_contain_text("Ctrl")
    page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)


def test_text_that_looks_like_markup_is_shown_as_typed_and_runs_nowhere(server, open_page):
    page = open_page(server.address)
    few_steps(page, 4)
    page.get_by_label("Prompt", exact=True).fill(NASTY)
    main_button(page).click()
    wait_for_takes(page, 1)
    page.locator("#takes .card-face").first.click()
    page.get_by_label("Note").fill(NASTY)
    page.get_by_label("Note").blur()
    expect(page.locator("#takes .card-facts")).to_contain_text(NASTY)
    page.get_by_role("button", name="History").click()
    expect(page.get_by_role("dialog")).to_contain_text(NASTY)
    page.keyboard.press("Escape")
    page.reload()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(NASTY)
    assert page.evaluate("window.ran") is None


def test_a_phone_shows_all_of_it_without_sideways_scroll(server, open_page):
    page = open_page(server.address, PHONE, has_touch=True)
    few_steps(page, 4)
    main_button(page).click()
    wait_for_takes(page, 1)
    tile(page, 3).click()
    retake_button(page).click()
    wait_for_takes(page, 2)
    for name in ("History", "Models", "Keys"):
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert_fits(page)
        page.keyboard.press("Escape")
    assert_fits(page)


def assert_fits(page: Page) -> None:
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= page.viewport_size["width"]


def test_axe_finds_no_serious_fault_in_light_and_dark(server, open_page):
    page = open_page(server.address)
    page.add_style_tag(content="* { transition: none !important; animation: none !important }")
    assert_accessible(page)
    few_steps(page, 4)
    main_button(page).click()
    expect(tiles(page)).to_have_count(4, timeout=RENDER_MS)
    assert_accessible(page)
    wait_for_takes(page, 1)
    tile(page, 2).click()
    retake_button(page).click()
    wait_for_takes(page, 2)
    assert_accessible(page)
    for name in ("History", "Models", "Keys"):
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        page.wait_for_timeout(500)
        assert_accessible(page)
        page.keyboard.press("Escape")


def assert_accessible(page: Page) -> None:
    source = importlib.resources.files("axe_playwright_python") / "axe.min.js"
    page.evaluate(source.read_text(encoding="utf-8"))
    # Dark differs in its colours and in nothing else.
    for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", scheme == "dark")
        found = page.evaluate(
            "(rules) => axe.run(document, {resultTypes: ['violations'], ...rules})", rules
        )
        assert_not_serious(found, scheme)


def assert_not_serious(found: dict, scheme: str) -> None:
    serious = [
        (scheme, fault["id"], node["html"][:200], node.get("failureSummary", "")[:300])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
        for node in fault["nodes"]
    ]
    assert not serious, json.dumps(serious, indent=1)

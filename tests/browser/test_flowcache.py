"""FlowCache on the page: what was skipped of a segment, and its settings in the recipe rail."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from studio import actions, flowcache
from studio.engine import Engine
from studio.library import Library
from studio.take import Take
from tests.browser.conftest import PHONE, OpenPage, Server, tile

PROMPT = "a red boat drifting left over the sea at sunset"
FLOW = {
    "flowcache": "flow",
    "flowcache_threshold": 0.2,
    "flowcache_warmup": 1,
    "ar_step": 2,
    "steps": 6,
    "segments": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("flowcache") / "library"


@pytest.fixture(scope="module")
def takes(folder: Path) -> tuple[Take, Take, dict]:
    """A take in mode `flow`, one that goes on without FlowCache from its second segment, and what
    was recorded of the first segment."""
    with Library(folder) as library:
        engine = Engine()
        first = actions.generate(library, engine, "starter", {"prompt": PROMPT, **FLOW}, [7]).take
        off = {"flowcache": "off"}
        second = actions.retake(library, engine, first.id, 1, [8], off).take
        return first, second, flowcache.told(library, first)[0]


@pytest.fixture(scope="module")
def studio(takes, folder: Path, nursery) -> Iterator[Server]:
    made = Server(folder, nursery)
    yield made
    made.stop()


def card(page: Page, seed: int) -> Locator:
    return page.locator("#takes .card-face", has_text=f"seed {seed}")


def skip_map(page: Page, number: int) -> Locator:
    return page.get_by_role("figure", name=f"Skip map of segment {number}")


def group(page: Page) -> Locator:
    """The FlowCache group of the rail."""
    return page.locator("#recipe .recipe-flow")


def shows(page: Page, *names: str) -> None:
    """Checks which fields the group has."""
    fields = group(page).locator("[data-field]")
    expect(fields).to_have_count(len(names))
    assert fields.evaluate_all("all => all.map((one) => one.dataset.field)") == list(names)


def test_the_chosen_segment_shows_what_was_skipped_of_it(studio, takes, open_page: OpenPage):
    _, _, told = takes
    page = open_page(studio.address)
    expect(card(page, 7)).to_contain_text("flow 0.2")
    expect(card(page, 8)).not_to_contain_text("flow")
    tile(page, 1).click()
    shown = skip_map(page, 1)
    fewer = told["plain_passes"] / told["passes"]
    words = f"{told['passes']} of {told['plain_passes']} chunk passes computed, {fewer:.1f}× fewer"
    expect(shown).to_contain_text(words)
    expect(shown).to_contain_text("flow 0.2")
    expect(shown).to_contain_text("not exact")
    expect(shown.get_by_role("listitem")).to_have_count(told["chunks"])
    drawn = shown.locator("svg path").evaluate_all(
        "all => all.map((one) => one.getAttribute('d').split('M').length - 1)"
    )
    cells = list(zip(chain(*told["computed"]), chain(*told["moved"]), strict=True))
    kinds = [cells.count(kind) for kind in ((1, 1), (0, 1), (1, 0))]
    assert kinds[1] > 0 and drawn == [count for count in kinds if count]
    # The other take was made without FlowCache from segment 2 on.
    card(page, 8).click()
    page.locator('#timeline [data-other-index="1"] .tile-face').click()
    expect(page.get_by_role("figure")).to_have_count(0)


@pytest.mark.thorough
def test_the_settings_are_a_group_of_their_own_and_say_what_to_expect(studio, open_page: OpenPage):
    page = open_page(studio.address)
    expect(group(page).locator("summary")).to_contain_text("FlowCache")
    expect(group(page).get_by_label("Mode", exact=True)).to_be_hidden()
    group(page).locator("summary").click()
    mode = group(page).get_by_label("Mode", exact=True)
    assert mode.locator("option").all_text_contents() == ["off", "exact", "flow", "teacache"]
    mode.select_option("off")
    expect(group(page).locator("summary")).to_contain_text("off")
    shows(page, "flowcache")
    mode.select_option("exact")
    shows(page, "flowcache", "flowcache_attention", "kv_budget")
    promise = group(page).locator(".recipe-flow-promise")
    expect(promise).to_have_text("Exact: the same video for less work.", timeout=10_000)
    group(page).get_by_label("Chunks in view", exact=True).fill("1")
    expect(promise).to_contain_text("Not exact", timeout=10_000)
    group(page).get_by_role("button", name="fast").click()
    expect(mode).to_have_value("flow")
    expect(group(page).get_by_label("Threshold", exact=True)).to_have_value("0.15")
    expect(group(page).get_by_label("Warm-up", exact=True)).to_have_value("5")
    expect(group(page).get_by_role("button", name="fast")).to_have_attribute("aria-pressed", "true")
    expect(group(page).locator("summary")).to_contain_text("flow 0.15")
    expect(promise).to_contain_text("Not exact", timeout=10_000)
    expect(group(page).locator("[data-field]")).to_have_count(5)


@pytest.mark.thorough
def test_a_fault_in_the_group_is_told_while_it_is_folded(studio, open_page: OpenPage):
    page = open_page(studio.address)
    group(page).locator("summary").click()
    group(page).get_by_label("Mode", exact=True).select_option("flow")
    group(page).get_by_label("Threshold", exact=True).fill("11")
    group(page).locator("summary").click()
    expect(group(page).locator("summary")).to_contain_text("1 to put right")
    group(page).locator("summary").click()
    # What the mode does not look at is not in the way.
    group(page).get_by_label("Mode", exact=True).select_option("exact")
    expect(page.locator("#recipe-estimate")).not_to_contain_text("put right")


@pytest.mark.thorough
def test_map_and_settings_fit_a_phone(studio, open_page: OpenPage):
    page = open_page(studio.address, size=PHONE)
    tile(page, 1).click()
    expect(skip_map(page, 1)).to_be_visible()
    group(page).locator("summary").click()
    group(page).get_by_label("Mode", exact=True).select_option("flow")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]

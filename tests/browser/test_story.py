"""What a person does here, from end to end: make, retake, compare, accept, undo, mark, export."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import RENDER_MS, main_button, retake_button, tile, tiles

FINISHED_POSTER = '[data-index="0"] img.tile-poster:not(.is-preview)'


def few_steps(page: Page, steps: int = 6) -> None:
    """The fewest clicks to a short render."""
    page.get_by_text("More settings").click()
    page.get_by_label("Steps").fill(str(steps))
    page.get_by_text("More settings").click()


def wait_for_takes(page: Page, count: int) -> None:
    expect(page.locator("#takes .card")).to_have_count(count, timeout=RENDER_MS)


def test_the_whole_story(server, open_page):
    page = open_page(server.address)
    expect(page.get_by_label("Prompt", exact=True)).not_to_have_value("")
    few_steps(page, 40)

    # Segment 1 appears with its poster while 2 is being made.
    main_button(page).click()
    expect(tiles(page)).to_have_count(4, timeout=RENDER_MS)
    expect(page.locator(FINISHED_POSTER)).to_be_visible(timeout=RENDER_MS)
    expect(page.locator('[data-index="1"]')).to_have_class(re.compile("kind-rendering"))
    expect(page.locator("#jobs")).to_contain_text(re.compile(r"segment \d of 4"))
    assert re.match(r"\d+ % · Retake", page.title())
    # What is there already plays.
    expect(page.locator("#stage video").first).to_be_visible(timeout=RENDER_MS)
    wait_for_takes(page, 1)

    # A click says what a retake would do.
    tile(page, 3).click()
    button = retake_button(page)
    expect(button).to_have_text(re.compile(r"^Retake 3–4, keep 1–2, about \d+ s$"), timeout=10_000)
    expect(page.locator('[data-index="1"]')).to_have_class(re.compile("kind-kept"))
    expect(page.locator('[data-index="2"]')).to_have_class(re.compile("kind-dim"))
    seed = page.get_by_label("Seed of the new segments")
    before = seed.input_value()
    page.get_by_role("button", name="Draw another seed").click()
    assert seed.input_value() != before
    seed.fill("4242")
    button.click()

    # The old take stays until the new one is there; then both, at the point where they part.
    expect(page.locator("#stage video")).to_have_count(1)
    expect(page.locator("#timeline [data-other-index]")).to_have_count(4, timeout=30_000)
    wait_for_takes(page, 2)
    expect(page.locator("#stage video")).to_have_count(2)
    expect(page.locator("#stage")).to_contain_text("4242")
    page.wait_for_function(
        "[...document.querySelectorAll('#stage video')].every(v => v.currentTime >= 4.7)"
    )

    # Accept, undo, accept again: at once.
    old, new = page.locator("#timeline .tile-seed").all_inner_texts()[2], "4242"
    page.get_by_role("button", name="Accept").first.click()
    expect(page.locator('[data-index="2"] .tile-seed')).to_have_text(new)
    page.keyboard.press("Control+z")
    expect(page.locator('[data-index="2"] .tile-seed')).to_have_text(old)
    card = page.locator("#takes .card", has_text="4242")
    card.locator(".card-face").click()
    card.get_by_role("button", name="Accept").click()
    expect(page.locator('[data-index="2"] .tile-seed')).to_have_text(new)

    # Stars, a note, a file.
    card = page.locator("#takes .card", has_text="4242")
    card.get_by_role("button", name="4 of 5 stars").click()
    expect(card.locator(".card-stars")).to_have_text("★★★★")
    note = "better <b>sail</b> ${1+1}"
    card.get_by_label("Note").fill(note)
    card.get_by_label("Note").blur()
    expect(card.locator(".card-facts")).to_contain_text(note)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=re.compile("mp4", re.I)).first.click()
    assert download.value.suggested_filename.endswith(".mp4")

    # The tab is closed in the middle of the next run; the run goes on, and the draft is as it was.
    page.get_by_label("Prompt", exact=True).fill("a blue kite drifting right over hills at noon")
    page.wait_for_timeout(1500)
    tile(page, 4).click()
    retake_button(page).click()
    expect(page.locator("#jobs")).to_contain_text("segment 4", timeout=30_000)
    context = page.context
    page.close()
    again = open_page.watch(context.new_page(), server.address)
    expect(again.get_by_label("Prompt", exact=True)).to_have_value(
        "a blue kite drifting right over hills at noon"
    )
    wait_for_takes(again, 3)

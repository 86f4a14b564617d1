"""Reload, a second tab, a restart of the server, cancel: nothing is lost."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

from playwright.sync_api import Route, expect

from tests.browser.conftest import RENDER_MS, main_button, tile, tiles
from tests.browser.test_stage import STORE
from tests.browser.test_story import few_steps, wait_for_takes

LONG = 40
"""Steps of a render that has a middle for a browser that shares its cores."""


def test_a_reload_and_a_second_tab_find_the_job_the_take_and_the_draft(server, open_page):
    first = open_page(server.address)
    few_steps(first, LONG)
    main_button(first).click()
    expect(first.locator("#jobs")).to_contain_text("segment", timeout=RENDER_MS)
    second = open_page.watch(first.context.new_page(), server.address)
    expect(second.locator("#jobs")).to_contain_text("segment", timeout=15_000)
    expect(second.locator("#jobs")).to_contain_text(
        re.compile("segment [23] of 4"), timeout=RENDER_MS
    )
    first.reload()
    expect(first.locator("#jobs")).to_contain_text(re.compile("segment [234] of 4"), timeout=15_000)
    expect(tiles(first)).to_have_count(4)
    wait_for_takes(first, 1)
    wait_for_takes(second, 1)
    words = "a purple bird flying left over the desert at night"
    first.get_by_label("Prompt", exact=True).fill(words)
    expect(second.get_by_label("Prompt", exact=True)).to_have_value(words, timeout=10_000)
    second.locator("#takes .card-face").first.click()
    second.get_by_role("button", name="3 of 5 stars").click()
    expect(first.locator("#takes .card-stars").first).to_have_text("★★★", timeout=10_000)


def test_a_killed_server_goes_on_with_the_interrupted_job_first(server, open_page):
    page = open_page(server.address, away=True)
    few_steps(page, LONG)
    main_button(page).click()
    expect(page.locator("#jobs")).to_contain_text("segment", timeout=RENDER_MS)
    few_steps(page, 1)
    main_button(page).click()
    middle = re.compile("segment [23] of 4.*1 waiting", re.DOTALL)
    expect(page.locator("#jobs")).to_contain_text(middle, timeout=RENDER_MS)
    server.stop(signal.SIGKILL)
    expect(page.locator("#jobs")).to_contain_text("does not answer", timeout=10_000)
    server.start()
    expect(page.locator("#jobs")).to_contain_text("1 waiting", timeout=30_000)
    # Its finished segments come from disk.
    expect(page.locator("#jobs")).to_contain_text(re.compile("segment [234] of 4"), timeout=30_000)
    wait_for_takes(page, 2)


def test_an_answer_that_is_cut_off_or_no_studio_s_stops_the_page_for_a_moment_only(
    server, open_page
):
    def answering(text: str) -> Callable[[Route], None]:
        return lambda route: route.fulfill(body=text)

    page = open_page(server.address)
    for answer in ('{"rev": "1", "jobs": [', "{}"):
        page.route("**/api/state*", answering(answer))
        expect(page.locator("#jobs")).to_contain_text("does not answer", timeout=10_000)
        page.unroute("**/api/state*")
        expect(page.locator("#jobs")).not_to_contain_text("does not answer", timeout=10_000)


def test_who_waits_for_the_session_has_it_even_if_it_is_asked_for_again_meanwhile(
    server, open_page
):
    page = open_page(server.address)
    there = page.evaluate(f"""async () => {{
      const {{ store, readSession }} = await import({STORE});
      const real = window.fetch;
      let asked = 0;
      window.fetch = async (address, options) => {{
        const late = String(address).startsWith("/api/session?") && (asked += 1) === 2;
        if (late) await new Promise((resolve) => setTimeout(resolve, 700));
        return real(address, options);
      }};
      store.session = null;
      const first = readSession();
      readSession();
      await first;
      return asked === 2 && store.session !== null;
    }}""")
    assert there


def test_a_job_that_was_cancelled_keeps_its_segments_and_can_go_on(server, open_page):
    page = open_page(server.address)
    few_steps(page, 12)
    main_button(page).click()
    expect(page.locator("#jobs")).to_contain_text("segment 2 of 4", timeout=RENDER_MS)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#stage")).to_contain_text("Cancelled", timeout=10_000)
    expect(page.locator("#takes .card")).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    wait_for_takes(page, 1)
    assert page.locator("#stage").get_by_text("Cancelled").count() == 0


def test_the_queue_can_be_reordered_and_emptied(server, open_page):
    page = open_page(server.address)
    few_steps(page, 80)
    for seed in ("11", "22", "33"):
        page.get_by_label("Seed", exact=True).fill(seed)
        main_button(page).click()
        page.wait_for_timeout(300)
    waiting = page.get_by_role("button", name="2 waiting")
    waiting.click()
    queue = page.get_by_role("list", name="Queue")
    expect(queue.locator("li")).to_have_count(2)
    expect(queue.locator("li").first).to_contain_text("22")
    queue.locator("li").nth(1).get_by_role("button", name="Earlier").click()
    expect(queue.locator("li").first).to_contain_text("33")
    queue.locator("li").first.get_by_role("button", name="Take out").click()
    expect(page.get_by_role("button", name="1 waiting")).to_be_visible()
    queue.locator("li").first.get_by_role("button", name="Take out").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0, timeout=20_000)


def test_a_retake_from_a_locked_segment_is_refused_until_it_is_unlocked(server, open_page):
    page = open_page(server.address)
    few_steps(page, 4)
    main_button(page).click()
    wait_for_takes(page, 1)
    tile(page, 2).click()
    page.get_by_role("button", name="Lock segment 2").click()
    tile(page, 1).click()
    expect(page.locator("#timeline")).to_contain_text("Segments 1–2 are locked")
    expect(page.get_by_role("button", name="Retake")).to_be_disabled()
    page.reload()
    tile(page, 2).click()
    page.get_by_role("button", name="Unlock segment 2").click()
    expect(page.get_by_role("button", name="Retake")).to_be_enabled()

"""What opens over the page: history, models, keys; and files that are dropped on it."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from studio import actions
from studio.database import Database
from studio.engine import Engine
from studio.library import Library
from studio.take import Take
from tests.browser.conftest import PHONE, Server
from tests.fixtures.fake_hub import serve
from tests.studio.conftest import ROOT
from tests.studio.histories import fill
from tests.studio.test_download import REPO, checkpoint  # noqa: F401

MARKUP = '<img src=x onerror="document.title=1"> ${1+1} {{7*7}} 🪁 </script> שלום'
MARKED = "<b onclick=x>mine ${1+1} 🪁"
PLAIN = "a red boat drifting left over the sea at sunset"


@pytest.fixture(scope="module")
def served(tmp_path_factory, nursery) -> Iterator[tuple[Server, list[Take]]]:
    """A studio with three takes in two sessions."""
    folder = tmp_path_factory.mktemp("drawers") / "library"
    engine, takes = Engine(), []
    with Library(folder) as library:
        for prompt, seed, session in (
            (PLAIN, 1, "boats"),
            (PLAIN, 2, "boats"),
            (MARKUP, 3, MARKUP),
        ):
            recipe = {"prompt": prompt, "segments": 1, "steps": 1}
            takes.append(actions.generate(library, engine, "starter", recipe, [seed], session).take)
        library.history.note(takes[0].id, "keep the <b>sail</b>")
        library.history.rate(takes[0].id, 4)
    server = Server(folder, nursery)
    yield server, takes
    server.stop()


@pytest.fixture
def page(served, open_page) -> Page:
    return open_page(served[0].address)


def open_drawer(page: Page, name: str):
    page.get_by_role("button", name=name, exact=True).click()
    drawer = page.get_by_role("dialog", name=name)
    expect(drawer).to_be_visible()
    return drawer


def cards(page: Page):
    return page.locator(".history-card")


def card(page: Page, take: Take):
    return page.locator(f'.history-card[data-take="{take.id}"]')


@pytest.mark.thorough
def test_a_drawer_takes_the_focus_and_gives_it_back(page):
    way = page.get_by_role("button", name="History", exact=True)
    way.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Search prompts and notes")).to_be_focused()
    for _ in range(30):
        page.keyboard.press("Tab")
    inside = (
        "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
    )
    assert page.evaluate(inside)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(way).to_be_focused()


@pytest.mark.thorough
def test_the_history_is_searched_by_words_of_prompts_and_notes(page):
    drawer = open_drawer(page, "History")
    expect(drawer.get_by_role("status").first).to_have_text("3 takes")
    search = page.get_by_label("Search prompts and notes")
    for words, found in (("sunset boa", "2 takes"), ("sail", "1 take"), ("שלום", "1 take")):
        search.fill(words)
        expect(drawer.locator(".history-status")).to_have_text(found)
    search.fill("<b>nowhere</b> ${7*7}")
    expect(drawer).to_contain_text("Nothing found for “<b>nowhere</b> ${7*7}”.")
    drawer.get_by_role("button", name="Clear the filters").click()
    expect(drawer.locator(".history-status")).to_have_text("3 takes")


@pytest.mark.thorough
def test_the_history_is_narrowed_by_stars_model_day_and_session(page):
    drawer = open_drawer(page, "History")
    status = drawer.locator(".history-status")
    drawer.get_by_label("At least").select_option("4")
    expect(status).to_have_text("1 take")
    drawer.get_by_label("At least").select_option("5")
    expect(status).to_have_text("0 takes")
    expect(drawer).to_contain_text("Nothing fits these filters.")
    drawer.get_by_role("button", name="Clear the filters").click()
    drawer.get_by_label("Model").select_option("starter")
    expect(status).to_have_text("3 takes")
    today = page.evaluate("new Date().toLocaleDateString('sv')")
    drawer.get_by_label("From").fill(today)
    drawer.get_by_label("Until").fill(today)
    expect(status).to_have_text("3 takes")
    drawer.get_by_label("Until").fill("2020-01-01")
    expect(status).to_have_text("0 takes")
    drawer.get_by_role("button", name="Clear the filters").click()
    drawer.get_by_text("Only this session").click()
    expect(status).not_to_have_text("3 takes")
    drawer.get_by_role("button", name="Clear the filters").click()


@pytest.mark.thorough
def test_what_people_write_is_shown_as_it_was_written(page, served):
    drawer = open_drawer(page, "History")
    expect(card(page, served[1][2]).locator(".history-prompt")).to_have_text(MARKUP)
    expect(card(page, served[1][0]).locator(".history-note")).to_have_text("keep the <b>sail</b>")
    drawer.get_by_role("button", name="Sessions").click()
    expect(drawer.locator(".history-prompt", has_text=MARKUP)).to_be_visible()
    assert page.title() == "Retake"
    drawer.get_by_role("button", name="Takes", exact=True).click()


@pytest.mark.thorough
def test_a_take_of_another_session_is_opened(page, served):
    take = served[1][0]
    open_drawer(page, "History")
    card(page, take).get_by_role("button", name="Open this take").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#timeline [data-index]")).to_have_count(1)
    assert page.evaluate("sessionStorage.getItem('retake.session')") == "boats"
    open_drawer(page, "History").get_by_role("button", name="Sessions").click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_role("button", name="Open this session").first.click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    open_drawer(page, "History").get_by_role("button", name="Takes", exact=True).click()


def stars_of(page: Page, take: Take) -> int:
    return page.evaluate("id => fetch(`/api/takes/${id}`).then(r => r.json())", take.id)["stars"]


@pytest.mark.thorough
def test_stars_are_given_by_mouse_and_by_arrow_and_taken_back(page, served):
    take = served[1][1]
    open_drawer(page, "History")
    mine = card(page, take)

    def given(stars: int) -> None:
        expect(mine.locator(".history-star.on")).to_have_count(stars)
        page.wait_for_timeout(300)
        assert stars_of(page, take) == stars

    mine.locator(".history-star").nth(3).click()
    given(3)
    mine.locator(".history-star").nth(3).click()
    given(0)
    mine.get_by_role("radio", name="No stars").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    given(2)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    given(0)


def test_a_take_is_deleted_comes_back_and_is_gone_when_the_trash_is_emptied(page, served):
    server, takes = served
    take = takes[2]
    drawer = open_drawer(page, "History")
    status = drawer.locator(".history-status")
    card(page, take).get_by_role("button", name="Delete").click()
    expect(status).to_have_text("2 takes")
    expect(drawer).to_contain_text("1 take in the trash")
    drawer.get_by_role("button", name="Undo").click()
    expect(status).to_have_text("3 takes")
    expect(card(page, take)).to_be_visible()
    expect(drawer).to_contain_text("The trash is empty")
    card(page, take).get_by_role("button", name="Delete").click()
    drawer.get_by_role("button", name="Empty trash").click()
    expect(drawer).to_contain_text("1 take (")
    drawer.get_by_role("button", name="Keep").click()
    expect(drawer.get_by_role("button", name="Empty trash")).to_be_focused()
    page.keyboard.press("Enter")
    drawer.get_by_role("button", name="Delete for good").click()
    expect(drawer).to_contain_text("The trash is empty")
    assert not (server.library / "takes" / take.id).exists()
    assert not (server.library / "trash" / take.id).exists()


def test_ten_thousand_takes_stay_quick_and_the_page_small(server, open_page, capsys):
    page = open_page(server.address, away=True)
    database = Database(server.library / "history.sqlite")
    fill(database)
    for (segment,) in database.rows("SELECT segment FROM take_segments WHERE position = 0"):
        folder = server.library / "segments" / segment
        folder.mkdir(parents=True)
        (folder / "poster.webp").write_bytes(POSTER)
    database.close()
    begun = time.perf_counter()
    drawer = open_drawer(page, "History")
    expect(cards(page).first).to_be_visible()
    opened = time.perf_counter() - begun
    expect(drawer.locator(".history-status")).to_have_text("10,000 takes")
    found = page.evaluate(TIMED_SEARCH, "boat lantern")
    with capsys.disabled():
        print(f"\n10,000 takes: opens in {opened:.2f} s, search shows in {found / 1000:.2f} s")
    page.get_by_label("Search prompts and notes").fill("")
    expect(drawer.locator(".history-status")).to_have_text("10,000 takes")
    for _ in range(12):
        page.evaluate("document.querySelector('.history-scroller').scrollTop = 1e9")
        page.wait_for_timeout(250)
    pages = page.locator(".history-page[role=presentation]").count()
    assert pages > 4 and cards(page).count() <= 60 * 4
    page.evaluate("document.querySelector('.history-scroller').scrollTop = 0")
    expect(cards(page).first.locator(".history-prompt")).to_contain_text("take10000")


TIMED_SEARCH = """words => new Promise(done => {
  const field = document.querySelector(".history-search");
  const status = document.querySelector(".history-status");
  const begun = performance.now();
  new MutationObserver((_, seen) => {
    seen.disconnect();
    requestAnimationFrame(() => done(performance.now() - begun));
  }).observe(status, { childList: true, characterData: true, subtree: true });
  field.value = words;
  field.dispatchEvent(new Event("input"));
})"""


POSTER = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")


@pytest.mark.thorough
def test_the_models_tell_what_they_can_do(page):
    drawer = open_drawer(page, "Models")
    starter = drawer.get_by_role("listitem").filter(has_text="Small storybook scenes")
    for words in ("video from words (T2V)", "96 × 64", "Apache-2.0", "in use", "on a CPU"):
        expect(starter).to_contain_text(words)
    link = starter.get_by_role("link")
    assert link.get_attribute("target") == "_blank" and "noopener" in link.get_attribute("rel")
    absent = drawer.get_by_role("listitem").filter(has_text="skyreels-v2-df-14b-720p")
    expect(absent).to_contain_text("not here")
    expect(absent.get_by_role("button", name="Download, about 81.0 GB")).to_be_visible()


def test_a_folder_is_added_used_and_forgotten(served, open_page, tiny, tmp_path):
    page = open_page(served[0].address, away=True)
    folder = shutil.copytree(tiny, tmp_path / MARKED)
    drawer = open_drawer(page, "Models")
    field = drawer.get_by_label("A folder on this machine")
    field.fill(str(tmp_path))
    field.press("Enter")
    expect(drawer).to_contain_text("model_index.json is missing")
    assert field.get_attribute("aria-invalid") == "true"
    field.fill(str(folder))
    drawer.get_by_role("button", name="Add folder").click()
    mine = drawer.get_by_role("listitem").filter(has_text=MARKED)
    expect(mine.locator(".model-name")).to_have_text(MARKED)
    mine.get_by_role("button", name="Use this model").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("Model").first).to_have_value(str(folder))
    drawer = open_drawer(page, "Models")
    expect(mine).to_contain_text("in use")
    starter = drawer.get_by_role("listitem").filter(has_text="Small storybook scenes")
    starter.get_by_role("button", name="Use this model").click()
    open_drawer(page, "Models")
    mine.get_by_role("button", name="Forget").click()
    expect(mine).to_have_count(0)
    assert folder.is_dir()


class HubServer(Server):
    """A studio that may use the network: its hub is on loopback."""

    def start(self) -> None:
        environment = {**os.environ, "HF_HUB_OFFLINE": "0"}
        words = [sys.executable, "app.py", "--port", str(self.port), "--library", str(self.library)]
        self.process = subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
        self.wait_until_up()

    def wait_until_up(self) -> None:
        import httpx

        for _ in range(1200):
            try:
                if httpx.get(f"{self.address}/api/health", timeout=2).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError("the server did not come up")


@pytest.mark.thorough
def test_a_download_is_offered_followed_cancelled_and_finished(
    open_page,
    checkpoint,  # noqa: F811
    tmp_path,
    nursery,
    monkeypatch,
):
    with serve() as hub:
        hub.folders[REPO] = checkpoint
        hub.seconds_a_piece = 2.0
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        server = HubServer(tmp_path / "library", nursery)
        try:
            page = open_page(server.address, away=True)
            drawer = open_drawer(page, "Models")
            field = drawer.get_by_label("By hub id")
            field.fill("nobody/nothing")
            field.press("Enter")
            expect(drawer).to_contain_text("There is no model nobody/nothing", timeout=30_000)
            field.fill(REPO)
            field.press("Enter")
            offer = drawer.locator(".models-adding .models-offer")
            expect(offer).to_contain_text("Licence: mit", timeout=30_000)
            expect(offer).to_contain_text("free on the disk")
            offer.get_by_role("button", name="Start the download").click()
            mine = drawer.get_by_role("listitem").filter(has_text=REPO)
            bar = mine.get_by_role("progressbar")
            expect(bar).to_be_visible(timeout=30_000)
            page.wait_for_function(PROGRESS, timeout=30_000)
            page.reload()
            open_drawer(page, "Models")
            expect(bar).to_be_visible()
            mine.get_by_role("button", name="Cancel").click()
            expect(mine).to_contain_text("The next try goes on from here")
            expect(mine).to_contain_text("partly here")
            hub.seconds_a_piece = 0.0
            mine.get_by_role("button", name="Go on with the download").click()
            expect(mine).to_contain_text("are still to come", timeout=30_000)
            mine.get_by_role("button", name="Start the download").click()
            expect(mine.get_by_role("button", name="Use this model")).to_be_visible(timeout=60_000)
            expect(mine).to_contain_text("here")
        finally:
            server.stop()


@pytest.mark.thorough
def test_a_hub_that_is_away_is_told_until_it_is_asked_again(server, open_page):
    page = open_page(server.address, away=True)
    drawer = open_drawer(page, "Models")
    card = drawer.get_by_role("listitem").filter(has_text="infinitetalk-14b-multi")
    get = card.get_by_role("button", name="Download")
    get.click()
    told = card.locator(".model-ended.models-fault")
    expect(told).to_contain_text("Downloads are turned off", timeout=30_000)
    page.wait_for_timeout(5000)  # Looks at downloads lie between.
    expect(told).to_contain_text("Downloads are turned off")
    expect(get).to_be_focused()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)


PROGRESS = (
    "+document.querySelector('.model-progress:not([hidden]) [role=progressbar]').ariaValueNow > 5"
)


@pytest.mark.thorough
def test_the_sheet_lists_the_keys(page):
    page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keys")
    for words in ("Play or pause", "Ctrl", "One frame back", "Undo the last accept"):
        expect(sheet).to_contain_text(words)
    page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)


DROP = """([data, name, type]) => {
  const bytes = Uint8Array.from(atob(data), letter => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, { type }));
  const at = document.querySelector("#stage");
  const fire = kind => at.dispatchEvent(
    new DragEvent(kind, { dataTransfer: transfer, bubbles: true, cancelable: true, composed: true })
  );
  fire("dragenter");
  window.veiled = document.querySelector(".drop-veil").matches(":popover-open");
  fire("dragover");
  fire("drop");
  return window.veiled && !document.querySelector(".drop-veil").matches(":popover-open");
}"""


def drop(page: Page, data: bytes, name: str, kind: str = "video/mp4") -> None:
    assert page.evaluate(DROP, [base64.b64encode(data).decode(), name, kind])


def test_a_dropped_result_opens_its_session(page, served):
    server, takes = served
    data = (server.library / "takes" / takes[0].id / "result.mp4").read_bytes()
    drop(page, data, "<i>clip</i>.mp4")
    expect(page.get_by_test_id("toast")).to_contain_text("Opened its session: boats")
    assert page.evaluate("sessionStorage.getItem('retake.session')") == "boats"


@pytest.mark.thorough
def test_a_result_of_another_library_fills_the_recipe(served, server, open_page):
    """From the button for files, with the keyboard alone."""
    made, takes = served
    page = open_page(server.address)
    open_drawer(page, "History")
    expect(page.get_by_role("dialog")).to_contain_text("There is no take yet.")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Open a result file").press("Enter")
    chooser.value.set_files(made.library / "takes" / takes[0].id / "result.mp4")
    expect(page.get_by_role("dialog")).to_have_count(0)
    toasts = page.get_by_test_id("toast")
    expect(toasts.filter(has_text="Back from result.mp4")).to_contain_text(
        "the recipe and its seed"
    )
    expect(page.get_by_label("Prompt", exact=True)).to_have_value(PLAIN)


@pytest.mark.thorough
def test_what_holds_no_recipe_is_told_in_words(page):
    drop(page, b"hello", "notes.txt", "text/plain")
    expect(page.get_by_test_id("toast")).to_contain_text("notes.txt is no result")


@pytest.mark.thorough
def test_a_picture_without_a_recipe_starts_a_video_or_is_refused(served, open_page, tiny):
    page = open_page(served[0].address, away=True)
    drop(page, PNG, "cat.png", "image/png")
    toast = page.get_by_test_id("toast")
    expect(toast).to_have_text(
        "cat.png holds no recipe of Retake, and Starter takes no picture.", use_inner_text=True
    )
    drawer = open_drawer(page, "Models")
    drawer.get_by_label("A folder on this machine").fill(str(tiny))
    drawer.get_by_role("button", name="Add folder").click()
    mine = drawer.get_by_role("listitem").filter(has_text=tiny.name)
    mine.get_by_role("button", name="Use this model").click()
    drop(page, PNG, "cat.png", "image/png")
    expect(page.get_by_role("form").locator("img")).to_be_visible()


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAAAAABWESUoAAAAGElEQVR42mNsYMAPmBhGFYwqGFUwQhUA"
    "AJe+AMD8WknZAAAAAElFTkSuQmCC"
)


@pytest.mark.parametrize("name", ["History", "Models", "Keys"])
@pytest.mark.thorough
def test_a_drawer_fits_a_phone(served, open_page, name):
    page = open_page(served[0].address, PHONE)
    drawer = open_drawer(page, name)
    assert drawer.bounding_box()["width"] == pytest.approx(PHONE[0], abs=0.01)
    for box in ("document.documentElement", "document.querySelector('.drawers-body')"):
        assert page.evaluate(f"{box}.scrollWidth") <= PHONE[0]

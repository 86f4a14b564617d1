"""The recipe rail in a browser: what is written there is kept, checked at its field, and made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PHONE, RENDER_MS, OpenPage, Server, main_button, tile
from tests.fixtures import tiny_qwen
from tests.fixtures.once import once

SAMPLE = "a red boat drifting left over the sea at sunset"
WILD = '<img src=x onerror="document.title=1"> ${1+1} {{7*7}} 🪁 שלום עולם </textarea>\n  two'


@pytest.fixture(scope="module")
def studio(tmp_path_factory, nursery) -> Iterator[Server]:
    """One studio for all tests here; each page that is opened is a browser of its own."""
    made = Server(tmp_path_factory.mktemp("recipe") / "library", nursery)
    yield made
    made.stop()


@pytest.fixture
def page(open_page: OpenPage, studio: Server) -> Page:
    """A page without a session."""
    opened = open_page(studio.address)
    begin(opened)
    return opened


@pytest.fixture
def refused(open_page: OpenPage, studio: Server) -> Page:
    """The same, where the studio is to refuse something: browsers log that as an error."""
    opened = open_page(studio.address, away=True)
    begin(opened)
    return opened


def reload(page: Page) -> None:
    page.reload()
    expect(main_button(page)).to_be_enabled(timeout=30_000)


def begin(page: Page) -> None:
    """Makes it a first visit, whatever sessions the studio has."""
    page.evaluate("sessionStorage.setItem('retake.session', ''); localStorage.clear()")
    reload(page)
    expect(rail(page).get_by_label("Session", exact=True)).to_have_value(re.compile("none$"))


def rail(page: Page) -> Locator:
    return page.locator("#recipe")


def field(page: Page, label: str) -> Locator:
    return rail(page).get_by_label(label, exact=True)


def more(page: Page) -> None:
    rail(page).get_by_text("More settings").click()


def quick(page: Page, segments: int = 2) -> None:
    """Settings that take a second or two."""
    field(page, "Segments").fill(str(segments))
    more(page)
    field(page, "Steps").fill("2")


def fault(page: Page, name: str) -> Locator:
    return rail(page).locator(f'[data-field="{name}"] .recipe-fault')


def saved(page: Page) -> None:
    """Waits until the draft is where it should be."""
    page.wait_for_timeout(900)


def session(page: Page) -> str:
    return field(page, "Session").input_value()


def ask(page: Page, script: str):
    """Evaluates `script` with the page's own `commands` and `store`."""
    return page.evaluate(
        """async (script) => {
          const at = document.querySelector('link[href*="/page/"]').href.replace(/[^/]*$/, "");
          const { commands } = await import(at + "commands.js");
          const { store } = await import(at + "store.js");
          return new Function("commands", "store", `return ${script}`)(commands, store);
        }""",
        script,
    )


def generate(page: Page, takes: int) -> None:
    """Presses the button and waits for so many takes in the session."""
    main_button(page).click()
    finished(page, takes)


def finished(page: Page, takes: int) -> None:
    done = f"store.session?.takes.length >= {takes} && store.state.jobs.length === 0"
    for _ in range(RENDER_MS // 200):
        if ask(page, done):
            return
        page.wait_for_timeout(200)
    raise AssertionError("it was not made")


def put_draft(studio: Server, name: str, prompt: str, **given) -> None:
    """Writes the draft of a session as another tab would."""
    draft = {"model": "starter", "recipe": {"prompt": prompt, "segments": 1, "steps": 2}, **given}
    asked = {"session": name, "draft": draft}
    httpx.put(f"{studio.address}/api/session/draft", json=asked).raise_for_status()


def draft_of(studio: Server, name: str) -> dict:
    told = httpx.get(f"{studio.address}/api/session", params={"name": name})
    return told.raise_for_status().json()["draft"]["recipe"]


def open_session(page: Page, name: str, prompt: str) -> None:
    page.evaluate(
        """async (name) => {
          const at = document.querySelector('link[href*="/page/"]').href.replace(/[^/]*$/, "");
          await (await import(at + "store.js")).openSession(name);
        }""",
        name,
    )
    expect(field(page, "Prompt")).to_have_value(prompt)


def hold(page: Page, pattern: str) -> list:
    """Requests of `pattern` wait in the list that is given back until they are continued."""
    held: list = []
    page.route(pattern, lambda route: held.append(route))
    return held


def wait_for(page: Page, held: list) -> None:
    for _ in range(100):
        if held:
            return
        page.wait_for_timeout(50)
    raise AssertionError("nothing was asked")


def test_a_first_visit_has_a_sample_prompt_and_one_button(server, open_page):
    page = open_page(server.address)
    expect(field(page, "Prompt")).to_have_value(SAMPLE)
    expect(field(page, "Model")).to_have_value("starter")
    expect(main_button(page)).to_have_text("Generate 4 segments")
    expect(rail(page)).to_contain_text("8.8 s")
    not_here = field(page, "Model").locator("option", has_text="not here").first
    assert not_here.is_disabled()


def test_one_press_on_a_sample_fills_prompt_picture_and_voices(server, open_page):
    page = open_page(server.address)
    field(page, "Model").select_option("talking")
    expect(field(page, "Prompt")).to_have_value("a person talks")
    field(page, "Prompt").fill("a person of mine")
    page.get_by_role("group", name="Samples").get_by_role("button", name="Two people").click()
    expect(field(page, "Prompt")).to_have_value("two people talk")
    for name in ("faces.png", "voice_left.wav", "voice_right.wav"):
        expect(rail(page)).to_contain_text(name)
    expect(main_button(page)).to_have_text("Generate 5 segments")
    page.get_by_role("button", name="Undo").click()
    expect(field(page, "Prompt")).to_have_value("a person of mine")
    expect(rail(page)).not_to_contain_text("faces.png")
    # A sample's prompt belongs to its model; what was written there comes back with it.
    field(page, "Model").select_option("starter")
    expect(field(page, "Prompt")).to_have_value("a person of mine")
    page.get_by_role("button", name="A balloon at dawn").click()
    field(page, "Model").select_option("talking")
    expect(field(page, "Prompt")).to_have_value("a person of mine")


@pytest.mark.thorough
def test_what_is_made_opens_its_session_and_is_known_to_be_there(page):
    quick(page)
    field(page, "Seed").fill("7")
    expect(main_button(page)).to_have_text("Generate 2 segments")
    generate(page, 1)
    assert session(page).startswith("a-red-boat")
    expect(field(page, "Seed")).to_have_value("7")
    expect(rail(page)).to_contain_text("Already made: comes back at once")
    assert ask(page, "store.session.takes[0].seeds") == [7, 7]


@pytest.mark.thorough
def test_unlocked_a_new_seed_is_drawn_and_shown(page):
    quick(page)
    generate(page, 1)
    seed = str(ask(page, "store.session.takes[0].seeds[0]"))
    expect(field(page, "Seed")).to_have_value("")
    expect(rail(page).locator('[data-field="seeds"]')).to_contain_text(f"Last: {seed}")
    rail(page).get_by_role("button", name="Use it again").click()
    expect(field(page, "Seed")).to_have_value(seed)
    rail(page).get_by_role("button", name="Keep the seed").click()
    expect(field(page, "Seed")).to_have_value("")
    rail(page).get_by_role("button", name="Draw a seed now").click()
    assert re.fullmatch(r"\d+", field(page, "Seed").input_value())


@pytest.mark.thorough
def test_ctrl_enter_in_the_prompt_orders_once(page):
    quick(page)
    with page.expect_response("**/api/orders") as answer:
        field(page, "Prompt").press("Control+Enter")
    assert len(answer.value.json()["jobs"]) == 1
    page.wait_for_timeout(300)
    assert field(page, "Prompt").input_value() == SAMPLE
    assert ask(page, "store.state.jobs.concat(store.state.ended)")[0]["prompt"] == SAMPLE


@pytest.mark.thorough
def test_several_takes_at_once_are_looked_at_together(page):
    field(page, "Segments").fill("1")
    rail(page).get_by_role("radio", name="2 takes").check(force=True)
    expect(main_button(page)).to_have_text("Generate 2 takes of 1 segment")
    with page.expect_response("**/api/orders") as answer:
        main_button(page).click()
    jobs = answer.value.json()["jobs"]
    assert len(jobs) == 2
    page.wait_for_timeout(100)
    assert ask(page, "store.batches.at(-1).jobs") == jobs
    finished(page, 2)
    seeds = {take["seeds"][0] for take in ask(page, "store.session.takes")}
    assert len(seeds) == 2


@pytest.mark.thorough
def test_a_number_typed_badly_is_told_at_its_field_and_not_lost(page):
    more(page)
    field(page, "Steps").fill("lots")
    expect(fault(page, "steps")).to_have_text("Use a whole number. 1–1000.")
    expect(field(page, "Steps")).to_have_attribute("aria-invalid", "true")
    told = field(page, "Steps").get_attribute("aria-describedby")
    assert "recipe-steps-fault" in told.split()
    expect(rail(page)).to_contain_text("To be put right first: Steps")
    more(page)
    main_button(page).click()
    expect(field(page, "Steps")).to_be_focused()
    expect(field(page, "Steps")).to_have_value("lots")
    field(page, "Steps").fill("2,5")
    expect(fault(page, "steps")).to_have_text("Use a whole number. 1–1000.")
    field(page, "Steps").fill("")
    expect(fault(page, "steps")).to_be_empty()
    field(page, "Prompt").click()
    expect(field(page, "Steps")).to_have_value("20")
    assert ask(page, "store.state.jobs.length") == 0


@pytest.mark.thorough
def test_what_the_model_refuses_is_told_at_its_field_with_what_would_do(refused):
    page = refused
    more(page)
    field(page, "Frames of a segment").fill("34")
    expect(fault(page, "frames")).to_contain_text("the nearest: 33 and")
    field(page, "Frames of a segment").fill("33")
    expect(fault(page, "frames")).to_be_empty()
    field(page, "Size").select_option("other")
    field(page, "Width").fill("100")
    expect(fault(page, "width")).to_contain_text("the nearest: 96 and 112")
    field(page, "Seed").fill("1, 2, 3")
    field(page, "Width").fill("96")
    expect(fault(page, "seeds")).to_contain_text("Give one for all new segments, or 4")
    field(page, "Prompt").fill("  ")
    expect(fault(page, "prompt")).to_have_text("It is empty: say what to show.")


@pytest.mark.thorough
def test_a_field_and_all_of_them_go_back_to_the_defaults_of_the_model(page):
    more(page)
    back = rail(page).get_by_role("button", name="Back to the model's default, 20")
    expect(back).to_be_hidden()
    field(page, "Steps").fill("5")
    field(page, "Guidance").fill("4,5")
    expect(field(page, "Guidance")).to_have_value("4,5")
    assert ask(page, "commands.draftRecipe().recipe.guidance_scale") == 4.5
    field(page, "Shift").fill("")
    field(page, "Shift").press_sequentially("3.05", delay=60)
    assert ask(page, "commands.draftRecipe().recipe.shift") == 3.05
    back.click()
    expect(field(page, "Steps")).to_have_value("20")
    rail(page).get_by_role("button", name="Back to the model's defaults").click()
    expect(field(page, "Guidance")).to_have_value("3")
    expect(field(page, "Prompt")).to_have_value(SAMPLE)
    page.get_by_test_id("toast").get_by_role("button", name="Undo").last.click()
    expect(field(page, "Guidance")).to_have_value("4.5")


@pytest.mark.thorough
def test_a_prompt_is_shown_as_typed_and_runs_nowhere(page):
    field(page, "Prompt").fill(WILD)
    saved(page)
    reload(page)
    expect(field(page, "Prompt")).to_have_value(WILD)
    assert page.title() == "Retake"
    long = "🪁" * 20_001
    field(page, "Prompt").fill(long)
    expect(fault(page, "prompt")).to_contain_text("It has 20,001 characters; the most is 20,000.")
    field(page, "Prompt").fill(long[1:])
    expect(fault(page, "prompt")).to_be_empty()
    saved(page)
    reload(page)
    assert field(page, "Prompt").input_value() == long[1:], "the long prompt is another one"


@pytest.mark.thorough
def test_a_draft_without_a_session_survives_a_reload(page):
    field(page, "Prompt").fill("a blue kite")
    field(page, "Segments").fill("3")
    reload(page)
    expect(field(page, "Prompt")).to_have_value("a blue kite")
    expect(main_button(page)).to_have_text("Generate 3 segments")


@pytest.mark.thorough
def test_a_draft_survives_a_restart_and_is_shown_in_a_second_tab(server, open_page):
    page = open_page(server.address, away=True)
    quick(page, segments=1)
    generate(page, 1)
    name = session(page)
    field(page, "Prompt").fill("a green balloon")
    saved(page)
    other = page.context.new_page()
    other.goto(server.address)
    expect(field(other, "Prompt")).to_have_value("a green balloon", timeout=30_000)
    field(other, "Prompt").fill("a white bird")
    expect(field(page, "Prompt")).to_have_value("a white bird", timeout=10_000)
    other.close()
    server.stop()
    field(page, "Prompt").fill("a bird that nobody saved")
    page.wait_for_timeout(700)
    server.start()
    expect(field(page, "Prompt")).to_have_value("a bird that nobody saved", timeout=30_000)
    page.wait_for_timeout(4000)
    told = httpx.get(f"{server.address}/api/session", params={"name": name}).json()
    assert told["draft"]["recipe"]["prompt"] == "a bird that nobody saved"
    reload(page)
    expect(field(page, "Prompt")).to_have_value("a bird that nobody saved", timeout=30_000)


@pytest.mark.thorough
def test_what_was_typed_just_before_a_reload_is_there_after_it(page):
    quick(page, segments=1)
    generate(page, 1)
    field(page, "Prompt").fill("typed and gone")
    reload(page)
    expect(field(page, "Prompt")).to_have_value("typed and gone", timeout=30_000)


@pytest.mark.thorough
def test_a_new_session_keeps_the_recipe(page):
    quick(page, segments=1)
    generate(page, 1)
    first = session(page)
    field(page, "Prompt").fill("a yellow kite over green hills")
    rail(page).get_by_role("button", name="New session").click()
    expect(field(page, "Prompt")).to_have_value("a yellow kite over green hills")
    generate(page, 1)
    assert session(page).startswith("a-yellow-kite")
    field(page, "Session").select_option(first)
    expect(field(page, "Prompt")).to_have_value("a yellow kite over green hills")


@pytest.mark.thorough
def test_presets_are_saved_loaded_overwritten_and_deleted_with_undo(page):
    name = "<i>slow</i> & 🪁/ü"
    toggle = rail(page).get_by_role("button", name="Presets")
    toggle.click()
    entry = rail(page).locator(".recipe-preset", has_text=name)
    write = field(page, "Name of the preset")
    save = rail(page).locator(".recipe-preset-save")
    expect(save).to_be_disabled()
    field(page, "Segments").fill("2")
    write.fill(name)
    save.click()
    expect(entry).to_have_text(name)
    field(page, "Segments").fill("5")
    field(page, "Prompt").fill("something else")
    entry.click()
    expect(main_button(page)).to_have_text("Generate 2 segments")
    expect(field(page, "Prompt")).to_have_value(SAMPLE)
    field(page, "Segments").fill("6")
    expect(save).to_have_text("Overwrite")
    save.click()
    expect(page.get_by_test_id("toast").last).to_contain_text("is overwritten")
    field(page, "Segments").fill("1")
    entry.click()
    expect(main_button(page)).to_have_text("Generate 6 segments")
    rail(page).get_by_role("button", name=f"Delete the preset {name}").click()
    expect(entry).to_have_count(0)
    page.get_by_test_id("toast").last.get_by_role("button", name="Undo").click()
    expect(entry).to_have_count(1)
    write.press("Escape")
    expect(toggle).to_be_focused()
    expect(entry).to_be_hidden()


@pytest.mark.thorough
def test_what_differs_from_the_selected_segment_on_is_told_and_put_back(refused):
    page = refused
    quick(page)
    generate(page, 1)
    note = rail(page).locator(".recipe-note")
    tile(page, 2).click()
    expect(note).to_be_empty()
    assert ask(page, "commands.changes()") == {}
    field(page, "Prompt").fill("a red boat at noon")
    expect(note).to_contain_text("These come into effect from segment 2 on")
    expect(note.locator("li")).to_have_text(["Prompt"])
    assert ask(page, "commands.changes()") == {"prompt": "a red boat at noon"}
    field(page, "Frames per second").fill("10")
    expect(note).to_contain_text("These cannot change from segment 2 on")
    expect(note.locator("li")).to_have_text(["Prompt", "Frames per second 12 → 10"])
    assert ask(page, "commands.changes()") == {"prompt": "a red boat at noon", "fps": 10}
    tile(page, 1).click()
    expect(note).to_contain_text("These come into effect from segment 1 on")
    expect(note).not_to_contain_text("cannot change from")
    note.get_by_role("button", name="Put back").click()
    expect(note).to_be_empty()
    expect(field(page, "Prompt")).to_have_value(SAMPLE)
    expect(field(page, "Frames per second")).to_have_value("12")
    expect(field(page, "Steps")).to_have_value("2")


@pytest.mark.thorough
def test_a_recipe_comes_back_with_its_seeds(page):
    recipe = {"model": "starter", "prompt": "a kite", "segments": 3, "steps": 20, "image": None}
    ask(page, f"commands.setRecipe({json.dumps(recipe)}, [1, 1, 2])")
    expect(field(page, "Prompt")).to_have_value("a kite")
    expect(field(page, "Seed")).to_have_value("1, 1, 2")
    told = ask(page, "commands.draftRecipe()")
    assert told == {
        "model": "starter",
        "recipe": {"prompt": "a kite", "segments": 3},
        "seeds": [1, 1, 2],
    }


@pytest.mark.thorough
def test_a_picture_is_taken_shown_and_removed(studio, open_page, tiny, tmp_path):
    httpx.post(f"{studio.address}/api/models/folder", json={"folder": str(tiny)}).raise_for_status()
    page = open_page(studio.address, away=True)
    begin(page)
    expect(rail(page).locator('[data-field="image"]')).to_have_count(0)
    field(page, "Prompt").fill("a sunny day")
    field(page, "Model").select_option(label=tiny.name)
    expect(field(page, "Prompt")).to_have_value("a sunny day")
    part = rail(page).locator('[data-field="image"]')
    picture = tmp_path / "shore & sea.png"
    Image.new("RGB", (64, 48), "teal").save(picture)
    field(page, "Picture").set_input_files(picture)
    thumb = part.locator("img")
    expect(thumb).to_be_visible()
    page.wait_for_function("document.querySelector('.recipe-thumb').naturalWidth === 64")
    path = ask(page, "commands.draftRecipe().recipe.image")
    assert Path(path).is_file()
    saved(page)
    reload(page)
    expect(thumb).to_be_visible()
    words = tmp_path / "words.png"
    words.write_text("no picture")
    field(page, "Picture").set_input_files(words)
    expect(fault(page, "image")).not_to_be_empty()
    part.get_by_role("button", name="Remove the picture").click()
    expect(thumb).to_have_count(0)
    assert "image" not in ask(page, "commands.draftRecipe().recipe")
    field(page, "Model").select_option("starter")
    expect(part).to_have_count(0)


def test_an_order_that_is_answered_late_leaves_the_session_opened_meanwhile_alone(page, studio):
    put_draft(studio, "left", "a left boat")
    put_draft(studio, "right", "a right boat")
    open_session(page, "left", "a left boat")
    held = hold(page, "**/api/orders")
    main_button(page).click()
    wait_for(page, held)
    open_session(page, "right", "a right boat")
    held[0].continue_()
    saved(page)
    assert ask(page, "store.name") == "right"
    assert draft_of(studio, "left")["prompt"] == "a left boat"
    assert draft_of(studio, "right")["prompt"] == "a right boat"


@pytest.mark.thorough
def test_the_first_orders_of_a_new_session_do_not_take_over_one_opened_meanwhile(page, studio):
    put_draft(studio, "right", "a right boat")
    field(page, "Prompt").fill("two of one session")
    quick(page, segments=1)
    held = hold(page, "**/api/orders")
    main_button(page).click()
    page.wait_for_timeout(600)
    main_button(page).click()
    wait_for(page, held)
    open_session(page, "right", "a right boat")
    with page.expect_response("**/api/orders") as one:
        held.pop().continue_()
    first = one.value.json()["session"]
    wait_for(page, held)
    with page.expect_response("**/api/orders") as two:
        held.pop().continue_()
    assert two.value.json()["session"] == first
    saved(page)
    assert ask(page, "store.name") == "right"
    assert draft_of(studio, "right")["prompt"] == "a right boat"


@pytest.mark.thorough
def test_an_undo_of_the_recipe_leaves_another_session_alone(page, studio):
    put_draft(studio, "left", "a left boat")
    put_draft(studio, "right", "a right boat")
    open_session(page, "left", "a left boat")
    ask(page, "commands.setRecipe({model: 'starter', prompt: 'another'})")
    expect(field(page, "Prompt")).to_have_value("another")
    open_session(page, "right", "a right boat")
    page.get_by_test_id("toast").get_by_role("button", name="Undo").last.click()
    expect(page.get_by_test_id("toast").last).to_contain_text(
        "Nothing was undone: that was in left"
    )
    expect(field(page, "Prompt")).to_have_value("a right boat")


def test_what_a_retake_would_change_can_be_waited_for(refused):
    page = refused
    quick(page, segments=1)
    generate(page, 1)
    reload(page)
    held = hold(page, "**/api/takes/*")
    tile(page, 1).click()
    wait_for(page, held)
    field(page, "Prompt").fill("a red boat at noon")
    assert ask(page, "commands.changes()") == {}
    ask(page, "void commands.changesReady().then(() => (window.told = commands.changes()))")
    page.wait_for_timeout(200)
    assert page.evaluate("window.told") is None
    held[0].continue_()
    page.wait_for_function("window.told")
    assert page.evaluate("window.told") == {"prompt": "a red boat at noon"}


@pytest.mark.thorough
def test_a_retake_under_another_model_has_all_fields_and_none_under_an_unknown_one(refused):
    page = refused
    quick(page, segments=1)
    generate(page, 1)
    tile(page, 1).click()
    ask(page, "commands.changesReady()")
    options = field(page, "Model").locator("option")
    other = next(o for o in options.evaluate_all("all => all.map(o => o.value)") if o != "starter")
    ask(page, f"commands.setRecipe({{model: {json.dumps(other)}, prompt: {json.dumps(SAMPLE)}}})")
    changes = ask(page, "commands.changes()")
    assert {"model", "prompt", "width", "height", "fps", "frames", "steps"} <= changes.keys()
    assert "prompt" not in ask(page, "commands.changedFields()")
    ask(page, "commands.setRecipe({model: '/not/here', prompt: 'a boat'})")
    assert ask(page, "commands.changes()") == {}
    words = ask(page, "commands.changesReady().catch((error) => error.message)")
    assert "This model is not here" in words


def test_what_two_tabs_change_at_once_is_kept_field_by_field(refused, studio):
    page = refused
    put_draft(studio, "both", "a boat")
    open_session(page, "both", "a boat")
    field(page, "Segments").fill("3")
    put_draft(studio, "both", "a boat of the other tab")
    expect(field(page, "Prompt")).to_have_value("a boat of the other tab", timeout=10_000)
    expect(field(page, "Segments")).to_have_value("3")
    saved(page)
    assert draft_of(studio, "both") == {
        "prompt": "a boat of the other tab",
        "segments": 3,
        "steps": 2,
    }


@pytest.mark.thorough
def test_a_picture_that_comes_late_does_not_land_in_another_session(
    studio, open_page, tiny, tmp_path
):
    httpx.post(f"{studio.address}/api/models/folder", json={"folder": str(tiny)}).raise_for_status()
    page = open_page(studio.address, away=True)
    begin(page)
    field(page, "Model").select_option(label=tiny.name)
    model = field(page, "Model").input_value()
    put_draft(studio, "left", "a left boat", model=model)
    put_draft(studio, "right", "a right boat", model=model)
    open_session(page, "left", "a left boat")
    picture = tmp_path / "shore.png"
    Image.new("RGB", (64, 48), "teal").save(picture)
    held = hold(page, "**/api/inputs?*")
    field(page, "Picture").set_input_files(picture)
    wait_for(page, held)
    open_session(page, "right", "a right boat")
    held[0].continue_()
    expect(page.get_by_test_id("toast").last).to_contain_text("was not used")
    assert "image" not in ask(page, "commands.draftRecipe().recipe")


@pytest.mark.thorough
def test_a_model_that_is_not_here_is_told_at_its_field_and_never_sent(page):
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    ask(page, "commands.setRecipe({model: '/not/here', prompt: 'a boat'})")
    expect(fault(page, "model")).to_have_text("This model is not here: add its folder in Models.")
    page.wait_for_timeout(500)
    main_button(page).click()
    page.wait_for_timeout(500)
    assert not [url for url in sent if url.endswith(("/api/estimate", "/api/orders"))]


@pytest.mark.thorough
def test_the_rail_fits_a_phone(studio, open_page):
    page = open_page(studio.address, size=PHONE)
    begin(page)
    more(page)
    field(page, "Prompt").fill("x" * 3000)
    field(page, "Steps").fill("y" * 300)
    rail(page).get_by_role("button", name="Presets").click()
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_further_pictures_and_loras_each_have_a_row(studio, open_page, tmp_path, tmp_path_factory):
    edits = once(tmp_path_factory, "qwen_edit_plus", partial(tiny_qwen.build, "qwen_edit_plus"))
    told = {"folder": str(edits)}
    httpx.post(f"{studio.address}/api/models/folder", json=told).raise_for_status()
    page = open_page(studio.address)
    begin(page)
    field(page, "Model").select_option(label=edits.name)
    files = [tmp_path / name for name in ("one.png", "two.png", "three.png")]
    for path, colour in zip(files, ("teal", "navy", "maroon"), strict=True):
        Image.new("RGB", (64, 48), colour).save(path)
    field(page, "Picture").set_input_files(files[0])
    field(page, "Further pictures").set_input_files(files[1:])
    rows = rail(page).locator('[data-field="references"] li')
    expect(rows).to_have_count(2)
    rows.first.get_by_role("button", name="Remove two.png").click()
    expect(rows).to_have_count(1)
    page.get_by_text("More settings").click()
    hub = field(page, "LoRA on the hub")
    hub.fill("../../etc/passwd")
    hub.press("Enter")
    expect(fault(page, "loras")).to_contain_text("org/name/file.safetensors")
    hub.fill("org/name/film.safetensors")
    hub.press("Enter")
    strength = field(page, "Strength of film.safetensors")
    strength.fill("a lot")
    strength.press("Tab")
    expect(fault(page, "loras")).to_contain_text("1 still counts")
    strength.fill("0.8")
    strength.press("Tab")
    expect(fault(page, "loras")).to_contain_text("not on this machine")
    recipe = ask(page, "commands.draftRecipe().recipe")
    assert recipe["loras"] == [{"file": "org/name/film.safetensors", "strength": 0.8}]
    assert [Path(path).suffix for path in recipe["references"]] == [".png"]

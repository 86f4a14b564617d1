"""The page with a video as reference and with masks: given, kept, made from, and brought back."""

from __future__ import annotations

import base64
import importlib.resources
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from studio.library import Library
from tests.browser.conftest import PHONE, RENDER_MS, OpenPage, Server, tiles
from tests.fixtures.films import ffmpeg, write_film
from tests.fixtures.voices import hum, write_wav
from tests.studio.conftest import ROOT

FACES = ROOT / "assets" / "talking" / "faces.png"
SIZE = (384, 256)
"""Width and height of that picture."""


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> dict[str, Path | list[Path]]:
    """A film of two faces, as browsers show it, a mask and a voice for each of them."""
    folder = tmp_path_factory.mktemp("given")
    with Image.open(FACES) as image:
        picture = np.asarray(image.convert("RGB"))
    plain = write_film(folder / "plain.mkv", [np.roll(picture, n, axis=1) for n in range(40)])
    film = folder / "two people.mp4"
    ffmpeg("-i", str(plain), "-pix_fmt", "yuv420p", str(film))
    half, masks = picture.shape[1] // 2, []
    for name, columns in (("left", slice(0, half)), ("right", slice(half, None))):
        mask = np.zeros(picture.shape[:2], np.uint8)
        mask[:, columns] = 255
        masks.append(folder / f"{name}.png")
        Image.fromarray(mask).save(masks[-1])
    voices = [write_wav(folder / f"{n}.wav", hum(40 / 25, pitch=150 + 50 * n)) for n in (1, 2)]
    return {"Picture": film, "Voice": voices[0], "Second voice": voices[1], "Masks": masks}


def rail(page: Page):
    return page.locator("#recipe")


def give(page: Page, files: dict[str, Path | list[Path]]) -> None:
    rail(page).get_by_label("Model", exact=True).select_option("talking")
    for label, file in files.items():
        rail(page).get_by_label(label, exact=True).set_input_files(file)


def drop(page: Page, data: bytes, name: str) -> None:
    """A video, onto the middle of the page."""
    page.evaluate(
        """([base64, name]) => {
          const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([bytes], name, { type: "video/mp4" }));
          const how = { dataTransfer, bubbles: true, cancelable: true };
          for (const kind of ["dragenter", "dragover", "drop"]) {
            document.querySelector("#stage").dispatchEvent(new DragEvent(kind, how));
          }
        }""",
        [base64.b64encode(data).decode(), name],
    )


def part(page: Page, field: str):
    return rail(page).locator(f'[data-field="{field}"]')


def shows_all(page: Page) -> None:
    expect(part(page, "image").locator("video")).to_be_visible()
    page.wait_for_function("document.querySelector('video.recipe-thumb').videoWidth === 384")
    assert page.evaluate("document.querySelector('video.recipe-thumb').muted")
    expect(part(page, "masks").locator("li")).to_have_count(2)
    expect(part(page, "masks").locator("img")).to_have_count(2)


def test_a_video_and_masks_are_shown_kept_rendered_and_brought_back(
    server: Server, open_page: OpenPage, given, tmp_path
):
    page = open_page(server.address)
    give(page, given)
    shows_all(page)
    rail(page).get_by_text("More settings").click()
    rail(page).get_by_label("Steps", exact=True).fill("1")
    page.wait_for_timeout(900)
    page.reload()
    shows_all(page)

    rail(page).get_by_role("button", name="Generate 2 segments").click()
    expect(page.locator("#stage video").first).to_be_visible(timeout=RENDER_MS)
    with Library(server.library) as library:
        until = time.monotonic() + RENDER_MS / 1000
        while not (takes := list(library.takes())) and time.monotonic() < until:
            page.wait_for_timeout(200)
        (take,) = takes
        assert take.recipe.image.read_bytes() == given["Picture"].read_bytes()
        assert [m.read_bytes() for m in take.recipe.masks] == [
            path.read_bytes() for path in given["Masks"]
        ]
        result = tmp_path / "result.mp4"
        result.write_bytes(library.result(take).read_bytes())

    page.reload()
    expect(tiles(page)).to_have_count(2)
    shows_all(page)
    # To somebody who has none of it.
    other = open_page(server.address)
    drop(other, result.read_bytes(), "result.mp4")
    expect(other.get_by_test_id("toast").last).to_contain_text("Opened its session")
    expect(tiles(other)).to_have_count(2)
    shows_all(other)


def drag(page: Page, picture: Locator, *points: tuple[int, int], up: bool = True) -> None:
    """With the mouse over the faces; points in pixels of the picture."""
    area = picture.bounding_box()
    scale = area["width"] / SIZE[0]
    for number, (x, y) in enumerate(points):
        page.mouse.move(area["x"] + x * scale, area["y"] + y * scale)
        if number == 0:
            page.mouse.down()
    if up:
        page.mouse.up()


def boxes(page: Page) -> list[list[int]]:
    written = part(page, "faces").locator("textarea").input_value()
    return [[int(number) for number in box.split(",")] for box in written.split(";")]


def near(box: list[int], expected: list[int]) -> bool:
    """To within a pixel of the screen, which is more than one of the picture."""
    return max(abs(a - b) for a, b in zip(box, expected, strict=True)) <= 2


def assert_accessible(page: Page, within: str, scheme: str) -> None:
    source = importlib.resources.files("axe_playwright_python") / "axe.min.js"
    page.evaluate(source.read_text(encoding="utf-8"))
    page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", scheme == "dark")
    found = page.evaluate("(within) => axe.run(document.querySelector(within))", within)
    faults = [(fault["id"], fault["nodes"][0]["html"]) for fault in found["violations"]]
    assert faults == []


def test_faces_are_drawn_on_the_picture_written_or_masked(
    server: Server, open_page: OpenPage, given
):
    page = open_page(server.address, size=PHONE, reduced_motion="reduce")
    give(page, {})
    for field in ("faces", "masks"):
        expect(part(page, field)).to_have_count(0)
    give(page, {name: given[name] for name in ("Picture", "Voice", "Second voice")})
    faces = part(page, "faces")
    picture, written = faces.locator(".faces-picture"), faces.locator("textarea")
    expect(picture).to_be_visible()
    picture.scroll_into_view_if_needed()

    drag(page, picture, (20, 20), (90, 90), (170, 200))
    assert near(boxes(page)[0], [20, 20, 170, 200])
    expect(faces).to_contain_text("Now box 2")
    drag(page, picture, (290, 30), (292, 32), (300, 40))
    # No smaller than what the model surely sees.
    assert near(boxes(page)[1], [290, 30, 354, 94])
    drag(page, picture, (354, 94), (360, 120), (900, 900))
    assert near(boxes(page)[1], [290, 30, *SIZE])
    drag(page, picture, (330, 100), (300, 100), (100, 100))
    assert near(boxes(page)[1], [60, 30, 154, 256])
    assert near(boxes(page)[0], [20, 20, 170, 200])

    written.fill("10,20,110,120;200,40,300,140")
    first = faces.get_by_role("button", name="Box 1, Voice: from 10, 20 to 110, 120")
    left = "(box) => Math.round((384 * box.offsetLeft) / box.parentElement.clientWidth)"
    assert abs(first.evaluate(left) - 10) <= 1
    first.press("ArrowRight")
    second = faces.get_by_role("button", name="Box 2, Second voice")
    second.press("Shift+ArrowDown")
    second.press("ArrowUp")
    second.press("Control+z")
    assert boxes(page) == [[14, 20, 114, 120], [200, 40, 300, 143]]
    page.reload()
    expect(faces.get_by_role("button", name="Box 1, Voice: from 14, 20")).to_be_visible()
    second.press("Delete")
    expect(written).to_have_value("14,20,114,120")
    # What the field moves away from in the middle of a pull stays as it was.
    drag(page, picture, (60, 60), (80, 60), up=False)
    expect(written).not_to_have_value("14,20,114,120")
    faces.evaluate("(field) => field.parentElement.prepend(field)")
    expect(written).to_have_value("14,20,114,120")
    page.mouse.up()
    # What is wrong is told, however many boxes there are; what is half written is kept.
    written.fill("14,20,1000,120")
    page.keyboard.press("Tab")
    expect(faces.locator(".recipe-fault")).to_contain_text("no box inside the picture")
    written.fill("10,20,110,120;200,40,300")
    first.press("ArrowRight")
    expect(written).to_have_value("14,20,114,120;200,40,300")

    faces.get_by_role("button", name="Larger view").click()
    larger = page.get_by_role("dialog").locator(".faces-picture")
    # From inside of the first: faces may overlap.
    drag(page, larger, (60, 70), (260, 90), (360, 240))
    assert near(boxes(page)[1], [60, 70, 360, 240])
    assert boxes(page)[0] == [14, 20, 114, 120]
    assert_accessible(page, "dialog", "light")
    page.keyboard.press("Escape")
    expect(faces.get_by_role("button", name="Larger view")).to_be_focused()
    assert_accessible(page, '[data-field="faces"]', "dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]

    give(page, {"Masks": given["Masks"]})
    shows_all(page)
    expect(picture).to_be_hidden()
    expect(faces).to_contain_text("Remove them to draw boxes instead")
    written.fill("")
    page.keyboard.press("Tab")
    expect(written).to_be_hidden()
    # Given as they are, they stay to be seen, with what is wrong.
    part(page, "audio_2").get_by_role("button", name="Remove the second voice").click()
    expect(part(page, "faces")).to_have_count(0)
    expect(part(page, "masks").locator(".recipe-fault")).to_contain_text("one voice leave them out")


def stroke(page: Page, picture: Locator, *points: tuple[int, int]) -> None:
    """With a finger over the faces; points in pixels of the picture."""
    session = page.context.new_cdp_session(page)
    area = picture.bounding_box()
    scale = area["width"] / SIZE[0]
    for number, (x, y) in enumerate(points):
        at = {"x": area["x"] + x * scale, "y": area["y"] + y * scale}
        kind = "touchMove" if number else "touchStart"
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at]})
        page.wait_for_timeout(30)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


@pytest.mark.thorough
def test_a_finger_scrolls_over_the_picture_and_draws_in_the_larger_view(
    server: Server, open_page: OpenPage, given
):
    page = open_page(
        server.address, size=PHONE, reduced_motion="reduce", has_touch=True, is_mobile=True
    )
    give(page, {**given, "Picture": FACES, "Masks": []})
    faces = part(page, "faces")
    picture = faces.locator(".faces-picture")
    expect(picture).to_be_visible()
    picture.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    stroke(page, picture, (100, 200), (100, 100), (100, 0))
    page.wait_for_function("(before) => scrollY > before", arg=before)
    expect(faces.locator("textarea")).to_have_value("")

    picture.tap()
    larger = page.get_by_role("dialog").locator(".faces-picture")
    stroke(page, larger, (20, 20), (60, 60), (170, 210))
    stroke(page, larger, (210, 20), (260, 60), (360, 210))
    stroke(page, larger, (165, 205), (160, 190), (145, 175))
    first, second = boxes(page)
    assert near(first, [20, 20, 150, 180]) and near(second, [210, 20, 360, 210])
    # A second finger beside the one that moves a box, and lifted before it.
    area = larger.bounding_box()
    session, scale = page.context.new_cdp_session(page), area["width"] / SIZE[0]
    for kind, *points in (
        ("touchStart", (80, 100)),
        ("touchMove", (90, 110)),
        ("touchStart", (90, 110), (300, 200)),
        ("touchMove", (90, 110), (200, 30)),
        ("touchMove", (100, 120)),
        ("touchEnd",),
    ):
        touched = [
            {"x": area["x"] + x * scale, "y": area["y"] + y * scale, "id": number}
            for number, (x, y) in enumerate(points)
        ]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})
        page.wait_for_timeout(30)
    moved, other = boxes(page)
    assert near(moved, [first[0] + 20, first[1] + 20, first[2] + 20, first[3] + 20])
    assert other == second


@pytest.mark.thorough
def test_faces_are_drawn_in_the_pixels_of_the_studio_or_it_is_said_why_not(
    server: Server, open_page: OpenPage, given, tmp_path
):
    page = open_page(server.address, away=True)
    narrow = tmp_path / "narrow.mp4"
    plain = write_film(tmp_path / "plain.mkv", np.zeros((5, 256, 432, 3), np.uint8))
    ffmpeg("-i", str(plain), "-pix_fmt", "yuv420p", "-vf", "setsar=8/9", str(narrow))
    turned, upright = tmp_path / "turned.webp", Image.Exif()
    upright[0x0112] = 6
    with Image.open(FACES) as image:
        image.save(turned, exif=upright)
    give(page, {**given, "Picture": narrow, "Masks": []})
    faces = part(page, "faces")
    picture = faces.locator(".faces-picture")
    picture.scroll_into_view_if_needed()
    drag(page, picture, (20, 20), (90, 90), (384, 256))
    assert near(boxes(page)[0], [20, 20, *SIZE])

    give(page, {"Picture": turned})
    expect(faces).to_contain_text("Write the boxes as numbers, in pixels of 256 × 384.")
    expect(picture).to_be_hidden()

    for away in ("**/api/inputs/*/*", "**/api/inputs/*/*/size", "**/api/state*"):
        page.route(away, lambda route: route.abort())
    give(page, {"Picture": FACES})
    expect(faces).to_contain_text("could not be read. It is tried again")
    page.unroute_all()
    expect(picture).to_be_visible()
    expect(faces).to_contain_text("which has 384 × 256")


@pytest.mark.thorough
def test_a_video_is_offered_only_to_models_that_take_one(
    server: Server, open_page: OpenPage, given
):
    page = open_page(server.address, away=True)
    give(page, {})
    control = rail(page).get_by_label("Picture", exact=True)
    expect(control).to_have_attribute("accept", "image/*,video/*")
    expect(part(page, "image")).to_contain_text("Drop a picture or a video here")
    expect(rail(page).get_by_label("Voice", exact=True)).to_have_attribute("accept", "audio/*")

    film = given["Picture"].read_bytes()
    drop(page, film, "me.mp4")
    expect(part(page, "image").locator("video")).to_be_visible()
    expect(part(page, "image")).to_contain_text("me.mp4")
    rail(page).get_by_label("Model", exact=True).select_option("starter")
    drop(page, film, "me.mp4")
    expect(page.get_by_test_id("toast").last).to_contain_text("takes no video")

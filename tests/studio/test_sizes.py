"""The size that is stored and shown is that of the video; with some models it follows the picture,
whatever was asked for."""

from __future__ import annotations

import json
import shutil

import pytest

from studio import actions
from studio.api.jobs import told
from studio.errors import BadInput
from studio.jobs import Job
from studio.order import Order
from studio.take import Take
from tests.fixtures.tiny_infinitetalk import build
from tests.fixtures.voices import hum, write_wav
from tests.studio.conftest import PROMPT, ROOT
from tests.studio.histories import make_take, publish


def in_queue(library, order: Order) -> Job:
    return library.jobs.get(library.jobs.submit(order))


def test_a_take_says_how_large_its_frames_are(library, generate):
    rendered = generate([1], segments=1, steps=1, width=48, height=32)
    assert rendered.take.size == (48, 32) == (rendered.take.width, rendered.take.height)
    assert library.read_take(rendered.take.id) == rendered.take


def test_cards_and_exports_go_by_the_size_of_the_video(library, tmp_path):
    take = publish(library, make_take(1).model_copy(update={"width": 4320, "height": 64}))
    card = library.history.card(take.id)
    assert (card["width"], card["height"]) == (4320, 64)
    library.history.rebuild(lambda: [take])
    assert library.history.card(take.id)["width"] == 4320
    with pytest.raises(BadInput, match="Use a whole number from 1 to 1"):
        actions.export(library, [take.id], tmp_path / "film.mp4", scale=2)


def test_a_manifest_without_a_size_is_read_with_the_size_that_was_asked_for():
    old = json.loads(make_take(1).model_dump_json(exclude={"width", "height"}))
    take = Take.model_validate(old)
    assert take.width is None and take.size == (take.recipe.width, take.recipe.height)


def test_a_job_tells_the_size_and_the_frames_of_the_video(library, engine, tmp_path):
    model = str(build(tmp_path / "tiny-infinitetalk"))
    face = shutil.copy(ROOT / "assets" / "talking" / "face.png", tmp_path / "face.png")
    voice = write_wav(tmp_path / "voice.wav", hum(22 / 25))
    given = {
        "prompt": PROMPT, "image": face, "audio": voice, "width": 640, "height": 640, "frames": 9,
        "overlap": 5, "fps": 25,
    }  # fmt: skip
    order = actions.order_take(library, engine, model, given, [1])
    job = told(in_queue(library, order))
    assert (job["width"], job["height"]) == (order.width, order.height) == (768, 512)
    assert job["frames"] == ((0, 9), (9, 13), (13, 17), (17, 21), (21, 22))


def test_a_longer_take_that_is_made_tells_the_frames_of_every_segment(library, engine, generate):
    take = generate([1], segments=2, steps=1).take
    order = actions.order_retake(library, engine, take.id, 2, [2], {"segments": 4})
    frames = told(in_queue(library, order))["frames"]
    assert len(frames) == 4 and frames[:2] == tuple(part.frames for part in take.segments)
    assert [end - first for first, end in frames[1:]] == [frames[1][1] - frames[1][0]] * 3


def test_an_order_of_an_earlier_version_goes_by_what_was_asked_for(library, engine):
    order = actions.order_take(library, engine, "starter", {"prompt": PROMPT, "steps": 1}, [1])
    old = Order.model_validate_json(order.model_dump_json(exclude={"width", "height", "frames"}))
    job = told(in_queue(library, old))
    assert (job["width"], job["height"]) == (order.recipe.width, order.recipe.height)
    assert job["frames"] == ()

"""FlowCache in a recipe: what it is called on disk, what is told of it, what is refused."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from pipelines.errors import BadInput
from pipelines.flowcache import SkipMap, calibration
from studio import actions, flowcache, verify
from studio.api.app import create_app
from studio.chapter import chapters_of, plan_of
from studio.engine import Engine
from studio.keys import Keys
from studio.library import Library
from studio.pace import Pace
from studio.recipe import Recipe
from tests.studio.conftest import PROMPT, answer, frames_of

FLOW = {
    "flowcache": "flow",
    "flowcache_threshold": 0.05,
    "flowcache_warmup": 1,
    "ar_step": 2,
    "steps": 6,
    "segments": 2,
}


def keys(library, engine, **given) -> Keys:
    chapters = chapters_of(Recipe.make("starter", prompt=PROMPT, segments=2, **given))
    return Keys.of(engine.pipeline("starter"), chapters, [1, 2], "sea", library.hashes)


def test_off_adds_nothing_to_what_a_segment_goes_by(library, engine):
    plain = keys(library, engine)
    assert "flowcache" not in plain.of_segment(0).segment_fields
    idle = keys(library, engine, flowcache_threshold=0.3, flowcache_warmup=2, kv_budget=4)
    assert idle.segments == plain.segments


def test_every_setting_that_counts_makes_another_segment(library, engine):
    settings = (
        {},
        {"flowcache": "exact"},
        {"flowcache": "exact", "kv_budget": 2},
        {"flowcache": "exact", "flowcache_attention": "bidirectional"},
        {"flowcache": "flow"},
        {"flowcache": "flow", "flowcache_threshold": 0.2},
        {"flowcache": "flow", "flowcache_warmup": 2},
        {"flowcache": "teacache"},
    )
    assert len({keys(library, engine, **given).segments for given in settings}) == len(settings)
    exact = keys(library, engine, flowcache="exact")
    assert exact.segments == keys(library, engine, flowcache="exact", flowcache_warmup=2).segments
    assert exact.encoder == keys(library, engine).encoder


@pytest.mark.parametrize("mode", ["off", "exact", "flow", "teacache"])
def test_a_field_counts_in_the_modes_that_the_form_is_told(library, engine, mode):
    other = {
        "flowcache_threshold": 0.2,
        "flowcache_warmup": 2,
        "flowcache_attention": "bidirectional",
        "kv_budget": 2,
    }
    base = keys(library, engine, flowcache=mode).segments
    with TestClient(create_app(library, "127.0.0.1"), base_url="http://127.0.0.1") as page:
        told = {field["name"]: field["modes"] for field in page.get("/api/fields").json()}
    assert {name for name, modes in told.items() if modes is not None} == set(other)
    for name, value in other.items():
        changed = keys(library, engine, flowcache=mode, **{name: value}).segments != base
        assert changed == (mode in told[name])


def test_a_retake_with_flowcache_on_is_the_original_with_flowcache_on(
    library, engine, generate, retake, tmp_path
):
    original = generate([4, 5], **FLOW)
    other = retake(original.take, 1, [6]).take
    back = retake(other, 1, [5])
    assert back.take.id == original.take.id
    assert all(not part.differs for part in verify.recompute(library, engine, original.take))
    # The pipeline that made a plain take in between makes it plain.
    with Library(tmp_path / "other") as fresh:
        given = {"prompt": PROMPT, "segments": 1, "steps": 3}
        plain = actions.generate(fresh, engine, "starter", given, [4])
        alone = actions.generate(library, Engine(), "starter", given, [4])
        assert (frames_of(fresh, plain.take) == frames_of(library, alone.take)).all()


def test_what_was_skipped_is_in_the_manifest_the_commands_and_the_page(library, generate, app):
    rendered = generate([4], **FLOW)
    take = rendered.take
    first, second = flowcache.told(library, take)
    assert (first["steps"], first["chunks"], second["steps"], second["chunks"]) == (10, 3, 8, 3)
    assert len(first["computed"]) == 10
    assert {cell for row in first["computed"] for cell in row} == {0, 1}
    assert 0 < first["passes"] < first["plain_passes"]
    assert rendered.forwards["skipped"] >= 0

    shown = answer(app("show", take.id))
    assert shown["flowcache"] == [first, second]
    words = app("show", take.id, json_out=False).stdout
    assert f"{first['passes'] / first['plain_passes']:.0%} computed" in words
    assert "# computed  - reused" in words
    asked = answer(app("show", take.id, "--speedup", 2))
    assert 0 < asked["flowcache_threshold"] < 10
    refused = app("show", take.id, "--speedup", 99)
    assert refused.returncode == 2 and "speedup" in refused.stderr
    with TestClient(create_app(library, "127.0.0.1"), base_url="http://127.0.0.1") as page:
        assert page.get(f"/api/takes/{take.id}").json()["flowcache"] == [first, second]


def test_a_take_without_it_says_nothing_of_it(library, generate, app):
    take = generate([4], segments=1).take
    assert answer(app("show", take.id))["flowcache"] == [None]
    assert "% computed" not in app("show", take.id, json_out=False).stdout


def test_the_commands_take_its_settings(library, app):
    words = ("--prompt", PROMPT, "--segments", 1, "--steps", 4, "--seed", 1)
    options = ("--flowcache-threshold", 0.2, "--flowcache-warmup", 1, "--kv-budget", 1)
    made = answer(app("generate", *words, "--flowcache", "fast", *options))
    recipe = answer(app("show", made["take"]))["recipe"]
    assert recipe["flowcache"] == "flow"
    assert (recipe["flowcache_threshold"], recipe["flowcache_warmup"]) == (0.2, 1)
    assert recipe["kv_budget"] == 1


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"flowcache": "quick"}, "flowcache"),
        ({"flowcache_threshold": -1}, "flowcache_threshold"),
        ({"flowcache_warmup": -1}, "flowcache_warmup"),
        ({"flowcache_attention": "sideways"}, "flowcache_attention"),
        ({"kv_budget": -1}, "kv_budget"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(given, field):
    with pytest.raises(BadInput) as refused:
        Recipe.make("starter", prompt=PROMPT, **given)
    assert refused.value.field == field


def test_presets_are_flow_with_the_papers_settings():
    def settings(recipe):
        return recipe.flowcache, recipe.flowcache_threshold, recipe.flowcache_warmup

    slow = Recipe.make("skyreels-v2-df-1.3b-540p", prompt=PROMPT, flowcache="slow")
    assert settings(slow) == ("flow", 0.1, 5)
    assert settings(slow.changed({"flowcache": "fast"})) == ("flow", 0.15, 5)
    mixed = slow.changed({"flowcache": "fast", "flowcache_warmup": 2})
    assert settings(mixed) == ("flow", 0.15, 2)
    assert settings(slow.changed({"steps": 10})) == ("flow", 0.1, 5)
    plain = Recipe.make("skyreels-v2-df-1.3b-540p", prompt=PROMPT, flowcache="flow")
    assert settings(plain) == ("flow", 0.07, 3)


def test_the_page_is_told_the_presets_and_whether_an_order_is_exact(library):
    with TestClient(create_app(library, "127.0.0.1"), base_url="http://127.0.0.1") as page:
        models = {model["id"]: model for model in page.get("/api/models").json()}
        slow = models["skyreels-v2-df-1.3b-540p"]["flowcache_presets"]["slow"]
        assert Recipe.make("starter", prompt=PROMPT, **slow) == Recipe.make(
            "starter", prompt=PROMPT, flowcache="slow"
        )
        for given, exact in (({"flowcache": "exact"}, True), (slow, False), ({}, True)):
            order = {"kind": "generate", "model": "starter", "recipe": {"prompt": PROMPT, **given}}
            promise = page.post("/api/estimate", json=order).json()["flowcache"]
            assert promise["exact"] is exact
            assert bool(promise["words"]) == bool(given)


def test_a_take_tells_its_settings_at_a_glance(library, generate, retake):
    first = generate([1], segments=2).take
    flow = {"flowcache": "flow", "flowcache_threshold": 0.2, "flowcache_warmup": 1}
    second = retake(first, 1, [2], steps=8, **flow).take
    third = retake(first, 1, [2], flowcache="exact", kv_budget=1).take
    told = {
        card["id"]: [chapter.get("flowcache") for chapter in card["chapters"]]
        for card in library.history.cards(first.session, 9)
    }
    assert told[first.id] == [None]
    assert told[second.id] == [None, "flow 0.2"]
    assert told[third.id] == [None, "exact, KV 1"]
    # A speed-up is reckoned with the warm-up of the chapter that was in mode flow.
    (_, recorded) = flowcache.told(library, second)
    wanted = calibration.threshold_for([SkipMap.from_json(recorded)], 1, 1.6)
    assert flowcache.threshold_for(library, second, 1.6) == pytest.approx(wanted, abs=1e-4)


def test_each_setting_has_its_own_pace(library, engine):
    pace = Pace(library.database)
    plain = Recipe.make("starter", prompt=PROMPT, segments=2, steps=10)
    flow = plain.changed({"flowcache": "flow"})
    plan = plan_of(engine.pipeline("starter"), chapters_of(plain))
    pace.learn(plain, plain.frames, 10, 10.0, 1.0)
    assert pace.seconds(flow, plan, [0]) == pytest.approx(11.0)
    pace.learn(flow, flow.frames, 10, 4.0, 1.0)
    assert pace.seconds(flow, plan, [0]) == pytest.approx(5.0)
    assert pace.seconds(plain, plan, [0]) == pytest.approx(11.0)

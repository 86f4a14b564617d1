"""The form of a recipe is told by the recipe itself."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import Field

from studio import fields
from studio.api import fields as route
from studio.api.studio import Studio
from studio.recipe import MAX_PROMPT, Recipe


@pytest.fixture
def told(library, engine) -> dict[str, dict]:
    app = FastAPI()
    app.include_router(route.routes(Studio(library, engine)))
    answer: httpx.Response = TestClient(app).get("/api/fields")
    assert answer.status_code == 200
    return {field["name"]: field for field in answer.json()}


def test_every_field_of_a_recipe_is_told(told):
    assert set(told) == set(Recipe.model_fields)
    assert list(told)[:3] == ["model", "prompt", "negative_prompt"]


def test_limits_are_those_that_the_recipe_checks(told):
    assert (told["steps"]["min"], told["steps"]["max"]) == (1, 1000)
    assert told["prompt"]["max"] == MAX_PROMPT
    assert (told["shift"]["min"], told["shift"]["above"]) == (None, 0)


def test_kinds_say_how_a_field_is_filled_in(told):
    kinds = {name: field["kind"] for name, field in told.items()}
    assert kinds["prompt"] == "text"
    assert kinds["segments"] == "integer"
    assert kinds["guidance_scale"] == "number"
    assert kinds["image"] == kinds["audio"] == "file"


def test_each_field_has_a_label_and_a_hint(told):
    for field in told.values():
        assert field["label"] and field["hint"].endswith((".", "‰."))
        assert "_" not in field["label"]
        assert field["group"] in ("main", "inputs", "size", "more", "flowcache")


def test_a_field_that_is_added_turns_up_by_itself():
    class Longer(Recipe):
        flowcache_epsilon: float = Field(0.1, ge=0, le=1, description="How much may be skipped.")
        flowcache_mode: str | None = Field(
            None, description="What is kept.", json_schema_extra={"enum": ["exact", "fast"]}
        )
        flowcache: bool = Field(False, description="Skips what would change nothing.")
        sharpness: int = Field(2, description="How sharp.")

    told = {field["name"]: field for field in fields.fields(Longer)}
    epsilon = told["flowcache_epsilon"]
    assert (epsilon["label"], epsilon["group"], epsilon["step"]) == ("Epsilon", "flowcache", 0.01)
    assert (epsilon["hint"], epsilon["default"]) == ("How much may be skipped.", 0.1)
    assert told["flowcache_mode"]["kind"] == "choice"
    assert told["flowcache_mode"]["choices"] == ("exact", "fast")
    assert (told["flowcache"]["kind"], told["flowcache"]["label"]) == ("switch", "FlowCache")
    assert (told["sharpness"]["label"], told["sharpness"]["group"]) == ("Sharpness", "more")

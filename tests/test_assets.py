"""What ships in assets/ means the same on every machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parents[1] / "assets"


def words(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from words(one)
    elif isinstance(value, str):
        yield value


def test_no_config_names_a_folder_of_the_machine_that_made_it():
    configs = [path for path in ASSETS.rglob("*.json") if path.name != "tokenizer.json"]
    assert len(configs) > 10
    for path in configs:
        told = json.loads(path.read_text(encoding="utf-8"))
        assert not [text for text in words(told) if text.startswith(("/", "~"))], path

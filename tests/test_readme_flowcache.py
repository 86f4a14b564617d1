"""The README's figures of FlowCache are those of the run beside its plot."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "assets" / "readme" / "flowcache.py"

spec = importlib.util.spec_from_file_location("readme_flowcache", SCRIPT)
figures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(figures)


def test_the_table_is_that_of_the_run():
    told = json.loads(figures.FIGURES.read_text())
    assert figures.shown(figures.README.read_text()) == figures.section(told)


def test_the_run_is_one_that_can_be_believed():
    told = json.loads(figures.FIGURES.read_text())
    assert told["model"] == "starter" and told["prompts"] >= 12 and told["chunks"] >= 4
    assert told["steps"] >= 30


def test_the_plot_is_small():
    assert figures.PLOT.stat().st_size < 100_000

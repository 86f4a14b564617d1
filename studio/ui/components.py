"""The regions of the page: each a gr.HTML whose content is drawn by one module of assets/page."""

from __future__ import annotations

import json

import gradio as gr

from studio.api.page import address


def region(name: str, role: str, label: str) -> gr.HTML:
    """An empty box with the id `name`, handed to `mount(element)` of the module of that
    name.

    The markup is fixed: what people write reaches the page as JSON and as text nodes only.
    """
    path = json.dumps(address(f"{name}.js"))
    return gr.HTML(
        html_template=f'<div class="region" role="{role}" aria-label="{label}"></div>',
        js_on_load=f"import({path}).then((m) => m.mount(element.querySelector('.region')))",
        apply_default_css=False,
        elem_id=name,
        elem_classes=["retake-region"],
    )


def top_bar() -> gr.HTML:
    """What runs and what waits; the ways to history, models and keys."""
    return region("jobs", "region", "Jobs")


def recipe_rail() -> gr.HTML:
    """The recipe of the session, and the button that makes a take of it."""
    return region("recipe", "form", "Recipe")


def stage() -> gr.HTML:
    """One player, or several takes under one scrubber."""
    return region("stage", "region", "Stage")


def timeline() -> gr.HTML:
    """A tile a segment, and the bar that says what a retake from there would do."""
    return region("timeline", "region", "Timeline")


def takes_rail() -> gr.HTML:
    """The takes that share what comes before the selected segment."""
    return region("takes", "region", "Takes")


def drawers() -> gr.HTML:
    """What opens over the page: history, models, keys; and what a dropped file brings."""
    return region("drawers", "region", "Drawers")

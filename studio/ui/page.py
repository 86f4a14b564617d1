"""The page: six regions in one Gradio app. What they show and do is in assets/page."""

from __future__ import annotations

import gradio as gr

from studio.api.page import address, modules
from studio.ui import components

THEME = gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
STYLES = (
    *("tokens", "shell", "jobs", "recipe", "recipe_faces", "stage", "timeline", "takes"),
    *("drawers", "history", "models"),
)


def head() -> str:
    """What goes into the head of the page: our styles, the colour scheme before first paint, and
    the regions' modules, which are fetched while Gradio starts."""
    links = [f'<link rel="stylesheet" href="{address(f"{name}.css")}">' for name in STYLES]
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    script = f'<script type="module" src="{address("scheme.js")}"></script>'
    icon = f'<link rel="icon" type="image/svg+xml" href="{address("icon.svg")}">'
    early = [f'<link rel="modulepreload" href="{address(name)}">' for name in modules()]
    return "\n".join([viewport, icon, *links, script, *early])


def build() -> gr.Blocks:
    """The page. It holds no state: everything comes from the routes."""
    page = gr.Blocks(title="Retake", analytics_enabled=False, fill_width=True)
    with page, gr.Column(elem_id="studio"):
        components.top_bar()
        components.recipe_rail()
        components.stage()
        components.takes_rail()
        components.timeline()
        components.drawers()
    return page

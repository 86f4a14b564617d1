"""One page: make a take, play it, keep its beginning and retake the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gradio as gr

from studio import actions
from studio.engine import Engine
from studio.errors import BadInput, is_known
from studio.library import Library
from studio.worker import Snapshot, Worker

THEME = gr.themes.Default(
    primary_hue="teal", neutral_hue="slate", font=["system-ui", "sans-serif"]
)
CSS = "footer {display: none !important} #status {min-height: 1.5em}"
SAMPLE = "a red boat drifting left over the sea at sunset"
MODEL = "starter"
TICK_SECONDS = 0.5
EMPTY = '<p style="opacity:.7">No take yet. Press Generate.</p>'


def build(library: Library, engine: Engine, worker: Worker) -> gr.Blocks:
    """The page over a library; renders go to `worker`, never to a handler."""

    def generate(prompt: str, segments: float, seed: str) -> str:
        given = {"prompt": prompt, "segments": int(segments)}
        chosen = _seed(seed)
        with _toasts():
            actions.check(engine, MODEL, given, chosen)
            worker.submit(
                lambda watch: actions.generate(
                    library, engine, MODEL, given, chosen, on_event=watch
                )
            )
        return worker.snapshot.told

    def retake(take: str | None, keep: float, seed: str) -> str:
        chosen = _seed(seed)
        with _toasts():
            if not take:
                raise BadInput("take", None, "Generate one first.")
            worker.submit(
                lambda watch: actions.retake(
                    library, engine, take, int(keep), chosen, on_event=watch
                )
            )
        return worker.snapshot.told

    def cancel() -> None:
        worker.cancel(worker.snapshot.job)

    def look(seen: int) -> tuple:
        snapshot = worker.snapshot
        if snapshot.version == seen:
            return gr.skip(), gr.skip(), gr.skip(), gr.skip()
        if snapshot.take is None:
            return snapshot.version, _status(snapshot), gr.skip(), gr.skip()
        return snapshot.version, _status(snapshot), _player(snapshot.take), snapshot.take

    def newest() -> tuple:
        rows = library.history.takes(limit=1)
        take = rows[0].id if rows else None
        return _status(worker.snapshot), _player(take) if take else EMPTY, take

    with gr.Blocks(title="Retake", analytics_enabled=False) as page:
        seen, take = gr.State(0), gr.State(None)
        gr.Markdown("# Retake\nRender a video in segments, keep the good ones, retake the rest.")
        with gr.Row():
            with gr.Column(scale=1):
                prompt = gr.Textbox(SAMPLE, label="Prompt", lines=3, elem_id="prompt")
                segments = gr.Slider(1, 12, 4, step=1, label="Segments (2 s each)")
                seed = gr.Textbox("", label="Seed", placeholder="empty: a new one", max_lines=1)
                make = gr.Button("Generate", variant="primary")
                keep = gr.Slider(0, 11, 2, step=1, label="Keep the first")
                again = gr.Button("Retake the rest")
                stop = gr.Button("Cancel", variant="stop")
            with gr.Column(scale=2):
                player = gr.HTML(EMPTY, elem_id="player")
                status = gr.Markdown("", elem_id="status")
        quiet = {"show_progress": "hidden"}
        make.click(generate, [prompt, segments, seed], status, **quiet)
        again.click(retake, [take, keep, seed], status, **quiet)
        stop.click(cancel, queue=False, **quiet)
        gr.Timer(TICK_SECONDS).tick(look, seen, [seen, status, player, take], queue=False, **quiet)
        page.load(newest, None, [status, player, take], **quiet)
    return page


def _seed(text: str) -> list[int] | None:
    text = text.strip()
    if not text:
        return None
    try:
        return [int(text)]
    except ValueError:
        raise gr.Error(f"seed: {text!r} cannot be used. Give a whole number.") from None


@contextmanager
def _toasts() -> Iterator[None]:
    """Shows an error that was written for the person as a toast."""
    try:
        yield
    except Exception as error:
        if is_known(error):
            raise gr.Error(str(error), print_exception=False) from error
        raise


def _status(snapshot: Snapshot) -> str:
    return f"**{snapshot.state.capitalize()}** {snapshot.told}" if snapshot.job else ""


def _player(take: str) -> str:
    """Only the id, which is hexadecimal, goes into the markup."""
    return (
        f'<video src="/api/takes/{take}/result" controls loop autoplay muted playsinline '
        'style="width:100%;image-rendering:auto;border-radius:8px"></video>'
    )

"""One page: make a take, play it, keep its beginning and retake the rest."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager

import gradio as gr

from studio import actions
from studio.engine import Engine
from studio.errors import BadInput, is_known
from studio.jobs import Job, State
from studio.library import Library

THEME = gr.themes.Default(primary_hue="teal", neutral_hue="slate", font=["system-ui", "sans-serif"])
CSS = "footer {display: none !important}"
SAMPLE = "a red boat drifting left over the sea at sunset"
MODEL = "starter"
TICK_SECONDS = 0.5
EMPTY = '<p style="opacity:.7">No take yet. Press Generate.</p>'


def build(library: Library, engine: Engine) -> gr.Blocks:
    """The page over a library. Handlers only put jobs into the queue and look at it."""

    def generate(prompt: str, segments: float, seed: str) -> None:
        with _toasts():
            given = {"prompt": prompt, "segments": int(segments)}
            asked = actions.order_take(library, engine, MODEL, given, _seed(seed))
            library.jobs.submit(asked)

    def retake(take: str | None, keep: float, seed: str) -> None:
        with _toasts():
            if not take:
                raise BadInput("take", None, "Generate one first.")
            asked = actions.order_retake(library, engine, take, int(keep), _seed(seed))
            library.jobs.submit(asked)

    def cancel() -> None:
        for job in library.jobs.queue()[:1]:
            library.jobs.cancel(job.id)

    def look(seen: dict) -> tuple:
        job, rows = library.jobs.newest(), library.history.takes(limit=1)
        take = rows[0].id if rows else None
        now = {"status": _status(job), "take": take}
        if now == seen:
            return (gr.skip(),) * 4
        player = gr.skip() if take == seen.get("take") else _player(take)
        return now, now["status"], player, take

    with gr.Blocks(title="Retake", analytics_enabled=False) as page:
        seen, take = gr.State({}), gr.State()
        gr.Markdown("# Retake\nRender a video in segments, keep the good ones, retake the rest.")
        with gr.Row():
            with gr.Column(scale=1):
                prompt = gr.Textbox(SAMPLE, label="Prompt", lines=3, elem_id="prompt")
                segments = gr.Slider(1, 12, 4, step=1, label="Segments (2 s each)")
                seed = gr.Textbox("", label="Seed", placeholder="empty: a new one", max_lines=1)
                make = gr.Button("Generate", variant="primary")
                keep = gr.Slider(
                    0, 11, 2, step=1, label="Keep the first … segments of the take that is shown"
                )
                again = gr.Button("Retake the rest")
                stop = gr.Button("Cancel", variant="stop")
            with gr.Column(scale=2):
                player = gr.HTML(EMPTY, elem_id="player")
                status = gr.Textbox(
                    "", label="Status", interactive=False, lines=2, elem_id="status"
                )
        quiet = {"show_progress": "hidden"}
        make.click(generate, [prompt, segments, seed], None, **quiet)
        again.click(retake, [take, keep, seed], None, **quiet)
        stop.click(cancel, queue=False, **quiet)
        gr.Timer(TICK_SECONDS).tick(look, seen, [seen, status, player, take], queue=False, **quiet)
    return page


def _seed(text: str) -> list[int] | None:
    text = text.strip()
    if not text:
        return None
    try:
        return [int(text)]
    except ValueError:
        raise BadInput("seed", text, "Give a whole number.") from None


@contextmanager
def _toasts() -> Iterator[None]:
    """Shows an error that was written for the person as a toast."""
    try:
        yield
    except Exception as error:
        if is_known(error):
            # A toast shows markup, and the message may quote what the person typed.
            raise gr.Error(html.escape(str(error)), print_exception=False) from error
        raise


def _status(job: Job | None) -> str:
    if job is None:
        return ""
    if job.state is not State.RUNNING or not job.progress:
        return job.told or f"{job.state.capitalize()}."
    at = job.progress
    told = f"Segment {at['segment'] + 1} of {at['segments']}"
    return f"{told}, step {at['step']} of {at['steps']}" if at["step"] else f"{told}: {at['stage']}"


def _player(take: str | None) -> str:
    """Only the id, which is hexadecimal, goes into the markup."""
    if take is None:
        return EMPTY
    return (
        f'<video src="/api/takes/{take}/result" controls loop autoplay muted playsinline '
        'style="width:100%;border-radius:8px"></video>'
    )

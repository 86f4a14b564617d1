"""The routes: health, and media by id. The page is mounted under them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import gradio as gr
from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse, JSONResponse
from starlette.requests import Request

from pipelines.errors import BadInput
from reuse import ReuseError
from studio.engine import Engine
from studio.library import Library
from studio.own_pages import OnlyOwnPages
from studio.ui.page import CSS, THEME, build
from studio.worker import Worker

TAKE_ID = re.compile(r"[0-9a-f]{16,64}")
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}


def create_app(library: Library, host: str) -> FastAPI:
    """The whole studio as one app, for a server that listens on `host`."""
    engine = Engine()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        worker = Worker(library, engine)
        yield
        worker.stop()

    app = FastAPI(
        title="Retake", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    app.add_middleware(OnlyOwnPages, host=host)

    @app.exception_handler(BadInput)
    def bad_input(request: Request, error: BadInput) -> JSONResponse:
        told = {"error": str(error), "field": error.field, "fix": error.fix}
        return JSONResponse(told, status_code=422)

    @app.exception_handler(ReuseError)
    def not_on_disk(request: Request, error: ReuseError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=404)

    @app.get("/api/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/api/takes/{take_id}/result")
    def result(take_id: str) -> FileResponse:
        if not TAKE_ID.fullmatch(take_id):
            raise HTTPException(404, "No such take.")
        path = library.result(library.read_take(take_id))
        if not path.is_file():
            raise HTTPException(404, "The file of this take is gone.")
        return FileResponse(path, headers=FOREVER)

    page = build(library, engine)
    return gr.mount_gradio_app(app, page, path="/", theme=THEME, css=CSS, show_error=True)

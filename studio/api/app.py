"""The whole studio as one app: the routes, the worker, and the page mounted under them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import gradio as gr
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import Request

from pipelines.errors import BadInput
from reuse import Damaged, DiskFull, NotCompatible, NotInLibrary, ReuseError
from studio.api import (
    fields,
    files,
    history,
    jobs,
    media,
    models,
    orders,
    page,
    presets,
    state,
    takes,
)
from studio.api.refusals import told
from studio.api.studio import Studio
from studio.engine import Engine
from studio.errors import TakeUnknown, is_known
from studio.library import Library
from studio.media import DiskFull as FilmDiskFull
from studio.own_pages import OnlyOwnPages
from studio.ui.page import THEME, build, head
from studio.worker import Worker

AREAS = (state, orders, takes, history, presets, jobs, media, models, fields, files, page)
OF_THE_DISK = ((NotInLibrary, 404), (Damaged, 410), (DiskFull, 507), (FilmDiskFull, 507))


def create_app(library: Library, host: str) -> FastAPI:
    """The whole studio as one app, for a server that listens on `host`."""
    studio = Studio(library, Engine())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        studio.worker = Worker(library, studio.engine)
        yield
        studio.worker.stop()

    app = FastAPI(
        title="Retake", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    app.add_middleware(OnlyOwnPages, host=host)
    _tell_errors(app)

    @app.get("/api/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    for area in AREAS:
        app.include_router(area.routes(studio))
    return gr.mount_gradio_app(
        app,
        build(),
        path="/",
        theme=THEME,
        head=head(),
        show_error=True,
        max_file_size="200mb",
        footer_links=[],
    )


def _tell_errors(app: FastAPI) -> None:
    """The one place where errors become HTTP: 422 for input, 409 for what does not fit, 404 for
    what is not there, 410 for what is damaged, 507 for a full disk, 500 for the rest."""

    @app.exception_handler(BadInput)
    def bad_input(request: Request, error: BadInput) -> JSONResponse:
        return JSONResponse(told(error), status_code=422)

    @app.exception_handler(TakeUnknown)
    def no_such_take(request: Request, error: TakeUnknown) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=404)

    @app.exception_handler(RequestValidationError)
    def bad_request(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"][1:]) or "request"
        problem = {"error": f"{field}: {first['msg']}", "field": field, "fix": first["msg"]}
        return JSONResponse(problem, status_code=422)

    @app.exception_handler(NotCompatible)
    def not_compatible(request: Request, error: NotCompatible) -> JSONResponse:
        return JSONResponse(told(error), status_code=409)

    @app.exception_handler(ReuseError)
    @app.exception_handler(FilmDiskFull)
    def of_the_disk(request: Request, error: Exception) -> JSONResponse:
        status = next((code for kind, code in OF_THE_DISK if isinstance(error, kind)), 500)
        return JSONResponse({"error": str(error)}, status_code=status)

    @app.exception_handler(Exception)
    def failed(request: Request, error: Exception) -> JSONResponse:
        words = str(error) if is_known(error) else f"{type(error).__name__}: {error}"
        return JSONResponse({"error": words}, status_code=500)

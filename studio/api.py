"""The routes: health, and media by id. The page is mounted under them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import gradio as gr
from fastapi import FastAPI, HTTPException
from fastapi.responses import FileResponse, JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response

from studio.engine import Engine
from studio.library import Library
from studio.ui.page import CSS, THEME, build
from studio.worker import Worker

LOCAL = ("127.0.0.1", "localhost", "::1")
TAKE_ID = re.compile(r"[0-9a-f]{16,64}")
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}


def create_app(library: Library, host: str, port: int) -> FastAPI:
    """The whole studio as one app. It refuses requests for other hosts and from foreign pages."""
    engine = Engine()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        worker = Worker(library, engine)
        yield
        worker.stop()

    app = FastAPI(
        title="Retake", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    hosts = {*LOCAL, host} if host not in ("0.0.0.0", "::") else {"*"}
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=sorted(hosts))

    @app.middleware("http")
    async def refuse_foreign_pages(request: Request, call_next) -> Response:
        origin = request.headers.get("origin")
        if origin and origin.partition("://")[2] != request.headers.get("host"):
            return JSONResponse({"error": "This page may not use the studio."}, status_code=403)
        return await call_next(request)

    @app.get("/api/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/api/takes/{take_id}/result")
    def result(take_id: str) -> FileResponse:
        if not TAKE_ID.fullmatch(take_id) or take_id not in library.history.take_ids():
            raise HTTPException(404, "No such take.")
        path = library.result(library.read_take(take_id))
        if not path.is_file():
            raise HTTPException(404, "The file of this take is gone.")
        return FileResponse(path, media_type="video/mp4", headers=FOREVER)

    page = build(library, engine)
    return gr.mount_gradio_app(app, page, path="/", theme=THEME, css=CSS, show_error=True)

"""Files that come in from the page: pictures, voices, LoRAs for a recipe, and results to open."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from pipelines import catalogue
from pipelines.errors import BadInput
from pipelines.infinitetalk.reference import reference_size
from reuse import ReuseError
from studio import inputs
from studio.api.studio import Studio
from studio.api.upload import receive
from studio.models import Models
from studio.opened import open_result
from studio.recipe import INPUT_FILES
from studio.samples import take_sample

MOST_RESULT_BYTES = 2_000_000_000
MOST_INPUT_BYTES = 200_000_000
MOST_VIDEO_BYTES = 1_000_000_000
MOST_LORA_BYTES = 4_000_000_000

_KEY = re.compile(r"[0-9a-f]{16,64}")
HEADERS = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
}


class AskedSample(BaseModel):
    """The sample of a model, counted from 0."""

    model: str
    number: int


def routes(studio: Studio) -> APIRouter:
    router = APIRouter()
    library = studio.library
    models = Models(library.folder)

    @router.post("/api/inputs")
    async def add(request: Request, kind: str = "") -> dict[str, str]:
        """A file for the recipe field `kind`, checked and copied into the library by content. One
        that may be large has to name its field in the query."""
        with library.store.stage() as staging:
            path = staging.file("upload")
            large = {"loras": MOST_LORA_BYTES} | dict.fromkeys(inputs.MAY_MOVE, MOST_VIDEO_BYTES)
            most = large.get(kind, MOST_INPUT_BYTES)
            form = await receive(request, path, most)
            field = form.fields.get("kind") or kind
            if field not in INPUT_FILES:
                raise BadInput("kind", field, f"Use one of {', '.join(INPUT_FILES)}.")
            adopted = await run_in_threadpool(inputs.adopt, library, field, path, form.name)
        url = f"/api/inputs/{adopted.parent.name}/{adopted.name}"
        return {"path": str(adopted), "name": form.name or adopted.name, "url": url}

    @router.post("/api/samples")
    def take(asked: AskedSample) -> dict[str, Any]:
        """What a model comes with to be tried: recipe fields, and the names of their files."""
        models.check(asked.model)
        return take_sample(library, catalogue.find(asked.model), asked.number)

    @router.get("/api/inputs/{key}/{file}")
    def read(key: str, file: str) -> FileResponse:
        return FileResponse(given(key, file), media_type=inputs.served_as(file), headers=HEADERS)

    @router.get("/api/inputs/{key}/{file}/size")
    def size(key: str, file: str) -> dict[str, int]:
        """In how many pixels a picture or a video is read, which boxes of faces count."""
        height, width = reference_size(given(key, file))
        return {"width": width, "height": height}

    def given(key: str, file: str) -> Path:
        if inputs.served_as(file) is not None and _KEY.fullmatch(key):
            with suppress(ReuseError):
                if entry := library.store.find("inputs", key):
                    return entry.file(file)
        raise HTTPException(404, "No such file.")

    @router.post("/api/open")
    async def open_file(request: Request) -> dict[str, Any]:
        """The recipe and the seeds that a result file tells of itself."""
        with library.store.stage() as staging:
            path = staging.file("upload")
            form = await receive(request, path, MOST_RESULT_BYTES)
            found = await run_in_threadpool(open_result, library, path, form.name)
        chapters = [chapter.model_dump(mode="json") for chapter in found.chapters]
        return {
            "recipe": chapters[0]["recipe"],
            "chapters": chapters,
            "seeds": found.seeds,
            "lost": found.lost,
            "take": found.take,
            "session": found.session,
            "model_problem": _problem(found.chapters[0].recipe.model),
        }

    def _problem(model: str) -> str | None:
        """Why the model of an opened file cannot be used now. A folder that was not added here is
        not even looked at: the file may name any."""
        try:
            models.check(model)
        except BadInput as error:
            return error.fix
        return None

    return router

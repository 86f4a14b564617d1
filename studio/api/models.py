"""The models: what each can do, and getting more of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from pipelines import catalogue
from pipelines.errors import BadInput
from studio.api.studio import Studio
from studio.download import Downloads, checked
from studio.models import Models
from studio.report import model_report, models_report


class Folder(BaseModel):
    """A folder on the machine of the studio."""

    folder: str


class Asked(BaseModel):
    """A model of the catalogue, an added one, or any hub id."""

    id: str


def routes(studio: Studio) -> APIRouter:
    models = Models(studio.library.folder)
    downloads = Downloads()

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(downloads.stop)

    router = APIRouter(prefix="/api/models", lifespan=lifespan)

    @router.get("")
    def known() -> list[dict[str, Any]]:
        return models_report(models.added())

    @router.post("/folder")
    def add_folder(asked: Folder) -> dict[str, Any]:
        model = models.add_folder(asked.folder)
        return model_report(model, added=True)

    @router.post("/look")
    def look(asked: Asked) -> dict[str, Any]:
        """What a download would come to, before it starts: this asks the hub."""
        _, repo = source(asked.id)
        return asdict(downloads.look(repo))

    @router.post("/download")
    def download(asked: Asked) -> dict[str, Any]:
        id, repo = source(asked.id)
        if is_present(id):
            models.add_hub(repo)
            raise BadInput("id", repo, "It is on this machine already.")
        models.add_hub(repo)
        downloads.start(id, repo, lambda licence: models.add_hub(repo, licence))
        return {"id": id}

    @router.post("/download/cancel")
    def cancel(asked: Asked) -> dict[str, Any]:
        downloads.cancel(asked.id)
        return {"id": asked.id}

    @router.get("/downloads")
    def under_way() -> list[dict[str, Any]]:
        return [asdict(one) for one in downloads.all()]

    @router.delete("/{id:path}")
    def forget(id: str) -> dict[str, Any]:
        """Takes an added model off the list; its files stay where they are."""
        models.forget(id)
        downloads.forget(id)
        return {}

    def source(id: str) -> tuple[str, str]:
        """(id in the list, what to download) of what was asked for."""
        for model in catalogue.models():
            if id.strip() in (model.id, model.source):
                if not model.repositories:
                    raise BadInput("id", id, "It ships with the studio.")
                return model.id, model.id if model.parts else model.repositories[0].id
        repo = checked(id)
        return next(((m.id, repo) for m in catalogue.models() if m.source == repo), (repo, repo))

    def is_present(id: str) -> bool:
        try:
            return catalogue.find(id).present()
        except BadInput:
            return False

    return router

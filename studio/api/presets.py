"""Presets: recipe fields under a name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from studio.api.studio import Studio


class Saved(BaseModel):
    model_config = ConfigDict(extra="forbid")

    recipe: dict[str, Any]


def routes(studio: Studio) -> APIRouter:
    router = APIRouter()
    presets = studio.library.presets

    @router.get("/api/presets")
    def presets_there() -> list[dict[str, Any]]:
        return [asdict(preset) for preset in presets.all()]

    # A name may hold a slash.
    @router.put("/api/presets/{name:path}")
    def save(name: str, asked: Saved) -> dict[str, Any]:
        return asdict(presets.save(name, asked.recipe))

    @router.delete("/api/presets/{name:path}")
    def delete(name: str) -> dict[str, Any]:
        presets.delete(name)
        return {}

    return router

"""What a recipe consists of, for whoever draws a form of it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from studio import fields, flowcache
from studio.api.studio import Studio


def routes(studio: Studio) -> APIRouter:
    router = APIRouter()

    @router.get("/api/fields")
    def of_a_recipe() -> list[dict[str, Any]]:
        """Each field with its words, limits and default, in the order of the form; `modes` are
        those of FlowCache in which it makes a difference, null if it always does."""
        return [
            {**field, "modes": flowcache.COUNTS.get(field["name"])} for field in fields.fields()
        ]

    return router

"""What a recipe consists of, for whoever draws a form of it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from studio import fields
from studio.api.studio import Studio


def routes(studio: Studio) -> APIRouter:
    router = APIRouter()

    @router.get("/api/fields")
    def of_a_recipe() -> list[dict[str, Any]]:
        """Each field with its words, limits and default, in the order of the form."""
        return fields.fields()

    return router

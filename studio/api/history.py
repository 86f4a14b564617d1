"""The history drawer: everything that was made, searched page by page; and the sessions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from studio.api.studio import Studio
from studio.history import Wanted


def routes(studio: Studio) -> APIRouter:
    router = APIRouter()
    history = studio.library.history

    @router.get("/api/history")
    def search(
        search: str = "",
        model: str = "",
        stars: Annotated[int, Query(ge=0, le=5)] = 0,
        since: str = "",
        until: str = "",
        session: str = "",
        after: str = "",
        limit: int = 50,
    ) -> dict[str, Any]:
        found = history.search(Wanted(search, model, stars, since, until, session), after, limit)
        return {"takes": found.takes, "total": found.total, "next": found.next}

    @router.get("/api/history/models")
    def models() -> list[str]:
        """The models to filter by."""
        return history.models()

    @router.get("/api/sessions")
    def sessions(search: str = "", limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[Any]:
        return history.session_cards(search, limit)

    return router

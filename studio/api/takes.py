"""A session with its takes, what a person says about them, and the trash."""

from __future__ import annotations

import re
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from studio import actions, flowcache
from studio.api.studio import Studio
from studio.disk_use import DiskUse
from studio.errors import TakeUnknown
from studio.history import MAX_NOTE, DraftChanged
from studio.session_name import session_name

ID = re.compile(r"[0-9a-f]{16,64}")
MOST_TAKES = 500


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Draft(Asked):
    session: str
    draft: dict[str, Any]
    base_rev: int | None = None


class Lock(Asked):
    session: str
    count: int


class OfSession(Asked):
    session: str


class Stars(Asked):
    stars: int


class Note(Asked):
    note: str = Field(max_length=MAX_NOTE)


class Fork(Asked):
    session: str | None = None


def routes(studio: Studio) -> APIRouter:
    router = APIRouter()
    library = studio.library
    history, trash = library.history, library.trash
    disk_use = DiskUse(library)

    # Sessions

    @router.get("/api/session")
    def session(name: str) -> dict[str, Any]:
        """A name that no session has yet gives an empty one: its first take may be in the queue."""
        tidy = session_name(name, "")
        state = history.session_state(tidy) or {
            "name": tidy,
            "baseline": None,
            "locked": 0,
            "draft_rev": 0,
            "takes_rev": 0,
            "can_undo": False,
        }
        return {
            **state,
            "draft": history.draft(tidy),
            "takes": history.cards(tidy, MOST_TAKES),
            "total": history.count(tidy),
        }

    @router.put("/api/session/draft")
    def save_draft(asked: Draft) -> Any:
        """409 with the newer draft if the one in the library is not the one of `base_rev`."""
        tidy = session_name(asked.session, "")
        try:
            rev = history.save_draft(tidy, asked.draft, asked.base_rev)
        except DraftChanged as error:
            told = {"error": str(error), "draft": error.draft, "draft_rev": error.rev}
            return JSONResponse(told, status_code=409)
        return {"session": tidy, "draft_rev": rev}

    @router.put("/api/session/lock")
    def lock(asked: Lock) -> dict[str, int]:
        return {"locked": history.lock(asked.session, asked.count)}

    @router.post("/api/session/undo")
    def undo(asked: OfSession) -> dict[str, Any]:
        baseline = history.undo(asked.session)
        return {"baseline": baseline, "can_undo": history.can_undo(asked.session)}

    # Takes

    @router.get("/api/takes/{take_id}")
    def take(take_id: str) -> dict[str, Any]:
        card = history.card(known(take_id))
        told = library.read_take(take_id)
        chapters = [chapter.model_dump(mode="json") for chapter in told.chapters]
        return {
            **card,
            "chapters": chapters,
            "recipe": chapters[0]["recipe"],
            "timings": told.timings,
            "software": told.software,
            "flowcache": flowcache.told(library, told),
        }

    @router.post("/api/takes/{take_id}/accept")
    def accept(take_id: str) -> dict[str, Any]:
        chosen, before = actions.accept(library, known(take_id))
        state = history.known_session(chosen.session)
        return {"baseline": chosen.id, "before": before, "can_undo": state["can_undo"]}

    @router.put("/api/takes/{take_id}/stars")
    def rate(take_id: str, asked: Stars) -> dict[str, int]:
        history.rate(known(take_id), asked.stars)
        return {"stars": asked.stars}

    @router.put("/api/takes/{take_id}/note")
    def note(take_id: str, asked: Note) -> dict[str, str]:
        history.note(known(take_id), asked.note)
        return {"note": asked.note}

    @router.post("/api/takes/{take_id}/fork")
    def fork(take_id: str, asked: Fork) -> dict[str, str]:
        forked = actions.fork(library, known(take_id), asked.session)
        return {"take": forked.id, "session": forked.session}

    # The trash

    @router.delete("/api/takes/{take_id}")
    def delete(take_id: str) -> dict[str, Any]:
        trash.put(known(take_id))
        disk_use.look_again()
        return {}

    @router.post("/api/takes/{take_id}/restore")
    def restore(take_id: str) -> dict[str, Any]:
        trash.restore(known(take_id))
        disk_use.look_again()
        return {}

    @router.get("/api/trash")
    def in_trash() -> dict[str, int]:
        return trash.contents()._asdict()

    @router.delete("/api/trash")
    def empty() -> dict[str, int]:
        removed = trash.empty()
        disk_use.look_again()
        return {"removed": removed.takes, "bytes": removed.bytes}

    @router.get("/api/disk")
    def disk() -> dict[str, Any]:
        reading = disk_use.reading()
        return {"bytes": reading.bytes, "free": reading.free}

    return router


def known(take_id: str) -> str:
    """The id, if it has the form of one. Raises TakeUnknown."""
    if not ID.fullmatch(take_id):
        raise TakeUnknown("take", take_id, "No such take.")
    return take_id

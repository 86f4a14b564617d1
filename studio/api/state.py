"""What a page that is open has to know from moment to moment, in one small answer."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

from fastapi import APIRouter, Response

from studio import memory
from studio.api.jobs import told
from studio.api.studio import Studio

ENDED = 8
SESSIONS = 30


def routes(studio: Studio) -> APIRouter:
    router = APIRouter()
    library = studio.library
    boot = uuid.uuid4().hex[:12]

    def now(session: str) -> dict[str, Any]:
        history = library.history
        jobs = library.jobs.queue()
        ended = library.jobs.ended(ENDED)
        # A session is there for the page as soon as its first take is ordered, come of it or not.
        running, over = (job.order.session for job in jobs), (job.order.session for job in ended)
        names = dict.fromkeys([*running, *history.session_names(SESSIONS), *over])
        return {
            "jobs": [told(job) for job in jobs],
            "ended": [told(job) for job in ended],
            "session": history.session_state(session) if session else None,
            "sessions": list(names),
            "history_rev": history.revision(),
            "server": {"boot": boot, "memory": memory.reading()},
        }

    @router.get("/api/state")
    def state(session: str = "", seen: str = "") -> Response:
        """204 if nothing changed since the answer that was called `seen`."""
        found = now(session)
        told_memory = found["server"].pop("memory")
        text = json.dumps(found, sort_keys=True)
        rev = hashlib.sha256(text.encode()).hexdigest()[:16]
        if rev == seen:
            return Response(status_code=204)
        found["server"]["memory"] = told_memory
        return Response(json.dumps({"rev": rev, **found}), media_type="application/json")

    return router

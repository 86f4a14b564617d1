"""The queue: look at a running job, stop it, move it, order it again."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel

from studio.api.studio import Studio
from studio.jobs import Job


class Move(BaseModel):
    """Where a waiting job goes: in front of another one, or to the end."""

    before: int | None = None


def told(job: Job) -> dict[str, Any]:
    """A job as the page shows it."""
    order = job.order
    return {
        "id": job.id,
        "state": job.state.value,
        "kind": "retake" if order.parent else "generate",
        "session": order.session,
        "model": order.recipe.model,
        "prompt": order.recipe.prompt,
        "parent": order.parent,
        "keep": order.keep,
        "segments": len(order.seeds),
        "seeds": list(order.seeds),
        "steps": order.recipe.steps,
        "width": order.width or order.recipe.width,
        "height": order.height or order.recipe.height,
        "frames": order.frames,
        "fps": order.recipe.fps,
        "created": job.created,
        "told": job.told,
        "take": job.take,
        "progress": dict(job.progress),
    }


def routes(studio: Studio) -> APIRouter:
    router = APIRouter(prefix="/api/jobs")
    jobs = studio.library.jobs

    @router.post("/{job}/cancel")
    def cancel(job: int) -> dict[str, int]:
        jobs.cancel(job)
        return {"job": job}

    @router.post("/{job}/move")
    def move(job: int, where: Move) -> dict[str, int]:
        jobs.move(job, where.before)
        return {"job": job}

    @router.post("/{job}/again")
    def again(job: int) -> dict[str, list[int]]:
        """The same order once more: segments that were finished come from disk."""
        return {"jobs": [jobs.submit(jobs.get(job).order)]}

    @router.get("/{job}/preview")
    def preview(job: int) -> Response:
        worker = studio.worker
        picture = worker.preview if worker else None
        if picture is None or picture.job != job:
            return Response(status_code=204)
        # Each has an address of its own; the page shows it in two places.
        headers = {"Cache-Control": "private, max-age=30"}
        return Response(picture.webp, media_type="image/webp", headers=headers)

    return router

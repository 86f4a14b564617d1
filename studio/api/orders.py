"""What a person asks for: takes and retakes go into the queue; an estimate says what they cost."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from studio import actions
from studio.api.studio import Studio
from studio.estimate import estimate as expect
from studio.order import Order
from studio.session_name import free_session

MOST_COPIES = 8


class Generate(BaseModel):
    """A new take from a recipe."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["generate"]
    model: str
    recipe: dict[str, Any] = {}
    seeds: list[int] | None = None
    session: str | None = None
    copies: int = Field(1, ge=1, le=MOST_COPIES)


class Retake(BaseModel):
    """A take that keeps the first segments of another one."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["retake"]
    take: str
    keep: int
    changes: dict[str, Any] = {}
    seeds: list[int] | None = None
    copies: int = Field(1, ge=1, le=MOST_COPIES)


Asked = Annotated[Generate | Retake, Body(discriminator="kind")]


def routes(studio: Studio) -> APIRouter:
    router = APIRouter()
    library, engine = studio.library, studio.engine

    def orders(asked: Generate | Retake) -> list[Order]:
        if asked.kind == "generate":
            prompt = str(asked.recipe.get("prompt") or "")
            session = asked.session or free_session(library, prompt)
            return actions.order_takes(
                library, engine, asked.model, asked.recipe, asked.seeds, session, asked.copies
            )
        return actions.order_retakes(
            library, engine, asked.take, asked.keep, asked.seeds, asked.changes, asked.copies
        )

    @router.post("/api/orders")
    def order(asked: Asked) -> dict[str, Any]:
        made = orders(asked)
        jobs = [library.jobs.submit(one) for one in made]
        return {"jobs": jobs, "session": made[0].session}

    @router.post("/api/estimate")
    def estimate(asked: Asked) -> dict[str, Any]:
        """What the order would come to; refused as the order would be."""
        made = orders(asked)
        one = expect(library, engine, made[0])
        seconds = None if one.seconds is None else one.seconds * len(made)
        return {
            "segments": one.segments,
            "new": one.new,
            "reused": one.reused,
            "copies": len(made),
            "seconds": seconds,
            "loads": one.loads,
            "take": one.take if len(made) == 1 else None,
        }

    return router

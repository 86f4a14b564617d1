"""What a person asks for: takes and retakes go into the queue; an estimate says what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from pipelines.errors import BadInput
from reuse import NotCompatible
from studio import actions, flowcache
from studio.api.refusals import told
from studio.api.studio import Studio
from studio.estimate import estimate as expect
from studio.library import DAMAGED_COPY
from studio.models import Models
from studio.opened import own_copy
from studio.order import Order
from studio.recipe import INPUT_FILES, Recipe, checked_value, replaced_files
from studio.session_name import free_session

MOST_COPIES = 8
FIRST = "Give the file to the studio first."


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
    models = Models(library.folder)

    def orders(asked: Generate | Retake) -> list[Order]:
        if asked.kind == "generate":
            refuse_unknown_model(asked.model)
            given, session = with_own_files(asked.recipe), asked.session or None
            return actions.order_takes(
                library, engine, asked.model, given, asked.seeds, session, asked.copies
            )
        model = asked.changes.get("model")
        if model is not None and model != library.take(asked.take).recipe.model:
            refuse_unknown_model(model)
        changes = with_own_files(asked.changes)
        return actions.order_retakes(
            library, engine, asked.take, asked.keep, asked.seeds, changes, asked.copies
        )

    def refuse_unknown_model(model: Any) -> None:
        """A browser may not make the studio look at any folder it names."""
        if not models.has(model):
            raise BadInput("model", model, "Add its folder in Models first.")

    def with_own_files(given: dict[str, Any]) -> dict[str, Any]:
        """The same, once it is sure that the files it names are copies in this library."""

        def own(name: str, path: Path) -> Path:
            copy = own_copy(library, name, path)
            if copy is None:
                called = library.called(path)
                raise BadInput(name, called or str(path), DAMAGED_COPY if called else FIRST)
            return copy

        files: dict[str, Any] = {}
        for name in INPUT_FILES:
            if (value := given.get(name)) in (None, ""):
                continue
            if name == "loras":
                refuse_files_of_ours(value)
            try:
                files[name] = replaced_files(name, checked_value(name, value), own)
            except BadInput as error:
                fix = error.fix if name == "loras" or error.fix == DAMAGED_COPY else FIRST
                raise BadInput(name, error.value, fix) from None
        return {**given, **files}

    def refuse_files_of_ours(loras: Any) -> None:
        """What reads like a file on the hub must not be one that lies where the studio runs."""
        for one in loras if isinstance(loras, list) else ():
            file = one.get("file") if isinstance(one, dict) else None
            if isinstance(file, str) and not Path(file).is_absolute() and Path(file).exists():
                raise BadInput("loras", file, FIRST)

    def in_its_session(asked: Generate | Retake, made: list[Order]) -> list[Order]:
        """The orders in the session that was named; else in a new one, called by the prompt."""
        if asked.kind == "retake" or asked.session:
            return made
        session = free_session(library, made[0].recipe.prompt)
        return [one.model_copy(update={"session": session}) for one in made]

    @router.post("/api/orders")
    def order(asked: Asked) -> dict[str, Any]:
        checked = orders(asked)
        with library.naming, library.database.writing():
            made = in_its_session(asked, checked)
            jobs = [library.jobs.submit(one) for one in made]
        return {"jobs": jobs, "session": made[0].session}

    def held(recipe: Recipe) -> dict[str, Any] | None:
        """How the model would be held in memory, and what else could be chosen."""
        pipeline = engine.pipeline(recipe.model)
        choice = pipeline.holding(recipe)
        if choice is None:
            return None
        return {
            "weights": choice.weights,
            "offload": choice.offload,
            "reason": choice.reason,
            "offered": pipeline.offered(recipe),
        }

    @router.post("/api/estimate")
    def estimate(asked: Asked) -> dict[str, Any]:
        """What the order would come to, or `refused`: why it would be. Either is an answer: who
        asks while a form is half filled in has done nothing wrong."""
        try:
            made = in_its_session(asked, orders(asked))
            one = expect(library, engine, made[0])
        except (BadInput, NotCompatible) as error:
            return {"refused": told(error)}
        seconds = None if one.seconds is None else one.seconds * len(made)
        return {
            "segments": one.segments,
            "new": one.new,
            "reused": one.reused,
            "copies": len(made),
            "seconds": seconds,
            "loads": one.loads,
            "width": one.width,
            "height": one.height,
            "frames": one.frames,
            "take": one.take if len(made) == 1 else None,
            "held": held(made[0].chapters[-1].recipe),
            "flowcache": flowcache.promise(made[0].chapters[-1].recipe),
        }

    return router

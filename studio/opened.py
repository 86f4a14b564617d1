"""A result file from anywhere: the recipe and the seeds that it tells about itself.

Such a file may have been made by anybody, so nothing in it is believed: the recipe has to be one,
and it may name no file but the copies in this library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import BadInput
from studio import media
from studio.chapter import Chapter, check_later
from studio.errors import TakeUnknown
from studio.library import Library
from studio.recipe import INPUT_FILES, MAX_SEED, Recipe

NOT_OURS = "It holds no recipe of Retake. Open an mp4 or png that was made here."
_ID = re.compile(r"[0-9a-f]{16,64}")
Seed = Annotated[int, Field(strict=True, ge=0, le=MAX_SEED)]


class _Embedded(BaseModel):
    """What `studio.take.embedded` wrote. What else is in there is of no use here."""

    model_config = ConfigDict(extra="ignore")

    id: str = ""
    recipe: Recipe
    chapters: tuple[Chapter, ...] = ()
    seeds: tuple[Seed, ...]


@dataclass(frozen=True)
class Opened:
    """What a file brings back."""

    chapters: tuple[Chapter, ...]
    """At least one; their files are copies in the library, or None."""
    seeds: tuple[int, ...]
    lost: tuple[str, ...]
    """The input files of the recipe that are not in this library."""
    take: str | None
    """The id of the take, if the library has it."""
    session: str | None
    """The session of that take."""


def open_result(library: Library, path: Path, name: str = "") -> Opened:
    """Raises BadInput, whose field is `file`, for a file that holds no recipe, or one that makes no
    sense. `name` is what the person calls the file."""
    told = media.read_metadata(path)
    called = name or path.name
    if told is None:
        raise BadInput("file", called, NOT_OURS)
    try:
        found = _Embedded.model_validate(told)
        first, *later = found.chapters or (Chapter(first=0, recipe=found.recipe),)
        check_later(later, len(found.seeds))
        given, most = len(found.seeds), first.recipe.segments
        # A voice may need fewer segments than the recipe lets it have.
        fewer = given < most and first.recipe.audio is None
        if first.first != 0 or given > most or fewer:
            raise ValueError("its seeds do not fit its segments")
    except (ValidationError, ValueError) as error:
        raise BadInput("file", called, f"Its recipe is damaged: {_why(error)}.") from None
    lost: list[str] = []
    chapters = tuple(
        chapter.model_copy(update={"recipe": _with_own_files(library, chapter.recipe, lost)})
        for chapter in (first, *later)
    )
    take, session = _known(library, found.id)
    return Opened(chapters, found.seeds, tuple(dict.fromkeys(lost)), take, session)


def _with_own_files(library: Library, recipe: Recipe, lost: list[str]) -> Recipe:
    def own(field: str, given: Path) -> Path | None:
        copy = own_copy(library, field, given)
        if copy is None:
            lost.append(field)
        return copy

    return recipe.with_files(own)


def own_copy(library: Library, field: str, given: Path) -> Path | None:
    """The copy in the library that a path like `inputs/<key>/image.png` names, else None."""
    parts = given.parts[-3:]
    if len(parts) != 3 or parts[0] != "inputs" or not _ID.fullmatch(parts[1]):
        return None
    path = library.folder / "inputs" / parts[1] / parts[2]
    if given not in (path, Path(*parts)):
        return None
    if path.stem != INPUT_FILES[field] or not path.is_file() or not library.has_input(parts[1]):
        return None
    return path


def _known(library: Library, take_id: str) -> tuple[str | None, str | None]:
    """(take, session) if the library lists the take: one in the trash is not listed."""
    if not _ID.fullmatch(take_id):
        return None, None
    try:
        return take_id, library.history.row(take_id).session
    except TakeUnknown:
        return None, None


def _why(error: Any) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "recipe"
        return f"{where}: {first['msg']}"[:200]
    return str(error)

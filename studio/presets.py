"""Presets: recipe fields under a name, to begin other takes with."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import BadInput
from studio.database import Database
from studio.recipe import INPUT_FILES, checked_value, replaced_files
from studio.take import now

MAX_NAME = 60
MOST = 200


@dataclass(frozen=True)
class Preset:
    """Some fields of a recipe; the others are whatever they are when it is used."""

    name: str
    recipe: dict[str, Any]


class Presets:
    """The presets of a library."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database, self.folder = database, folder

    def all(self) -> list[Preset]:
        """Sorted by name. Files are named from the root."""
        rows = self.database.rows("SELECT name, recipe FROM presets ORDER BY lower(name), name")
        return [Preset(name, self._located(json.loads(recipe))) for name, recipe in rows]

    def save(self, name: str, recipe: Mapping[str, Any]) -> Preset:
        """Keeps the fields under a name, in place of what was there; empty ones are left out.

        Raises BadInput for a name, a field or a value that cannot be used, a file that is not in
        the library, and one preset too many.
        """
        tidy = _tidy(name)
        fields = {k: checked_value(k, v) for k, v in recipe.items() if v is not None and v != ""}
        for field in INPUT_FILES:
            if field in fields:
                fields[field] = replaced_files(field, fields[field], self._portable)
        with self.database.writing():
            known = {row[0] for row in self.database.rows("SELECT name FROM presets")}
            if tidy not in known and len(known) >= MOST:
                fix = f"There are {MOST} presets already; delete one first."
                raise BadInput("name", tidy, fix)
            self.database.execute(
                "INSERT INTO presets (name, recipe, created) VALUES (?, ?, ?)"
                " ON CONFLICT (name) DO UPDATE SET recipe = excluded.recipe",
                tidy,
                json.dumps(fields, ensure_ascii=False),
                now(),
            )
        return Preset(tidy, self._located(fields))

    def delete(self, name: str) -> None:
        """Raises BadInput if there is no such preset."""
        with self.database.writing():
            gone = self.database.execute("DELETE FROM presets WHERE name = ?", _tidy(name))
            if not gone.rowcount:
                raise BadInput("name", name, "There is no such preset.")

    def _portable(self, field: str, path: Path) -> Path:
        inputs = self.folder / "inputs"
        if ".." in path.parts or not path.is_relative_to(inputs) or not path.is_file():
            fix = "A preset can hold only a file that was given to the library."
            raise BadInput(field, str(path), fix)
        return path.relative_to(self.folder)

    def _located(self, fields: dict[str, Any]) -> dict[str, Any]:
        files = {
            name: replaced_files(name, fields[name], lambda _, path: self.folder / path)
            for name in INPUT_FILES
            if name in fields
        }
        return {**fields, **files}


def _tidy(name: str) -> str:
    tidy = " ".join(unicodedata.normalize("NFC", name).split())
    if not tidy or len(tidy) > MAX_NAME or not tidy.isprintable():
        raise BadInput("name", name, f"Use 1 to {MAX_NAME} printable characters.")
    return tidy

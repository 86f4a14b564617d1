"""History: sessions and takes in one SQLite file, an index over the manifests on disk.

Ratings, notes and baselines live here alone; everything else can be rebuilt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pipelines.errors import BadInput
from studio.database import Database
from studio.errors import TakeUnknown
from studio.take import Take


@dataclass(frozen=True)
class TakeRow:
    """One take as lists show it."""

    id: str
    session: str
    parent: str | None
    keep: int
    created: str
    model: str
    prompt: str
    segments: int
    seeds: tuple[int, ...]
    seconds: float
    render_seconds: float
    stars: int
    note: str
    baseline: bool


class History:
    """The index of sessions and takes, over an open database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # Takes

    def record(self, take: Take) -> None:
        """Adds a published take; the first of a session becomes its baseline. Again is no harm."""
        with self.database.writing():
            self._insert(take)

    def _insert(self, take: Take) -> None:
        execute = self.database.execute
        execute(
            "INSERT OR IGNORE INTO sessions (id, created, baseline) VALUES (?, ?, ?)",
            take.session,
            take.created,
            take.id,
        )
        execute(
            "INSERT OR IGNORE INTO takes (id, session, parent, keep, created, model, prompt,"
            " segments, seeds, seconds, render_seconds) VALUES (?,?,?,?,?,?,?,?,?,?,?)",
            take.id,
            take.session,
            take.parent,
            take.keep,
            take.created,
            take.recipe.model,
            take.recipe.prompt,
            len(take.segments),
            json.dumps(take.seeds),
            take.seconds(),
            take.timings.get("total", 0.0),
        )
        for part in take.segments:
            execute(
                "INSERT OR IGNORE INTO take_segments VALUES (?,?,?,?)",
                take.id,
                part.index,
                part.id,
                part.seed,
            )

    def take_ids(self) -> set[str]:
        return {row[0] for row in self.database.rows("SELECT id FROM takes")}

    def resolve(self, name: str) -> str:
        """The id of the take called `name`: an id, a unique beginning of one, or `latest`.

        Raises TakeUnknown.
        """
        name = name.strip()
        if name == "latest":
            found = self.database.rows(
                "SELECT id FROM takes ORDER BY created DESC, rowid DESC LIMIT 1"
            )
            if not found:
                raise TakeUnknown("take", name, "There is no take yet; make one with generate.")
            return found[0][0]
        found = self.database.rows(
            "SELECT id FROM takes WHERE substr(id, 1, ?) = ? ORDER BY created DESC LIMIT 9",
            len(name),
            name.lower(),
        )
        if not name or not found:
            fix = "No take begins so; `takes` lists them."
            raise TakeUnknown("take", name, fix)
        if len(found) > 1 and found[0][0] != name:
            several = ", ".join(row[0][:12] for row in found)
            raise TakeUnknown("take", name, f"Several takes begin so ({several}); give more of it.")
        return found[0][0]

    def takes(self, session: str | None = None, limit: int = 100) -> list[TakeRow]:
        """The newest takes first, of one session or of all."""
        where, values = ("WHERE takes.session = ?", [session]) if session else ("", [])
        return self._select(
            f"{where} ORDER BY takes.created DESC, takes.rowid DESC LIMIT ?", [*values, limit]
        )

    def row(self, take_id: str) -> TakeRow:
        """Raises TakeUnknown."""
        rows = self._select("WHERE takes.id = ?", [take_id])
        if not rows:
            raise TakeUnknown("take", take_id, "No such take; `takes` lists them.")
        return rows[0]

    def _select(self, rest: str, values: list[object]) -> list[TakeRow]:
        rows = self.database.rows(
            "SELECT takes.id, session, parent, keep, takes.created, model, prompt, segments, seeds,"
            " seconds, render_seconds, coalesce(stars, 0), coalesce(note, ''),"
            " takes.id = sessions.baseline FROM takes JOIN sessions ON sessions.id = takes.session"
            f" LEFT JOIN marks ON marks.take = takes.id {rest}",
            *values,
        )
        return [
            TakeRow(*row[:8], tuple(json.loads(row[8])), *row[9:13], bool(row[13])) for row in rows
        ]

    # Sessions and baselines

    def sessions(self) -> list[tuple[str, str | None]]:
        """(session, id of its baseline), the newest first."""
        return self.database.rows(
            "SELECT id, baseline FROM sessions ORDER BY created DESC, rowid DESC"
        )

    def baseline(self, session: str) -> str | None:
        found = self.database.rows("SELECT baseline FROM sessions WHERE id = ?", session)
        return found[0][0] if found else None

    def accept(self, take_id: str) -> str | None:
        """Makes a take the baseline of its session; returns the baseline before it."""
        session = self.row(take_id).session
        before = self.baseline(session)
        with self.database.writing():
            self.database.execute("UPDATE sessions SET baseline = ? WHERE id = ?", take_id, session)
        return before

    # Marks

    def rate(self, take_id: str, stars: int) -> None:
        """Raises BadInput unless 0 <= stars <= 5."""
        if not 0 <= stars <= 5:
            raise BadInput("stars", stars, "Give 0 to 5 stars.")
        self._mark(take_id, stars=stars)

    def note(self, take_id: str, text: str) -> None:
        self._mark(take_id, note=text)

    def _mark(self, take_id: str, **values: object) -> None:
        self.row(take_id)
        with self.database.writing():
            self.database.tables["marks"].upsert({"take": take_id, **values}, pk="take")

    # Rebuilding

    def rebuild(self, read: Callable[[], Iterable[Take]]) -> int:
        """Replaces the index by the takes that `read` finds, and returns how many they are.

        Marks stay, and so do baselines whose take is still there; any other session shows its
        first take. Nobody can record a take meanwhile: `read` is called inside the transaction.
        """
        with self.database.writing():
            ordered = sorted(read(), key=lambda take: take.created)
            kept = dict(self.sessions())
            for table in ("take_segments", "takes", "sessions"):
                self.database.execute(f"DELETE FROM {table}")
            for take in ordered:
                self._insert(take)
            for session, baseline in kept.items():
                self._accept_if_there(session, baseline)
        return len(ordered)

    def forget(self, take_ids: Iterable[str]) -> None:
        """Drops takes that are no longer on disk; their marks stay, in case they come back."""
        with self.database.writing():
            for take_id in take_ids:
                self.database.execute("DELETE FROM takes WHERE id = ?", take_id)
                self.database.execute("DELETE FROM take_segments WHERE take = ?", take_id)
            self.database.execute(
                "DELETE FROM sessions WHERE id NOT IN (SELECT session FROM takes)"
            )
            self.database.execute(
                "UPDATE sessions SET baseline = (SELECT id FROM takes WHERE session = sessions.id"
                " ORDER BY created LIMIT 1) WHERE baseline NOT IN (SELECT id FROM takes)"
            )

    def _accept_if_there(self, session: str, baseline: str | None) -> None:
        self.database.execute(
            "UPDATE sessions SET baseline = ? WHERE id = ?"
            " AND EXISTS (SELECT 1 FROM takes WHERE id = ? AND session = ?)",
            baseline,
            session,
            baseline,
            session,
        )

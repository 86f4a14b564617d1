"""The index of takes: recorded, marked, found by name, forgotten, and built anew from the disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pipelines.errors import BadInput
from studio import flowcache, words
from studio.database import Database
from studio.errors import TakeUnknown
from studio.history.cards import Card, ChapterCard, cards
from studio.history.sessions import EARLIER
from studio.recipe import Recipe
from studio.take import Take, now

MAX_NOTE = 20_000


@dataclass(frozen=True)
class TakeRow:
    """One take as the commands list it."""

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


def _chapter(first: int, recipe: Recipe) -> ChapterCard:
    told = ChapterCard(first=first, prompt=recipe.prompt)
    if words := flowcache.in_words(recipe):
        told["flowcache"] = words
    return told


class Index:
    """The part of `History` that knows takes."""

    database: Database

    # Recording

    def record(self, *takes: Take) -> None:
        """Adds published takes; the first of a session becomes its baseline. Again is no harm."""
        with self.database.writing():
            for take in takes:
                self._insert(take)

    def _insert(self, take: Take) -> None:
        execute = self.database.execute
        execute(
            "INSERT OR IGNORE INTO sessions (id, created, used) VALUES (?, ?, ?)",
            take.session,
            take.created,
            take.created,
        )
        added = execute(
            "INSERT OR IGNORE INTO takes (id, session, parent, keep, created, model, prompt,"
            " segments, seeds, seconds, render_seconds, fps, width, height, result, frames,"
            " chapters, number) SELECT ?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,"
            " coalesce(max(number), 0) + 1 FROM takes",
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
            take.recipe.fps,
            *take.size,
            take.result,
            json.dumps([part.frames for part in take.segments]),
            json.dumps(
                [_chapter(part.first, part.recipe) for part in take.chapters], ensure_ascii=False
            ),
        )
        if not added.rowcount:
            return
        for part in take.segments:
            execute(
                "INSERT OR IGNORE INTO take_segments (take, position, segment, seed)"
                " VALUES (?,?,?,?)",
                take.id,
                part.index,
                part.id,
                part.seed,
            )
        prompts = "\n".join(part.recipe.prompt for part in take.chapters)
        execute(
            "INSERT OR REPLACE INTO texts (rowid, prompts, note)"
            " SELECT number, ?, '' FROM takes WHERE id = ?",
            words.tokens(prompts),
            take.id,
        )
        self._note_words(take.id)
        execute(
            "UPDATE sessions SET used = max(coalesce(used, ''), ?) WHERE id = ?",
            take.created,
            take.session,
        )
        self._give_back_baseline(take.id, take.session)

    def _give_back_baseline(self, take: str, session: str) -> None:
        """A take that comes back from the trash is the baseline again if it was, and nobody has
        accepted another meanwhile; a take of a session without a baseline is it anyway."""
        execute = self.database.execute
        execute(
            "UPDATE sessions SET baseline = ? WHERE id = ? AND (baseline IS NULL OR EXISTS (SELECT"
            " 1 FROM trashed WHERE take = ? AND baseline AND instead IS sessions.baseline))",
            take,
            session,
            take,
        )
        execute("DELETE FROM trashed WHERE take = ?", take)

    # Asking

    def take_ids(self) -> set[str]:
        return {row[0] for row in self.database.rows("SELECT id FROM takes")}

    def incomplete(self) -> set[str]:
        """Takes that an earlier version recorded, of which lists do not know everything."""
        rows = self.database.rows("SELECT id FROM takes WHERE fps IS NULL OR number IS NULL")
        return {row[0] for row in rows}

    def complete(self, takes: Iterable[Take]) -> None:
        """Records takes anew that are `incomplete`."""
        with self.database.writing():
            for take in takes:
                self._remove(take.id)
                self._insert(take)

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
            " takes.id IS sessions.baseline FROM takes JOIN sessions ON sessions.id = takes.session"
            f" LEFT JOIN marks ON marks.take = takes.id {rest}",
            *values,
        )
        return [
            TakeRow(*row[:8], tuple(json.loads(row[8])), *row[9:13], bool(row[13])) for row in rows
        ]

    def cards(self, session: str, limit: int) -> list[Card]:
        """The newest takes of a session as the page shows them, the newest first; its baseline is
        among them however old it is."""
        newest = "SELECT id FROM takes WHERE session = ? ORDER BY created DESC, id DESC LIMIT ?"
        baseline = "SELECT baseline FROM sessions WHERE id = ?"
        where = f"takes.id IN ({newest}) OR takes.id = ({baseline})"
        return cards(self.database, where, session, limit, session)

    def count(self, session: str) -> int:
        """How many takes a session has."""
        return self.database.rows("SELECT count(*) FROM takes WHERE session = ?", session)[0][0]

    def card(self, take_id: str) -> Card:
        """Raises TakeUnknown."""
        found = cards(self.database, "takes.id = ?", take_id)
        if not found:
            raise TakeUnknown("take", take_id, "No such take; `takes` lists them.")
        return found[0]

    # Marks

    def rate(self, take_id: str, stars: int) -> None:
        """Raises BadInput unless 0 <= stars <= 5, TakeUnknown."""
        if not 0 <= stars <= 5:
            raise BadInput("stars", stars, "Give 0 to 5 stars.")
        self._mark(take_id, "stars", stars)

    def note(self, take_id: str, text: str) -> None:
        """Raises BadInput for a note of more than MAX_NOTE characters, TakeUnknown."""
        if len(text) > MAX_NOTE:
            raise BadInput("note", text, f"A note may have {MAX_NOTE} characters; shorten it.")
        self._mark(take_id, "note", text)

    def _mark(self, take_id: str, name: str, value: object) -> None:
        with self.database.writing():
            self.row(take_id)
            self.database.execute(
                f"INSERT INTO marks (take, {name}) VALUES (?, ?)"
                f" ON CONFLICT (take) DO UPDATE SET {name} = excluded.{name}",
                take_id,
                value,
            )
            if name == "note":
                self._note_words(take_id)

    def _note_words(self, take_id: str) -> None:
        """Makes the note of a take found by search."""
        rows = self.database.rows("SELECT note FROM marks WHERE take = ?", take_id)
        self.database.execute(
            "UPDATE texts SET note = ? WHERE rowid = (SELECT number FROM takes WHERE id = ?)",
            words.tokens(rows[0][0]) if rows else "",
            take_id,
        )

    # Forgetting and rebuilding

    def rebuild(self, read: Callable[[], Iterable[Take]]) -> int:
        """Replaces the index by the takes that `read` finds, and returns how many they are.

        Marks, drafts and locks stay, and so do baselines whose take is still there; any other
        session shows one of its takes. Nobody can record a take meanwhile: `read` is called inside
        the transaction.
        """
        with self.database.writing():
            ordered = sorted(read(), key=lambda take: take.created)
            for table in ("take_segments", "takes", "texts"):
                self.database.execute(f"DELETE FROM {table}")
            for take in ordered:
                self._insert(take)
            self._tidy_sessions()
        return len(ordered)

    def forget(self, take_ids: Iterable[str]) -> None:
        """Drops takes that are no longer on disk; their marks stay, in case they come back."""
        with self.database.writing():
            for take_id in take_ids:
                self._remove(take_id)
            self._tidy_sessions()

    def trash(self, take_id: str) -> None:
        """Drops a take that goes into the trash, and remembers what it takes to bring it back.

        Its session shows the baseline before instead, else the parent, else the newest take that is
        left. Does nothing if the take is not in the index.
        """
        with self.database.writing():
            rows = self.database.rows("SELECT session, parent FROM takes WHERE id = ?", take_id)
            if not rows:
                return
            session, parent = rows[0]
            was_baseline = self.database.rows(
                "SELECT baseline IS ? FROM sessions WHERE id = ?", take_id, session
            )[0][0]
            self._remove(take_id)
            if was_baseline:
                self._show_another(session, parent)
            self.database.execute(
                "INSERT OR REPLACE INTO trashed (take, session, at, baseline, instead)"
                " SELECT ?, ?, ?, ?, baseline FROM sessions WHERE id = ?",
                take_id,
                session,
                now(),
                was_baseline,
                session,
            )

    def trashed(self) -> set[str]:
        """The takes that went into the trash."""
        return {row[0] for row in self.database.rows("SELECT take FROM trashed")}

    def forget_trashed(self, take_ids: Iterable[str]) -> None:
        """Drops takes that are no longer in the trash, and sessions that nothing is left of."""
        with self.database.writing():
            for take_id in take_ids:
                self.database.execute("DELETE FROM trashed WHERE take = ?", take_id)
            self._tidy_sessions()

    def _remove(self, take_id: str) -> None:
        self.database.execute(
            "DELETE FROM texts WHERE rowid = (SELECT number FROM takes WHERE id = ?)", take_id
        )
        self.database.execute("DELETE FROM takes WHERE id = ?", take_id)
        self.database.execute("DELETE FROM take_segments WHERE take = ?", take_id)

    def _tidy_sessions(self) -> None:
        """Drops sessions of which nothing is left, and mends baselines whose take is gone."""
        self.database.execute(
            "DELETE FROM sessions WHERE draft IS NULL AND id NOT IN (SELECT session FROM takes)"
            " AND id NOT IN (SELECT session FROM trashed)"
        )
        rows = self.database.rows(
            "SELECT id FROM sessions WHERE baseline NOT IN (SELECT id FROM takes)"
        )
        for (session,) in rows:
            self._show_another(session, None)

    def _show_another(self, session: str, preferred: str | None) -> None:
        """Gives a session whose baseline is gone another one; none if it has no take left."""
        self.database.execute(
            f"UPDATE sessions SET baseline = coalesce(({EARLIER}),"
            " (SELECT id FROM takes WHERE id = ? AND session = sessions.id),"
            " (SELECT id FROM takes WHERE session = sessions.id ORDER BY created DESC LIMIT 1))"
            " WHERE id = ?",
            preferred,
            session,
        )

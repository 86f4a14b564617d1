"""Sessions: a draft, a baseline with its undo, a lock on what is good; with takes or without."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypedDict

from pipelines.errors import BadInput
from studio import words
from studio.database import Database
from studio.errors import TakeUnknown
from studio.take import now

MAX_DRAFT = 256 * 1024
"""Bytes of a draft as JSON."""


class SessionUnknown(TakeUnknown):
    """No session goes by the name that was given."""


class DraftChanged(Exception):
    """Another tab saved the draft of the session meanwhile."""

    def __init__(self, draft: dict[str, Any] | None, rev: int) -> None:
        super().__init__(draft, rev)
        self.draft, self.rev = draft, rev

    def __str__(self) -> str:
        return "The draft was changed elsewhere meanwhile; nothing was saved."


class SessionState(TypedDict):
    """What a page that is open watches of its session."""

    name: str
    baseline: str | None
    locked: int
    """How many segments from the first on are not to change."""
    draft_rev: int
    takes_rev: int
    """Another number after every change of a take, a mark, the baseline or the lock."""
    can_undo: bool


class SessionCard(TypedDict):
    """A session in a list."""

    name: str
    created: str
    takes: int
    baseline: str | None
    poster: str | None
    """Id of the segment whose poster stands for the session."""


_STILL_THERE = (
    "FROM accepted JOIN takes ON takes.id = accepted.take AND takes.session = accepted.session"
    " WHERE accepted.session = sessions.id AND accepted.take IS NOT sessions.baseline"
)
EARLIER = f"SELECT accepted.take {_STILL_THERE} ORDER BY accepted.id DESC LIMIT 1"
"""Inside a question about `sessions`: the last baseline before this one that is still there."""
_LOCKED = "min(locked, coalesce((SELECT segments FROM takes WHERE takes.id = baseline), 0))"


class Sessions:
    """The part of `History` that knows sessions."""

    database: Database

    def sessions(self) -> list[tuple[str, str | None]]:
        """(session, id of its baseline), the newest first."""
        return self.database.rows(
            "SELECT id, baseline FROM sessions ORDER BY created DESC, rowid DESC"
        )

    def session_names(self, limit: int) -> list[str]:
        """Those that were used last come first."""
        rows = self.database.rows(
            "SELECT id FROM sessions ORDER BY used DESC, rowid DESC LIMIT ?", limit
        )
        return [row[0] for row in rows]

    def session_state(self, session: str) -> SessionState | None:
        """None if there is no such session."""
        rows = self.database.rows(
            f"SELECT id, baseline, {_LOCKED}, draft_rev, rev, EXISTS ({EARLIER})"
            " FROM sessions WHERE id = ?",
            session,
        )
        if not rows:
            return None
        name, baseline, locked, draft_rev, takes_rev, can_undo = rows[0]
        return SessionState(
            name=name,
            baseline=baseline,
            locked=locked,
            draft_rev=draft_rev,
            takes_rev=takes_rev,
            can_undo=bool(can_undo),
        )

    def known_session(self, session: str) -> SessionState:
        """Raises SessionUnknown."""
        state = self.session_state(session)
        if state is None:
            raise SessionUnknown("session", session, "There is no such session.")
        return state

    def session_cards(self, search: str = "", limit: int = 100) -> list[SessionCard]:
        """Those whose name holds every word of `search`; those used last come first."""
        wanted = words.folded(search).split()
        rows = self.database.rows(
            "SELECT sessions.id, sessions.created, coalesce(counted.takes, 0), baseline,"
            " (SELECT segment FROM take_segments WHERE take = baseline AND position = 0)"
            " FROM sessions LEFT JOIN"
            " (SELECT session, count(*) AS takes FROM takes GROUP BY session) AS counted"
            " ON counted.session = sessions.id ORDER BY used DESC, sessions.rowid DESC"
        )
        found = [row for row in rows if all(word in words.folded(row[0]) for word in wanted)]
        names = SessionCard.__annotations__
        return [SessionCard(**dict(zip(names, row, strict=True))) for row in found[:limit]]

    # Draft and lock

    def draft(self, session: str) -> dict[str, Any] | None:
        """What was saved last; None if nothing was, or there is no such session."""
        rows = self.database.rows("SELECT draft FROM sessions WHERE id = ?", session)
        return json.loads(rows[0][0]) if rows and rows[0][0] else None

    def save_draft(self, session: str, draft: Mapping[str, Any], base: int | None = None) -> int:
        """Keeps the draft of a session, which is made if need be; returns how often it was saved.
        With `base`, only if it was saved so often until now.

        Raises BadInput for what is no JSON object of at most MAX_DRAFT bytes, DraftChanged.
        """
        try:
            if not isinstance(draft, Mapping):
                raise TypeError("it is no object")
            text = json.dumps(dict(draft), ensure_ascii=False, allow_nan=False)
            data = text.encode("utf-8", "replace")
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput("draft", type(draft).__name__, f"Give a JSON object: {error}.") from None
        if len(data) > MAX_DRAFT:
            fix = f"A draft may have {MAX_DRAFT} bytes as JSON; shorten it."
            raise BadInput("draft", f"{len(data)} bytes", fix)
        with self.database.writing():
            state = self.session_state(session)
            saved = state["draft_rev"] if state else 0
            if base not in (None, saved):
                raise DraftChanged(self.draft(session), saved)
            when = now()
            self.database.execute(
                "INSERT OR IGNORE INTO sessions (id, created, used) VALUES (?, ?, ?)",
                session,
                when,
                when,
            )
            changed = self.database.execute(
                "UPDATE sessions SET draft = ?, draft_rev = draft_rev + 1, used = ?"
                " WHERE id = ? RETURNING draft_rev",
                data.decode(),
                when,
                session,
            )
            return changed.fetchall()[0][0]

    def lock(self, session: str, count: int) -> int:
        """Locks the first `count` segments of the baseline; returns how many are locked.

        Raises SessionUnknown, BadInput if the baseline has fewer.
        """
        self.known_session(session)
        with self.database.writing():
            rows = self.database.rows(
                "SELECT takes.segments FROM sessions JOIN takes ON takes.id = baseline"
                " WHERE sessions.id = ?",
                session,
            )
            most = rows[0][0] if rows else 0
            if not 0 <= count <= most:
                raise BadInput("count", count, f"Lock 0 to {most} segments.")
            self._touch(session, locked=count)
        return count

    # Baseline

    def baseline(self, session: str) -> str | None:
        found = self.database.rows("SELECT baseline FROM sessions WHERE id = ?", session)
        return found[0][0] if found else None

    def accept(self, take_id: str) -> str | None:
        """Makes a take the baseline of its session; returns the baseline before it, which `undo`
        brings back. What is locked stays so as far as both begin alike. Raises TakeUnknown."""
        with self.database.writing():
            session = self.row(take_id).session
            before = self.baseline(session)
            if before not in (None, take_id):
                self.database.execute(
                    "INSERT INTO accepted (session, take, at) VALUES (?, ?, ?)",
                    session,
                    before,
                    now(),
                )
            self._show(session, take_id)
        return before

    def can_undo(self, session: str) -> bool:
        """Whether there is a baseline to go back to. Raises SessionUnknown."""
        return self.known_session(session)["can_undo"]

    def undo(self, session: str) -> str:
        """Brings back the baseline before this one, and returns its id; passes over takes that are
        gone. Raises SessionUnknown, BadInput if there is none."""
        with self.database.writing():
            self.known_session(session)
            rows = self.database.rows(
                f"SELECT (SELECT accepted.id {_STILL_THERE} ORDER BY accepted.id DESC LIMIT 1)"
                " FROM sessions WHERE id = ?",
                session,
            )
            if rows[0][0] is None:
                raise BadInput("session", session, "There is nothing to undo.")
            undone = self.database.execute(
                "DELETE FROM accepted WHERE session = ? AND id >= ? RETURNING id, take",
                session,
                rows[0][0],
            )
            take = min(undone.fetchall())[1]
            self._show(session, take)
        return take

    def _show(self, session: str, take: str) -> None:
        """Makes a take the baseline; the lock shrinks to where it begins like the one before."""
        rows = self.database.rows(
            "SELECT locked, (SELECT count(*) FROM take_segments AS old"
            " JOIN take_segments AS new USING (position, segment)"
            " WHERE old.take = baseline AND new.take = ?) FROM sessions WHERE id = ?",
            take,
            session,
        )
        # The id of a segment is made of those before it: after one that differs, all do.
        self._touch(session, baseline=take, locked=min(rows[0]))

    def _touch(self, session: str, **values: object) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        self.database.execute(
            f"UPDATE sessions SET {names}, used = ? WHERE id = ?",
            *values.values(),
            now(),
            session,
        )

"""History: sessions and takes in one SQLite file, an index over the manifests on disk.

Ratings, notes, baselines and drafts live here alone; everything else can be rebuilt.
"""

from __future__ import annotations

from studio.database import Database
from studio.history.cards import Card, ListCard
from studio.history.index import MAX_NOTE, Index, TakeRow
from studio.history.search import Found, Search, Wanted
from studio.history.sessions import (
    MAX_DRAFT,
    DraftChanged,
    SessionCard,
    Sessions,
    SessionState,
    SessionUnknown,
)

__all__ = [
    "MAX_DRAFT",
    "MAX_NOTE",
    "Card",
    "DraftChanged",
    "Found",
    "History",
    "ListCard",
    "SessionCard",
    "SessionState",
    "SessionUnknown",
    "TakeRow",
    "Wanted",
]


class History(Index, Sessions, Search):
    """The index of takes, the sessions and the search, over an open database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def revision(self) -> int:
        """Counts up whenever any process changes a take, a mark, a baseline, a lock or the list of
        sessions. Cheap enough to ask several times a second."""
        return self.database.rows("SELECT rev FROM revision")[0][0]

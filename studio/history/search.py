"""Search over everything that was made: words of prompts and notes, and filters, page by page."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pipelines.errors import BadInput
from studio import words
from studio.database import Database
from studio.history.cards import NEWEST, ListCard, list_cards

MOST = 500


@dataclass(frozen=True)
class Wanted:
    """What is looked for; what is left empty does not count."""

    text: str = ""
    """Words of which each must begin a word of the prompts or the note."""
    model: str = ""
    stars: int = 0
    """At least so many."""
    since: str = ""
    until: str = ""
    """ISO 8601, both ends included; a day alone is a whole day, in UTC."""
    session: str = ""


@dataclass(frozen=True)
class Found:
    """One page of takes, the newest first."""

    takes: list[ListCard]
    total: int
    """Of all pages."""
    next: str | None
    """What to pass as `after` for the next page."""


class Search:
    """The part of `History` that finds takes by what was written about them."""

    database: Database

    def search(self, wanted: Wanted, after: str = "", limit: int = 50) -> Found:
        """Raises BadInput for a date, a page or a number that is none."""
        if not 1 <= limit <= MOST:
            raise BadInput("limit", limit, f"Use a number from 1 to {MOST}.")
        where, values = _where(wanted)
        total = self.database.rows(f"SELECT count(*) FROM takes WHERE {where}", *values)[0][0]
        if after:
            where += " AND (takes.created, takes.id) < (?, ?)"
            values += _place(after)
        page = f"SELECT id FROM takes WHERE {where} {NEWEST} LIMIT ?"
        takes = list_cards(self.database, f"takes.id IN ({page})", *values, limit + 1)
        more = len(takes) > limit
        return Found(takes[:limit], total, _after(takes[limit - 1]) if more else None)

    def models(self) -> list[str]:
        """The models of all takes, sorted."""
        rows = self.database.rows("SELECT DISTINCT model FROM takes ORDER BY model")
        return [row[0] for row in rows]


def _where(wanted: Wanted) -> tuple[str, list[object]]:
    parts: list[str] = ["1"]
    values: list[object] = []
    filters: list[tuple[str, object]] = [
        (
            "takes.number IN (SELECT rowid FROM texts WHERE texts MATCH ?)",
            words.query(wanted.text),
        ),
        ("takes.model = ?", wanted.model),
        ("takes.session = ?", wanted.session),
        ("takes.id IN (SELECT take FROM marks WHERE stars >= ?)", wanted.stars),
        ("takes.created >= ?", wanted.since and _moment("since", wanted.since)),
        ("takes.created <= ?", wanted.until and _moment("until", wanted.until, end_of_day=True)),
    ]
    for part, value in filters:
        if value:
            parts.append(part)
            values.append(value)
    return " AND ".join(parts), values


def _moment(field: str, text: str, end_of_day: bool = False) -> str:
    """UTC in the form of `take.now`. Raises BadInput."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if end_of_day and len(text.strip()) <= len("2026-01-31"):
            moment += timedelta(days=1, microseconds=-1)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadInput(field, text, "Give a date like 2026-01-31.") from None
    return moment.isoformat(timespec="microseconds")


def _after(last: ListCard) -> str:
    """The place behind a take, to go on from even if that take is gone by then."""
    return base64.urlsafe_b64encode(f"{last['created']} {last['id']}".encode()).decode()


def _place(after: str) -> list[object]:
    try:
        created, take = base64.urlsafe_b64decode(after).decode().split(" ")
    except (binascii.Error, ValueError):
        raise BadInput("after", after, "Pass what the page before gave as `next`.") from None
    return [created, take]

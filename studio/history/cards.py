"""Cards: takes as the page shows them, many in one question to the database."""

from __future__ import annotations

import json
from typing import NotRequired, TypedDict

from studio.database import Database


class ChapterCard(TypedDict):
    first: int
    """Index of its first segment, from 0."""
    prompt: str
    flowcache: NotRequired[str]
    """Its settings at a glance; missing where it is off."""


class ListCard(TypedDict):
    """A take in a list."""

    id: str
    session: str
    parent: str | None
    keep: int
    created: str
    model: str
    prompt: str
    segments: int
    seeds: list[int]
    seconds: float
    render_seconds: float
    stars: int
    note: str
    baseline: bool
    fps: int
    width: int
    height: int
    result: str
    chapters: list[ChapterCard]
    poster: str | None
    """Id of the segment whose poster stands for the take."""


class Card(ListCard):
    """A take with what the timeline needs of its segments."""

    segment_ids: list[str]
    frames: list[list[int]]
    """[first, last + 1] of each segment in the result."""


_PLAIN = (
    *("id", "session", "parent", "keep", "created", "model", "prompt", "segments", "seconds"),
    *("render_seconds", "fps", "width", "height", "result"),
)
_POSTER = "(SELECT segment FROM take_segments WHERE take = takes.id AND position = 0)"
_SEGMENTS = (
    "(SELECT json_group_array(segment) FROM"
    " (SELECT segment FROM take_segments WHERE take = takes.id ORDER BY position))"
)
_COLUMNS = (
    *(f"takes.{name}" for name in _PLAIN),
    "takes.seeds",
    "takes.chapters",
    "coalesce(marks.stars, 0)",
    "coalesce(marks.note, '')",
    "takes.id IS sessions.baseline",
    _POSTER,
)
_FROM = (
    " FROM takes JOIN sessions ON sessions.id = takes.session"
    " LEFT JOIN marks ON marks.take = takes.id"
)
NEWEST = "ORDER BY takes.created DESC, takes.id DESC"


def list_cards(database: Database, where: str, *values: object) -> list[ListCard]:
    """The takes of `where`, the newest first, without their segments."""
    sql = f"SELECT {', '.join(_COLUMNS)} {_FROM} WHERE {where} {NEWEST}"
    return [_list_card(row) for row in database.rows(sql, *values)]


def cards(database: Database, where: str, *values: object) -> list[Card]:
    """The takes of `where`, the newest first, with their segments."""
    columns = ", ".join((*_COLUMNS, "takes.frames", _SEGMENTS))
    rows = database.rows(f"SELECT {columns} {_FROM} WHERE {where} {NEWEST}", *values)
    return [
        Card(
            **_list_card(row[:-2]),
            frames=json.loads(row[-2] or "[]"),
            segment_ids=json.loads(row[-1]),
        )
        for row in rows
    ]


def _list_card(row: tuple) -> ListCard:
    seeds, chapters, stars, note, baseline, poster = row[len(_PLAIN) :]
    return ListCard(
        **dict(zip(_PLAIN, row, strict=False)),
        seeds=json.loads(seeds),
        chapters=json.loads(chapters or "[]"),
        stars=stars,
        note=note,
        baseline=bool(baseline),
        poster=poster,
    )

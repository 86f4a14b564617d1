"""The tables of history.sqlite, version by version: each function leads from the one before.

A new file goes through all of them, so an old one that is brought up to date looks the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from sqlite_utils import Database as Tables

from studio import words

FIRST_TABLES: Mapping[str, dict] = {
    "sessions": {"columns": {"id": str, "created": str, "baseline": str}, "pk": "id"},
    "takes": {
        "columns": {
            "id": str,
            "session": str,
            "parent": str,
            "keep": int,
            "created": str,
            "model": str,
            "prompt": str,
            "segments": int,
            "seeds": str,
            "seconds": float,
            "render_seconds": float,
        },
        "pk": "id",
    },
    "take_segments": {
        "columns": {"take": str, "position": int, "segment": str, "seed": int},
        "pk": ("take", "position"),
    },
    "marks": {
        "columns": {"take": str, "stars": int, "note": str},
        "pk": "take",
        "defaults": {"stars": 0, "note": ""},
        "not_null": {"stars", "note"},
    },
    "jobs": {
        "columns": {
            "id": int,
            "request": str,
            "state": str,
            "position": float,
            "created": str,
            "owner": str,
            "cancel": int,
            "progress": str,
            "told": str,
            "take": str,
        },
        "pk": "id",
    },
}
FIRST_INDEXES = (
    ("takes", ["session", "created"]),
    ("takes", ["created"]),
    ("take_segments", ["segment"]),
    ("jobs", ["state", "position"]),
)

SECOND_COLUMNS: Mapping[str, dict[str, type]] = {
    "sessions": {"draft": str, "used": str},
    # Null in a take that the first version recorded; `Library` reads its manifest again.
    "takes": {
        "fps": int,
        "width": int,
        "height": int,
        "result": str,
        "frames": str,
        "chapters": str,
        "number": int,
    },
}
SECOND_TABLES: Mapping[str, dict] = {
    "accepted": {"columns": {"id": int, "session": str, "take": str, "at": str}, "pk": "id"},
    "presets": {"columns": {"name": str, "recipe": str, "created": str}, "pk": "name"},
    "pace": {
        "columns": {
            "id": int,
            "model": str,
            "width": int,
            "height": int,
            "frames": int,
            "guided": int,
            "steps": int,
            "denoise": float,
            "other": float,
            "created": str,
        },
        "pk": "id",
    },
    "trashed": {
        "columns": {"take": str, "session": str, "at": str, "baseline": int, "instead": str},
        "pk": "take",
    },
    "revision": {"columns": {"id": int, "rev": int}, "pk": "id"},
}
SECOND_INDEXES = (
    ("takes", ["created", "id"]),
    ("takes", ["model"]),
    ("sessions", ["used"]),
    ("accepted", ["session"]),
    ("pace", ["model"]),
)

_COUNT = "UPDATE revision SET rev = rev + 1;"
_MARK = "UPDATE sessions SET rev = (SELECT rev FROM revision) WHERE id ="
# One counter for all that lists show. A session keeps the count of its own last change, so that
# whoever polls sees at once what any process wrote.
TRIGGERS: Mapping[str, str] = {
    "AFTER INSERT ON takes": f"{_COUNT} {_MARK} NEW.session;",
    "AFTER UPDATE ON takes": f"{_COUNT} {_MARK} NEW.session;",
    "AFTER DELETE ON takes": f"{_COUNT} {_MARK} OLD.session;",
    "AFTER INSERT ON marks": f"{_COUNT} {_MARK} (SELECT session FROM takes WHERE id = NEW.take);",
    "AFTER UPDATE ON marks": f"{_COUNT} {_MARK} (SELECT session FROM takes WHERE id = NEW.take);",
    "AFTER INSERT ON sessions": f"{_COUNT} {_MARK} NEW.id;",
    "AFTER UPDATE OF baseline, locked ON sessions": f"{_COUNT} {_MARK} NEW.id;",
    "AFTER DELETE ON sessions": _COUNT,
    "AFTER DELETE ON trashed": _COUNT,
}

# A token is whatever `words.tokens` put between two spaces.
FULL_TEXT = (
    "CREATE VIRTUAL TABLE texts USING fts5(prompts, note, prefix='1 2 3',"
    " tokenize=\"unicode61 remove_diacritics 0 categories 'L* M* N* P* S* C*'\")"
)


def first(tables: Tables) -> None:
    _create(tables, FIRST_TABLES, FIRST_INDEXES)


def second(tables: Tables) -> None:
    """Drafts, locks, undo, the trash, presets, pace and search; loses nothing of the first."""
    for table, columns in SECOND_COLUMNS.items():
        for name, kind in columns.items():
            tables[table].add_column(name, kind)
    for name in ("draft_rev", "locked", "rev"):
        tables["sessions"].add_column(name, int, not_null_default=0)
    _create(tables, SECOND_TABLES, SECOND_INDEXES)
    tables.execute("INSERT INTO revision (id, rev) VALUES (1, 1)")
    tables.execute(
        "UPDATE sessions SET rev = 1, used = coalesce("
        "(SELECT max(created) FROM takes WHERE session = sessions.id), created)"
    )
    tables.execute("UPDATE takes SET number = rowid")
    tables["takes"].create_index(["number"], unique=True)
    tables.execute(FULL_TEXT)
    takes = tables.execute(
        "SELECT id, number, prompt, coalesce(note, '') FROM takes"
        " LEFT JOIN marks ON marks.take = takes.id"
    ).fetchall()
    for take, number, prompt, note in takes:
        chapters = json.dumps([{"first": 0, "prompt": prompt}], ensure_ascii=False)
        tables.execute("UPDATE takes SET chapters = ? WHERE id = ?", [chapters, take])
        tables.execute(
            "INSERT INTO texts (rowid, prompts, note) VALUES (?, ?, ?)",
            [number, words.tokens(prompt), words.tokens(note)],
        )
    for number, (when, do) in enumerate(TRIGGERS.items()):
        tables.execute(f"CREATE TRIGGER count_{number} {when} BEGIN {do} END")


def third(tables: Tables) -> None:
    """When a job ended. Null in those that ended before."""
    tables["jobs"].add_column("ended", str)


VERSIONS: tuple[Callable[[Tables], None], ...] = (first, second, third)


def _create(tables: Tables, shapes: Mapping[str, dict], indexes) -> None:
    for name, shape in shapes.items():
        options = {k: v for k, v in shape.items() if k != "columns"}
        tables[name].create(shape["columns"], **options)
    for table, columns in indexes:
        tables[table].create_index(columns)

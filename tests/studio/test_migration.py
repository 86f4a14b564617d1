"""A library of an earlier version is brought up to date, and nothing in it is lost."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from studio.database import SCHEMA_VERSION, Database
from studio.history import History, Wanted
from studio.library import Library
from tests.studio.conftest import ROOT, environment
from tests.studio.histories import make_take, publish

FIRST_VERSION = """
CREATE TABLE "sessions" ("id" TEXT PRIMARY KEY, "created" TEXT, "baseline" TEXT);
CREATE TABLE "takes" (
   "id" TEXT PRIMARY KEY, "session" TEXT, "parent" TEXT, "keep" INTEGER, "created" TEXT,
   "model" TEXT, "prompt" TEXT, "segments" INTEGER, "seeds" TEXT, "seconds" REAL,
   "render_seconds" REAL
);
CREATE TABLE "take_segments" (
   "take" TEXT, "position" INTEGER, "segment" TEXT, "seed" INTEGER,
   PRIMARY KEY ("take", "position")
);
CREATE TABLE "marks" (
   "take" TEXT PRIMARY KEY, "stars" INTEGER NOT NULL DEFAULT 0, "note" TEXT NOT NULL DEFAULT ''
);
CREATE TABLE "jobs" (
   "id" INTEGER PRIMARY KEY, "request" TEXT, "state" TEXT, "position" REAL, "created" TEXT,
   "owner" TEXT, "cancel" INTEGER, "progress" TEXT, "told" TEXT, "take" TEXT
);
CREATE INDEX "idx_takes_session_created" ON "takes" ("session", "created");
CREATE INDEX "idx_takes_created" ON "takes" ("created");
CREATE INDEX "idx_take_segments_segment" ON "take_segments" ("segment");
CREATE INDEX "idx_jobs_state_position" ON "jobs" ("state", "position");
PRAGMA user_version=1;
"""
TAKE, OTHER = "a" * 40, "b" * 40


def write_first_version(path: Path) -> None:
    """A file as the first version left it: two takes, one of them accepted, marked and noted."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(FIRST_VERSION)
    for take, parent, day in ((TAKE, None, 1), (OTHER, TAKE, 2)):
        connection.execute(
            "INSERT INTO takes VALUES (?, 'sea', ?, 1, ?, 'starter', ?, 2, '[7, 7]', 4.5, 9.25)",
            (take, parent, f"2026-01-0{day}", f"a boat on day {day}"),
        )
        connection.executemany(
            "INSERT INTO take_segments VALUES (?, ?, ?, 7)", [(take, 0, "s"), (take, 1, take[:9])]
        )
    connection.execute("INSERT INTO sessions VALUES ('sea', '2026-01-01', ?)", (OTHER,))
    connection.execute("INSERT INTO marks VALUES (?, 4, 'très bon')", (TAKE,))
    connection.execute("INSERT INTO marks VALUES ('gone', 2, 'kept for its return')")
    connection.execute("INSERT INTO jobs (id, request, state) VALUES (3, '{}', 'done')")
    connection.commit()
    connection.close()


def contents(path: Path) -> dict[str, list]:
    """Every row of the first version's tables, in its columns."""
    columns = {
        "sessions": "id, created, baseline",
        "takes": "id, session, parent, keep, created, model, prompt, segments, seeds, seconds,"
        " render_seconds",
        "take_segments": "*",
        "marks": "*",
        "jobs": "id, request, state, position, created, owner, cancel, progress, told, take",
    }
    with sqlite3.connect(path) as connection:
        return {
            table: connection.execute(f"SELECT {names} FROM {table} ORDER BY 1, 2").fetchall()
            for table, names in columns.items()
        }


def test_a_first_version_keeps_every_row_and_gains_the_rest(tmp_path):
    path = tmp_path / "history.sqlite"
    write_first_version(path)
    before = contents(path)
    database = Database(path)
    assert contents(path) == before
    assert database.rows("PRAGMA user_version") == [(SCHEMA_VERSION,)]
    found = database.rows("SELECT draft, draft_rev, locked, used FROM sessions")
    assert found == [(None, 0, 0, "2026-01-02")]
    for text, take in (("boat", None), ("tres", TAKE)):
        rows = database.rows(
            "SELECT id FROM takes WHERE number IN (SELECT rowid FROM texts WHERE texts MATCH ?)",
            text,
        )
        assert len(rows) == 2 if take is None else rows == [(take,)]
    chapters = database.rows("SELECT chapters FROM takes WHERE id = ?", TAKE)[0][0]
    assert json.loads(chapters) == [{"first": 0, "prompt": "a boat on day 1"}]
    assert [row.id for row in History(database).takes("sea")] == [OTHER, TAKE]
    database.close()


def test_what_the_first_version_did_not_note_is_read_from_the_takes(tmp_path):
    folder = tmp_path / "library"
    takes = [make_take(number, prompt="a boat", later="a balloon") for number in (1, 2)]
    with Library(folder) as library:
        for take in takes:
            publish(library, take)
        library.history.note(takes[0].id, "très bon")
        library.history.accept(takes[1].id)
        before = library.history.cards("sea", 9)
        rows = contents(folder / "history.sqlite")
    for path in folder.glob("history.sqlite*"):
        path.unlink()
    write_first_version(folder / "history.sqlite")
    with sqlite3.connect(folder / "history.sqlite") as connection:
        for table, found in rows.items():
            connection.execute(f"DELETE FROM {table}")
            for row in found:
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
    with Library(folder) as library:
        assert library.history.cards("sea", 9) == before
        assert library.history.incomplete() == set()
        assert library.history.search(Wanted("balloon bon")).total == 1


def test_a_file_brought_up_to_date_looks_like_a_new_one(tmp_path):
    def shape(path: Path) -> set[tuple]:
        database = Database(path)
        tables = database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        found = {
            (table, *column[1:])
            for (table,) in tables
            for column in database.rows(f"PRAGMA table_info({table})")
        }
        found |= set(database.rows("SELECT type, name FROM sqlite_master WHERE type <> 'table'"))
        database.close()
        return found

    write_first_version(tmp_path / "old.sqlite")
    assert shape(tmp_path / "old.sqlite") == shape(tmp_path / "new.sqlite")


@pytest.mark.parametrize("old", [True, False], ids=["first version", "no file"])
def test_several_processes_may_bring_it_up_to_date_at_once(tmp_path, old):
    path = tmp_path / "history.sqlite"
    if old:
        write_first_version(path)
    program = (
        "import sys; from pathlib import Path; from studio.database import Database;"
        "sys.stdout.write('ready'); sys.stdout.flush(); sys.stdin.read(1);"
        "Database(Path(sys.argv[1])).close()"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for process in started:
        assert process.stdout.read(5) == b"ready"
    for process in started:
        process.stdin.write(b"x")
        process.stdin.flush()
    for process in started:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
    database = Database(path)
    assert database.rows("SELECT count(*), max(rev) FROM revision") == [(1, 1)]
    assert len(contents(path)["takes"]) == (2 if old else 0)
    database.close()


def test_an_error_that_is_no_damage_leaves_the_file_where_it_is(tmp_path):
    path = tmp_path / "history.sqlite"
    write_first_version(path)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE pace (something)")
    with pytest.raises(sqlite3.Error):
        Database(path)
    assert list(tmp_path.glob("*damaged*")) == []
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        connection.execute("DROP TABLE pace")
    Database(path).close()
    assert len(contents(path)["takes"]) == 2


def test_a_second_version_keeps_its_jobs_in_their_order(tmp_path):
    path = tmp_path / "history.sqlite"
    Database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE jobs DROP COLUMN ended")
        for number in (1, 2):
            connection.execute(
                "INSERT INTO jobs (id, request, state, position, told) VALUES (?, '{}', ?, ?, 'x')",
                (number, "done", number),
            )
        connection.execute("PRAGMA user_version=2")
    before = contents(path)
    database = Database(path)
    assert contents(path) == before
    assert database.rows("SELECT id, ended FROM jobs") == [(1, None), (2, None)]
    assert database.rows("PRAGMA user_version") == [(SCHEMA_VERSION,)]
    database.close()


def test_a_take_of_the_first_version_that_cannot_be_read_is_left_out_until_it_can(tmp_path):
    folder = tmp_path / "library"
    with Library(folder) as library:
        one, two = (publish(library, make_take(number)) for number in (1, 2))
        library.database.execute("UPDATE takes SET fps = NULL, result = NULL, frames = NULL")
    manifest = folder / "takes" / one.id / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(b"{")
    with Library(folder) as library:
        assert [card["id"] for card in library.history.cards("sea", 9)] == [two.id]
        assert library.history.baseline("sea") == two.id
    manifest.write_bytes(whole)
    with Library(folder) as library:
        cards = library.history.cards("sea", 9)
        assert [(card["id"], card["result"]) for card in cards] == [
            (two.id, "result.mp4"),
            (one.id, "result.mp4"),
        ]

"""History is an index over the manifests; only marks and baselines live there alone."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from reuse import FormatTooNew
from studio.database import Database
from studio.errors import BadInput, TakeUnknown
from studio.history import History
from studio.library import Library
from tests.studio.histories import make_take, opened


@pytest.fixture
def history(tmp_path):
    with opened(tmp_path) as history:
        yield history


def test_takes_come_newest_first_and_by_session(history):
    for number, session in enumerate(["sea", "sea", "hills"]):
        history.record(make_take(number, session))
    assert [row.seeds for row in history.takes()] == [(2, 2), (1, 1), (0, 0)]
    assert [row.session for row in history.takes("sea")] == ["sea", "sea"]
    assert history.takes()[0].seconds == pytest.approx(57 / 12)


def test_a_take_goes_by_its_id_a_unique_beginning_or_latest(history):
    takes = [make_take(number) for number in (1, 2, 17)]
    for take in takes:
        history.record(take)
    assert history.resolve(takes[1].id) == takes[1].id
    assert history.resolve(takes[1].id[:3].upper()) == takes[1].id
    assert history.resolve("latest") == takes[2].id
    with pytest.raises(TakeUnknown, match="Several"):
        history.resolve("1")
    for name in ("", "zz", "%", "_"):
        with pytest.raises(TakeUnknown):
            history.resolve(name)


def test_the_first_take_is_the_baseline_until_another_is_accepted(history):
    one, two = make_take(1), make_take(2)
    history.record(one)
    history.record(two)
    assert history.baseline("sea") == one.id
    assert history.accept(two.id) == one.id
    assert history.baseline("sea") == two.id
    history.record(one)
    assert history.baseline("sea") == two.id


def test_marks_and_baselines_outlive_a_rebuild(history):
    one, two = make_take(1), make_take(2, parent=make_take(1).id)
    history.record(one)
    history.record(two)
    history.rate(two.id, 4)
    history.note(two.id, "better 🌊 ${x}")
    history.accept(two.id)
    assert history.rebuild(lambda: [two, one]) == 2
    row = history.row(two.id)
    assert (row.stars, row.note, row.baseline) == (4, "better 🌊 ${x}", True)
    assert len(history.takes()) == 2


def test_stars_out_of_range_are_bad_input(history):
    history.record(make_take(1))
    with pytest.raises(BadInput, match="stars"):
        history.rate(make_take(1).id, 6)
    with pytest.raises(TakeUnknown):
        history.rate("nothing", 1)


def test_a_file_that_is_no_database_is_put_aside(tmp_path):
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"this is no database" * 100)
    database = Database(path)
    assert History(database).takes() == []
    database.close()
    assert list(tmp_path.glob("history.sqlite.damaged-*"))


def test_an_index_of_a_newer_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "history.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version=99")
    before = path.read_bytes()
    with pytest.raises(FormatTooNew, match="99"):
        Database(path)
    assert path.read_bytes() == before


def test_many_threads_and_a_second_connection_write_at_once(tmp_path, history):
    second = Database(tmp_path / "history.sqlite")
    other = History(second)

    def write(into: History, start: int) -> None:
        for number in range(start, start + 20):
            into.record(make_take(number))
            into.rate(make_take(number).id, number % 5)

    threads = [
        threading.Thread(target=write, args=(into, 100 * k))
        for k, into in enumerate((history, other, history, other))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    second.close()
    assert len(history.takes(limit=1000)) == 80


def test_a_take_that_was_published_and_not_recorded_is_found_at_the_next_start(library, generate):
    take = generate([1], segments=1).take
    library.database.execute("DELETE FROM takes")
    with Library(library.folder) as again:
        assert again.history.resolve("latest") == take.id

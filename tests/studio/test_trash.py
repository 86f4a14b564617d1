"""What is deleted can come back as it was, until the trash is emptied, whatever dies meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from studio import actions, doctor, verify
from studio.errors import BadInput, TakeUnknown
from studio.history import Wanted
from studio.library import Library
from studio.take import Take
from tests.studio.conftest import PROMPT, ROOT, environment
from tests.studio.histories import make_take
from tests.studio.histories import publish as publish_take


@pytest.fixture
def publish(library):
    """Puts a take into the library: `publish(2, parent=one)`."""

    def put(number: int, session: str = "sea", parent: Take | None = None) -> Take:
        return publish_take(library, make_take(number, session, parent.id if parent else None))

    return put


def state(library: Library) -> dict:
    """All that lists show."""
    takes = library.history.search(Wanted(), limit=500).takes
    return {"takes": takes, "sessions": library.history.sessions()}


def test_a_deleted_take_leaves_the_lists_and_comes_back_as_it_was(library, publish):
    one = publish(1)
    two = publish(2, parent=one)
    library.history.rate(two.id, 5)
    library.history.note(two.id, "the best balloon")
    before = state(library)
    library.trash.put(two.id)
    assert [row.id for row in library.history.takes()] == [one.id]
    assert library.history.search(Wanted("balloon")).total == 0
    assert list(library.store.keys("takes")) == [one.id]
    assert library.known_take(two.id) is None
    assert library.trash.contents().takes == 1 and library.trash.contents().bytes > 500
    assert library.trash.restore(two.id).id == two.id
    assert state(library) == before
    assert library.history.search(Wanted("balloon")).total == 1
    assert library.is_whole(library.read_take(two.id))
    assert library.trash.contents() == (0, 0)


def test_neither_a_restart_nor_a_rebuild_brings_a_deleted_take_back(library, publish):
    one, two = publish(1), publish(2)
    library.trash.put(two.id)
    with Library(library.folder) as again:
        assert again.history.take_ids() == {one.id}
        assert again.rebuild() == 1
        assert again.history.take_ids() == {one.id}
        again.trash.restore(two.id)
        assert again.history.take_ids() == {one.id, two.id}


def test_it_can_be_brought_back_even_after_the_index_is_lost(library, publish):
    one, two = publish(1), publish(2)
    library.trash.put(two.id)
    library.close()
    for path in library.folder.glob("history.sqlite*"):
        path.unlink()
    with Library(library.folder) as again:
        assert again.history.take_ids() == {one.id}
        again.trash.restore(two.id)
        assert again.history.take_ids() == {one.id, two.id}


def test_children_of_a_deleted_take_still_show_where_they_came_from(library, publish):
    one = publish(1)
    two = publish(2, parent=one)
    library.trash.put(one.id)
    cards = library.history.cards("sea", 10)
    assert [(card["id"], card["parent"]) for card in cards] == [(two.id, one.id)]


def test_the_baseline_falls_back_to_the_one_before_and_returns(library, publish):
    _, two, three = (publish(number) for number in (1, 2, 3))
    history = library.history
    history.accept(two.id)
    history.accept(three.id)
    library.trash.put(three.id)
    assert history.baseline("sea") == two.id
    library.trash.restore(three.id)
    assert history.baseline("sea") == three.id
    assert history.undo("sea") == two.id


def test_without_one_before_it_falls_back_to_the_parent_and_then_to_the_newest(library, publish):
    one, _ = publish(1), publish(2)
    child, history = publish(3, parent=one), library.history
    with library.database.writing():
        library.database.execute("UPDATE sessions SET baseline = ?", child.id)
    library.trash.put(child.id)
    assert history.baseline("sea") == one.id
    newest = publish(4)
    library.trash.put(one.id)
    assert history.baseline("sea") == newest.id


def test_a_baseline_that_was_accepted_meanwhile_stays(library, publish):
    one, two, _ = (publish(number) for number in (1, 2, 3))
    library.trash.put(one.id)
    library.history.accept(two.id)
    library.trash.restore(one.id)
    assert library.history.baseline("sea") == two.id


def test_a_session_whose_takes_are_all_deleted_is_there_until_the_trash_is_emptied(
    library, publish
):
    one, two = publish(1), publish(2)
    library.history.accept(two.id)
    for take in (two, one):
        library.trash.put(take.id)
    assert library.history.sessions() == [("sea", None)]
    assert not library.history.can_undo("sea")
    for take in (one, two):
        library.trash.restore(take.id)
    assert library.history.baseline("sea") == two.id
    for take in (two, one):
        library.trash.put(take.id)
    library.trash.empty()
    assert library.history.sessions() == []


def test_undo_passes_over_what_is_in_the_trash_and_finds_it_again_after(library, publish):
    one, two, three = (publish(number) for number in (1, 2, 3))
    library.history.accept(two.id)
    library.history.accept(three.id)
    library.trash.put(two.id)
    library.trash.restore(two.id)
    assert library.history.undo("sea") == two.id
    library.history.accept(three.id)
    library.trash.put(two.id)
    assert library.history.undo("sea") == one.id


def test_an_emptied_trash_gives_nothing_back(library, publish):
    publish(1)
    two = publish(2)
    library.history.note(two.id, "kept for its return")
    library.trash.put(two.id)
    size = library.trash.contents().bytes
    assert library.trash.empty() == (1, size)
    assert library.trash.empty() == (0, 0)
    with pytest.raises(TakeUnknown, match="trash"):
        library.trash.restore(two.id)
    library.store.sweep()
    left = {path.name for path in library.folder.rglob("*") if two.id in path.name}
    assert left == set()
    publish(2)
    assert library.history.row(two.id).note == "kept for its return"


def test_what_was_made_again_meanwhile_is_not_doubled(library, publish):
    publish(1)
    two = publish(2)
    library.trash.put(two.id)
    publish(2)
    library.trash.restore(two.id)
    assert library.trash.contents().takes == 0 and len(library.history.takes()) == 2
    library.trash.put(two.id)
    publish(2)
    library.trash.put(two.id)
    assert library.trash.contents().takes == 1 and len(library.history.takes()) == 1
    library.trash.restore(two.id)
    assert library.is_whole(library.read_take(two.id))


def test_only_takes_that_are_there_can_go(library, publish):
    publish(1)
    for name in ("f" * 40, "..", "latest", ""):
        with pytest.raises(TakeUnknown):
            library.trash.put(name)
        with pytest.raises(TakeUnknown):
            library.trash.restore(name)
    assert len(library.history.takes()) == 1


def test_a_take_whose_folder_is_gone_can_be_deleted(library, publish):
    one = publish(1)
    shutil.rmtree(library.takes_folder / one.id)
    library.trash.put(one.id)
    assert library.history.takes() == [] and library.trash.contents().takes == 0


def test_a_take_that_a_job_needs_stays(library, engine, generate):
    take = generate([1], segments=2).take
    order = actions.order_retake(library, engine, take.id, 1)
    job = library.jobs.submit(order)
    with pytest.raises(BadInput, match=f"Job {job} "):
        library.trash.put(take.id)
    library.jobs.claim("somebody")
    with pytest.raises(BadInput, match=f"Job {job} "):
        library.trash.put(take.id)
    assert library.is_whole(library.read_take(take.id)) and library.history.takes()
    library.jobs.release(job, "somebody")
    library.jobs.cancel(job)
    library.trash.put(take.id)
    assert library.history.takes() == []


def test_clean_keeps_what_deleted_takes_are_made_of_until_the_trash_is_emptied(library, generate):
    take = generate([1], segments=2).take
    library.trash.put(take.id)
    assert doctor.clean(library, 0)["entries"] == 0
    assert list(verify.missing(library)) == []
    restored = library.trash.restore(take.id)
    again = generate([1], segments=2)
    assert again.take.id == restored.id and again.sources == ["reused"] * 2
    library.trash.put(take.id)
    library.trash.empty()
    assert doctor.clean(library, 0)["entries"] > len(take.segments)
    assert not list(library.store.keys("segments")) and not list(library.store.keys("inputs"))


def test_verify_sees_what_is_damaged_in_the_trash_or_missing_from_it(library, generate):
    take = generate([1], segments=2).take
    library.trash.put(take.id)
    result = library.trash.folder / take.id / "result.mp4"
    result.write_bytes(result.read_bytes()[:-1])
    shutil.rmtree(library.folder / "segments" / take.segments[1].id)
    faults = list(verify.missing(library))
    assert {(fault.kind, fault.key) for fault in faults} == {
        ("trash", take.id),
        ("segments", take.segments[1].id),
    }


def test_clean_refuses_while_a_deleted_take_cannot_be_read(library, publish):
    one = publish(1)
    library.trash.put(one.id)
    (library.trash.folder / one.id / "manifest.json").write_text("{}")
    with pytest.raises(BadInput, match="cannot be read"):
        doctor.clean(library, 0)
    assert [fault.kind for fault in library.trash.faults()] == ["trash"]
    library.trash.empty()
    assert doctor.clean(library, 0) == {"entries": 0, "bytes": 0}


DIE = """
import os, signal, sys
from pathlib import Path
from studio.library import Library

folder, what, when, take = sys.argv[1:]
rename = os.rename

def dying(source, target):
    if when == "after":
        rename(source, target)
    os.kill(os.getpid(), signal.SIGKILL)

with Library(Path(folder)) as library:
    os.rename = dying
    getattr(library.trash, what)(take)
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["put", "restore"])
def test_a_process_that_dies_leaves_the_take_here_or_there(library, publish, what, when):
    one, two = publish(1), publish(2)
    library.history.accept(two.id)
    library.history.rate(two.id, 4)
    there = state(library)
    if what == "restore":
        library.trash.put(two.id)
    words = [str(library.folder), what, when, two.id]
    died = subprocess.run([sys.executable, "-c", DIE, *words], cwd=ROOT, env=environment())
    assert died.returncode == -signal.SIGKILL
    gone = (what == "put") == (when == "after")
    with Library(library.folder) as again:
        assert again.history.take_ids() == ({one.id} if gone else {one.id, two.id})
        assert again.history.baseline("sea") == (one.id if gone else two.id)
        if gone:
            again.trash.restore(two.id)
        assert state(again) == there
        assert again.trash.contents() == (0, 0)
        assert list(again.store.verify()) == []


def test_several_processes_delete_and_restore_at_once(library, publish):
    takes = [publish(number) for number in range(1, 9)]
    program = (
        "import sys; from pathlib import Path; from studio.errors import TakeUnknown\n"
        "from studio.library import Library\n"
        "for _ in range(5):\n"
        "    with Library(Path(sys.argv[1])) as library:\n"
        "        for take in sys.argv[2:]:\n"
        "            for act in (library.trash.put, library.trash.restore):\n"
        "                try: act(take)\n"
        "                except TakeUnknown: pass\n"
    )
    ids = [take.id for take in takes]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(library.folder), *order],
            cwd=ROOT,
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for order in (ids, ids[::-1], ids)
    ]
    for process in running:
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
    with Library(library.folder) as again:
        here = set(again.store.keys("takes"))
        assert again.history.take_ids() == here
        assert here | again.trash.ids() == set(ids) and not here & again.trash.ids()
        for take in again.trash.ids():
            again.trash.restore(take)
        assert len(again.history.takes()) == 8
        assert list(again.store.verify()) == []


def test_deleted_by_name_is_not_a_path(library, publish, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "manifest.json").write_text("{}")
    for name in ("../../outside", str(outside)):
        with pytest.raises(TakeUnknown):
            library.trash.restore(name)
    assert outside.is_dir() and os.listdir(outside) == ["manifest.json"]


def test_a_prompt_of_a_deleted_take_can_be_ordered_again(library, generate):
    take = generate([1], segments=1, prompt=PROMPT).take
    library.trash.put(take.id)
    again = generate([1], segments=1, prompt=PROMPT)
    assert again.take.id == take.id and again.sources == ["reused"]
    assert library.is_whole(again.take)
    assert library.history.baseline(take.session) == take.id


@pytest.mark.parametrize("emptied", [False, True], ids=["in the trash", "gone for good"])
def test_a_take_that_comes_back_by_its_child_is_not_the_child_of_its_child(
    library, generate, retake, emptied
):
    one = generate([1, 2], segments=2, steps=1).take
    two = retake(one, 1, [5]).take
    three = retake(two, 1, [6]).take
    library.trash.put(one.id)
    if emptied:
        library.trash.empty()
    again = retake(three, 1, [2]).take
    assert (again.id, again.parent, again.keep) == (one.id, None, 0)
    assert library.history.row(one.id).parent is None
    assert emptied or again.created == one.created
    assert library.trash.contents().takes == 0 and library.history.trashed() == set()
    assert library.is_whole(library.read_take(one.id))


def test_clean_keeps_pictures_that_presets_and_drafts_name(library, tmp_path):
    copies = []
    for name in ("preset", "draft", "nobody"):
        (tmp_path / name).with_suffix(".png").write_bytes(name.encode())
        copies.append(library.adopt_file("image", tmp_path / f"{name}.png"))
    library.presets.save("with a picture", {"image": str(copies[0])})
    library.history.save_draft("sea", {"chapters": [{"recipe": {"image": str(copies[1])}}]})
    assert doctor.clean(library, 0)["entries"] == 1
    assert [copy.is_file() for copy in copies] == [True, True, False]

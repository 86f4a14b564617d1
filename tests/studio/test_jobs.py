"""The queue loses nothing, and the worker does what the queue says."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from studio import actions
from studio.errors import BadInput
from studio.jobs import SignOfLife, State, is_alive
from studio.library import Library
from studio.worker import Worker
from tests.studio.conftest import PROMPT, ROOT, environment


@pytest.fixture
def submit(library, engine):
    """Puts an order for a small take into the queue: `submit(seed=1)`."""

    def put(seed: int = 1, segments: int = 2, steps: int = 2) -> int:
        given = {"prompt": PROMPT, "segments": segments, "steps": steps}
        return library.jobs.submit(actions.order_take(library, engine, "starter", given, [seed]))

    return put


def wait_for(library: Library, job: int, *states: State, seconds: float = 120) -> State:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        state = library.jobs.get(job).state
        if state in states:
            return state
        time.sleep(0.02)
    raise AssertionError(f"job {job} is {state}: {library.jobs.get(job)}")


def test_jobs_run_in_order_and_tell_their_takes(library, engine, submit):
    jobs = [submit(seed) for seed in (1, 2)]
    worker = Worker(library, engine)
    try:
        for job in jobs:
            assert wait_for(library, job, State.DONE, State.FAILED) is State.DONE
    finally:
        worker.stop()
    takes = [library.jobs.get(job).take for job in jobs]
    assert [library.read_take(take).seeds for take in takes] == [[1, 1], [2, 2]]
    assert library.jobs.queue() == []
    assert library.jobs.newest().id == jobs[1]


def test_seeds_are_drawn_when_a_job_is_ordered(library, engine):
    asked = actions.order_take(library, engine, "starter", {"prompt": PROMPT, "segments": 2})
    job = library.jobs.submit(asked)
    assert library.jobs.get(job).order == asked and len(asked.seeds) == 2


def test_bad_input_never_enters_the_queue(library, engine):
    with pytest.raises(BadInput):
        actions.order_take(library, engine, "starter", {"prompt": PROMPT, "width": 97})
    assert library.jobs.queue() == []


def test_waiting_jobs_can_be_moved_and_removed(library, submit):
    one, two, three = submit(1), submit(2), submit(3)
    library.jobs.move(three, before=one)
    assert [job.id for job in library.jobs.queue()] == [three, one, two]
    library.jobs.move(three, before=None)
    assert [job.id for job in library.jobs.queue()] == [one, two, three]
    library.jobs.cancel(two)
    assert library.jobs.get(two).state is State.CANCELLED
    assert [job.id for job in library.jobs.queue()] == [one, three]
    with pytest.raises(BadInput, match="waits"):
        library.jobs.move(two, before=one)
    with pytest.raises(BadInput, match="no such job"):
        library.jobs.cancel(999)


def test_a_running_job_stops_when_it_is_cancelled(library, engine, submit):
    job = submit(segments=40, steps=20)
    worker = Worker(library, engine)
    try:
        wait_for(library, job, State.RUNNING)
        while not library.jobs.get(job).progress.get("step"):
            time.sleep(0.02)
        library.jobs.cancel(job)
        wait_for(library, job, State.CANCELLED, seconds=20)
    finally:
        worker.stop()
    assert list(library.store.keys("takes")) == []


def test_a_failed_job_says_why_and_the_next_one_runs(library, engine, submit, monkeypatch):
    from studio import media

    with monkeypatch.context() as patch:
        patch.setattr(media, "join", lambda *a, **k: (_ for _ in ()).throw(RuntimeError("no")))
        worker = Worker(library, engine)
        try:
            bad = submit(1)
            wait_for(library, bad, State.FAILED)
            assert "join" in library.jobs.get(bad).told
            patch.undo()
            wait_for(library, submit(2), State.DONE)
        finally:
            worker.stop()


def test_a_stopped_worker_leaves_its_job_for_the_next_one(library, engine, submit):
    first, second = submit(1, segments=3, steps=10), submit(2)
    worker = Worker(library, engine)
    wait_for(library, first, State.RUNNING)
    while library.jobs.get(first).progress.get("segment", 0) < 1:
        time.sleep(0.02)
    worker.stop(timeout=30)
    assert [job.id for job in library.jobs.queue()] == [first, second]
    assert library.jobs.get(first).state is State.WAITING
    worker = Worker(library, engine)
    try:
        assert wait_for(library, first, State.DONE, State.FAILED) is State.DONE
    finally:
        worker.stop()
    assert "of 3 segments new" in library.jobs.get(first).told
    assert not library.jobs.get(first).told.startswith("Done. 3 ")


def test_the_job_of_a_killed_process_goes_back_to_the_front(library, submit):
    first, second = submit(1), submit(2)
    script = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from studio.jobs import SignOfLife\nfrom studio.library import Library\n"
        "library = Library(Path(sys.argv[1]))\n"
        "life = SignOfLife(library.folder / 'staging')\n"
        "print(library.jobs.claim(life.owner).id, life.owner, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(library.folder)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
    )
    job, owner = done.stdout.split()
    assert int(job) == first and library.jobs.get(first).state is State.RUNNING
    locks = library.folder / "staging"
    assert not is_alive(locks, owner)
    assert library.jobs.release_those_of_the_dead(locks) == 1
    assert [job.id for job in library.jobs.queue()] == [first, second]


def test_a_job_that_ended_or_changed_hands_is_not_put_back(library, submit):
    job = submit(1)
    library.jobs.claim("one")
    library.jobs.release(job, "another")
    assert library.jobs.get(job).state is State.RUNNING
    library.jobs.finish(job, State.CANCELLED, "Stopped.")
    library.jobs.release(job, "one")
    assert library.jobs.get(job).state is State.CANCELLED


def test_an_order_of_another_version_does_not_stop_the_queue(library, submit):
    odd, fine = submit(1), submit(2)
    library.database.execute(
        "UPDATE jobs SET request = replace(request, '\"prompt\"', '\"prompts\"') WHERE id = ?", odd
    )
    assert [job.id for job in library.jobs.queue()] == [fine]
    assert library.jobs.claim("me") is None
    assert library.jobs.claim("me").id == fine


def test_the_job_of_a_living_worker_is_left_alone_and_given_once(library, submit):
    job = submit(1)
    locks = library.folder / "staging"
    life = SignOfLife(locks)
    try:
        assert library.jobs.claim(life.owner).id == job
        with Library(library.folder) as other:
            assert other.jobs.release_those_of_the_dead(locks) == 0
            assert other.jobs.claim("another") is None
    finally:
        life.close()
    assert not is_alive(locks, life.owner)


def test_a_sweep_leaves_the_sign_of_a_living_worker(library):
    locks = library.folder / "staging"
    life = SignOfLife(locks)
    with Library(library.folder):
        assert is_alive(locks, life.owner)
    life.close()


def test_the_one_that_ended_last_comes_first_wherever_it_stood(library, submit):
    one, two, three = submit(1), submit(2), submit(3)
    library.jobs.cancel(three)
    assert library.jobs.claim("me").id == one
    library.jobs.finish(one, State.DONE, "Done.")
    assert [job.id for job in library.jobs.ended(9)] == [one, three]
    library.jobs.cancel(two)
    assert [job.id for job in library.jobs.ended(9)] == [two, one, three]
    assert library.jobs.newest().id == two


def test_an_order_that_cannot_be_read_is_logged_once(library, submit, caplog):
    odd = submit(1)
    library.database.execute("UPDATE jobs SET request = '{}' WHERE id = ?", odd)
    for _ in range(3):
        library.jobs.queue()
    assert [record.message for record in caplog.records if "left out" in record.message] == [
        f"job {odd} is left out: Field required"
    ]

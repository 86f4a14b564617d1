"""Several real processes on one library: killed at any moment, racing, reading beside writers."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe

import pytest
import torch

from reuse import NotInLibrary, Store, disk
from tests.reuse.conftest import staged


def tell(process, line=""):
    process.stdin.write(line + "\n")
    process.stdin.flush()


def hear(process):
    return process.stdout.readline().strip()


def test_a_process_killed_at_any_moment_leaves_only_whole_entries(store, worker):
    rng = random.Random(1)
    for round in range(8):
        victim = worker("publish_forever", store.root, round)
        assert hear(victim) == "ready"
        time.sleep(rng.uniform(0, 0.08))
        victim.kill()
        out, _ = victim.communicate()
        published = out.split()
        assert list(store.verify()) == []
        keys = [key for key in store.keys("segments") if key.startswith(f"{round}-")]
        # The last one may be in place without the process having lived to say so.
        assert set(published) <= set(keys)
        assert len(keys) <= len(published) + 1
        assert all(store.find("segments", key) for key in keys)
        store.sweep()
        assert list(store.staging.iterdir()) in ([], [store.staging / ".moving.lock"])
    assert store.damaged == []


def test_two_processes_publish_one_key_at_once_and_a_reader_never_sees_half(store, worker):
    keys = 20
    reader = worker("read_until_told", store.root, keys)
    writers = [worker("publish_many", store.root, who, keys) for who in "ab"]
    for process in (reader, *writers):
        assert hear(process) == "ready"
    for process in writers:
        tell(process)
    for process in writers:
        assert hear(process) == "done"
    tell(reader)
    seen, count, *damaged = hear(reader).split()
    assert (seen, damaged) == ("seen", ["damaged", "0"])
    assert int(count) > 0
    assert len(list(store.keys("segments"))) == keys
    assert list(store.verify()) == []
    assert staged(store) == []


def test_collecting_beside_writers_and_readers_never_shows_half(store, worker):
    keys = 20
    reader = worker("read_until_told", store.root, keys)
    collector = worker("collect_until_told", store.root)
    # The same bytes from both: what is collected between two reads may be back at the second.
    writers = [worker("publish_many", store.root, "a", keys) for _ in range(2)]
    for process in (reader, collector, *writers):
        assert hear(process) == "ready"
    for process in writers:
        tell(process)
    for process in writers:
        assert hear(process) == "done"
    for process in (reader, collector):
        tell(process)
    assert hear(reader).startswith("seen ")
    assert hear(reader) == ""
    removed, count = hear(collector).split()
    assert (removed, int(count) > 0) == ("removed", True)
    assert list(store.verify()) == []
    assert staged(store) == []


def test_a_sweep_removes_what_the_dead_left_and_nothing_of_the_living(store, worker):
    living, dead = (worker("stage_and_wait", store.root) for _ in range(2))
    names = hear(living), hear(dead)
    assert store.sweep() == 0
    dead.kill()
    dead.wait()
    assert store.sweep() == 1
    assert {path.name for path in staged(store)} == {names[0], f"{names[0]}.lock"}
    assert (store.staging / names[0] / "half.mp4").exists()
    tell(living)
    living.wait()
    assert staged(store) == []


def test_a_sweep_never_takes_a_folder_from_someone_who_is_just_starting(store, worker):
    sweeper = worker("collect_until_told", store.root)
    assert hear(sweeper) == "ready"
    for _ in range(60):
        with store.stage() as staging:
            staging.file("video.mp4").write_bytes(b"frames")
            assert os.listdir(staging.path) == ["video.mp4"]
    tell(sweeper)
    sweeper.wait()
    assert staged(store) == []


def rank(number, root, link):
    """One rank of a group of two, with a pipe for all that ranks say to each other."""
    mine = {"latents": torch.full((2, 3), float(number))}
    if number == 0:
        with Store(root).stage() as staging:
            link.send(staging.name)
            staging.write_tensors("", mine, rank=0)
            assert link.recv() == "written"
            staging.publish("inputs", "k1", {"world": 2})
    else:
        with Store(root).stage(shared=link.recv()) as staging:
            staging.write_tensors("", mine, rank=1)
            assert Store(root).find("inputs", "k1") is None
        link.send("written")


def test_a_lock_whose_file_is_swept_while_one_waits_for_it_is_made_anew(tmp_path):
    path = tmp_path / "a.lock"
    first = disk.take_lock(path)
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(disk.take_lock, path)
        time.sleep(0.05)
        disk.drop_lock(first, path)
        lock = second.result()
    assert disk.take_lock_of_the_dead(path) is None
    disk.drop_lock(lock)
    assert disk.take_lock_of_the_dead(path) is not None


def test_ranks_write_into_one_folder_that_the_first_publishes(store):
    # Forked, because two more imports of torch would take longer than all other tests here.
    fork = multiprocessing.get_context("fork")
    ranks = [fork.Process(target=rank, args=(i, store.root, end)) for i, end in enumerate(Pipe())]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(30)
        assert process.exitcode == 0
    entry = store.find("inputs", "k1")
    assert set(entry.manifest["files"]) == {"rank_00000.safetensors", "rank_00001.safetensors"}
    assert entry.ranks("") == entry.manifest["world"] == 2
    for i in range(2):
        assert torch.equal(entry.tensors("", rank=i)["latents"], torch.full((2, 3), float(i)))
    assert staged(store) == []


def test_a_member_neither_publishes_nor_removes_the_folder(store):
    with store.stage() as owner:
        with pytest.raises(RuntimeError), store.stage(shared=owner.name) as member:
            member.file("b").write_bytes(b"2")
            with pytest.raises(ValueError, match="only who made"):
                member.publish("inputs", "k1", {})
            raise RuntimeError("this rank failed")
        owner.file("a").write_bytes(b"1")
        assert set(owner.publish("inputs", "k1", {}).manifest["files"]) == {"a", "b"}


@pytest.mark.parametrize("name", ["gone", "../segments", "", ".."])
def test_joining_a_folder_that_is_not_staged_is_refused(store, publish, name):
    publish(store)
    with pytest.raises(NotInLibrary), Store(store.root).stage(shared=name):
        pass

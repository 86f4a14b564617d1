"""A disk with no room, and one that may not be written. The errors are raised at each system call
in turn; where the kernel lets an ordinary user mount a small disk, a real one is filled as well.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from reuse import DiskFull, NotWritable, Store
from tests.reuse.conftest import staged

HERE = Path(__file__).parent
CALLS = ("open", "write", "fsync", "rename", "mkdir")


def write_entry(store, key):
    with store.stage() as staging:
        staging.file("video.mp4").write_bytes(b"frames")
        staging.write_tensors("boundary", {"latents": torch.zeros(8)})
        return staging.publish("segments", key, {})


class FullDisk:
    """Lets `calls` system calls through, then refuses one."""

    def __init__(self, monkeypatch, code, calls, names=CALLS):
        self.left, self.code, self.struck = calls, code, None
        for name in names:
            monkeypatch.setattr(os, name, self.watched(name, getattr(os, name)))

    def watched(self, name, call):
        def watched(*arguments, **named):
            self.left -= 1
            if self.left == -1:
                self.struck = name
                raise OSError(self.code, os.strerror(self.code))
            return call(*arguments, **named)

        return watched


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_at_any_moment_publishes_nothing(tmp_path, monkeypatch, code):
    struck = []
    for calls in range(100):
        store = Store(tmp_path / f"library {calls}")
        with monkeypatch.context() as patch:
            disk = FullDisk(patch, code, calls)
            try:
                write_entry(store, "k1")
            except DiskFull as error:
                assert error.free > 0
                assert str(tmp_path) in str(error)
        if disk.struck is None:
            break
        struck.append(disk.struck)
        assert store.find("segments", "k1") is None
        assert not store.staging.exists() or staged(store) == []
    assert set(struck) == set(CALLS)
    assert store.find("segments", "k1")
    assert list(store.verify()) == []


def test_what_was_published_before_survives_a_full_disk(tmp_path, monkeypatch):
    store = Store(tmp_path / "library")
    write_entry(store, "k1")
    for calls in range(1, 12):
        with monkeypatch.context() as patch:
            FullDisk(patch, errno.ENOSPC, calls)
            with pytest.raises(DiskFull):
                write_entry(store, "k2")
        assert list(store.keys("segments")) == ["k1"]
        assert store.find("segments", "k1")


def test_the_callers_own_writes_are_put_in_words_too(tmp_path):
    store = Store(tmp_path / "library")
    with pytest.raises(DiskFull, match="The disk is full"), store.stage() as staging:
        staging.file("video.mp4").write_bytes(b"frames")
        with open("/dev/full", "wb", buffering=0) as full:
            full.write(b"no room")
    assert staged(store) == []


def test_damage_is_named_even_if_nothing_can_be_moved(tmp_path, monkeypatch):
    store = Store(tmp_path / "library")
    entry = write_entry(store, "k1")
    entry.file("video.mp4").write_bytes(b"broken")
    FullDisk(monkeypatch, errno.ENOSPC, 0, names=("rename",))
    assert store.find("segments", "k1") is None
    assert [fault.file for fault in store.damaged] == ["video.mp4"]


def test_other_errors_pass_unchanged(tmp_path):
    with pytest.raises(PermissionError), Store(tmp_path / "library").stage():
        raise PermissionError(errno.EACCES, "the caller's own", "font.ttf")


FILL = """
import sys
from pathlib import Path
from reuse import DiskFull, Store
store = Store(Path(sys.argv[1]) / "library")
def write_entry(key, size):
    with store.stage() as staging:
        staging.file("video.mp4").write_bytes(b"x" * size)
        staging.publish("segments", key, {})
count = 0
try:
    for count in range(1000):
        write_entry(str(count), 100_000)
except DiskFull as error:
    assert error.free < 200_000, error
assert 0 < count < 20, count
assert not [p for p in store.staging.iterdir() if not p.name.startswith(".")]
assert not list(store.verify())
assert sorted(map(int, store.keys("segments"))) == list(range(count))
assert all(store.find("segments", str(i)) for i in range(count))
for i in range(1000):  # and byte by byte, so that the manifest or a folder is what does not fit
    try:
        write_entry(f"small-{i}", 1)
    except DiskFull:
        break
assert 0 < i < 999, i
assert not list(store.verify())
assert len(list(store.keys("segments"))) == count + i
store.collect({"segments": []}, older_than_s=-1)
write_entry("again", 100_000)
print("whole")
"""
MOUNT = 'mount -t tmpfs -o size=1m,nr_inodes=400 none "$1" && shift && exec "$@"'


def mounted(*command: str) -> subprocess.CompletedProcess:
    """Runs a command that has a full megabyte of disk to itself, mounted at its last argument."""
    with tempfile.TemporaryDirectory() as place:
        unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"]
        return subprocess.run(
            [*unshare, place, *command, place],
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
            capture_output=True,
            text=True,
        )


def disks() -> list[str]:
    """The full disks that can be had here: injected errors always, a real one where allowed."""
    allowed = shutil.which("unshare") and mounted("test", "-d").returncode == 0
    return ["injected", "mounted"] if allowed else ["injected"]


@pytest.mark.parametrize("disk", disks())
def test_a_full_disk_leaves_a_library_that_verifies_and_goes_on(tmp_path, monkeypatch, disk):
    if disk == "mounted":
        result = mounted(sys.executable, "-c", FILL)
        assert (result.stdout, result.stderr) == ("whole\n", "")
        return
    store, room = Store(tmp_path / "library"), 3000
    with monkeypatch.context() as patch:
        write = os.write

        def write_what_fits(file, data):
            nonlocal room
            if room <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done = write(file, data[: min(room, 100)])
            room -= done
            return done

        patch.setattr(os, "write", write_what_fits)
        with pytest.raises(DiskFull):
            for i in range(100):
                write_entry(store, f"k{i}")
    assert len(list(store.keys("segments"))) == i > 0
    assert list(store.verify()) == []
    assert staged(store) == []
    write_entry(store, f"k{i}")


def test_a_library_that_may_only_be_read_is_read(worker):
    # Not in tmp_path: only its owner may enter that.
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        store = Store(Path(place) / "library")
        write_entry(store, "whole")
        write_entry(store, "broken").file("video.mp4").write_bytes(b"broken")
        folders = [path for path in (Path(place), *Path(place).rglob("*")) if path.is_dir()]
        for folder in folders:
            folder.chmod(0o555)
        for file in store.root.rglob(".*.lock"):
            file.chmod(0o444)
        out, _ = worker("read_only", store.root).communicate()
        for folder in folders:
            folder.chmod(0o755)
    lines = out.splitlines()
    assert lines[0] == "whole True"
    assert lines[1].startswith("damaged True segments/broken/video.mp4: ")
    assert lines[2].startswith("refused Cannot write")
    assert "Permission denied" in lines[2]
    assert lines[3] == "swept 0"
    assert NotWritable.__name__ not in out

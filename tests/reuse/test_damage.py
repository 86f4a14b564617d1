from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from reuse import Damaged, FormatTooNew, NotInLibrary, Store, hashes
from reuse.manifest import FORMAT
from tests.reuse.conftest import VIDEO, staged


def contents(folder):
    """Every path below, with what would show a change."""
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.is_dir() or path.read_bytes())
        for path in folder.rglob("*")
    }


def rewrite(entry, **fields):
    path = entry.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def move_in_another(path):
    shutil.rmtree(path.parent)
    shutil.copytree(path.parent.with_name("k2"), path.parent)


DAMAGE = {
    "a flipped bit": ("video.mp4", flip),
    "a truncated file": ("video.mp4", lambda path: os.truncate(path, 10)),
    "a longer file": ("video.mp4", lambda path: path.write_bytes(VIDEO + b"x")),
    "a missing file": ("video.mp4", lambda path: path.unlink()),
    "a folder for a file": ("video.mp4", lambda path: (path.unlink(), path.mkdir())),
    "a flipped bit in the manifest": ("manifest.json", flip),
    "an empty manifest": ("manifest.json", lambda path: path.write_bytes(b"")),
    "a list for a manifest": ("manifest.json", lambda path: path.write_bytes(b"[1]")),
    "a missing manifest": ("manifest.json", lambda path: path.unlink()),
    "another entry's folder": ("manifest.json", move_in_another),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_named_moved_away_and_can_be_made_again(store, publish, damage, caplog):
    name, harm = DAMAGE[damage]
    publish(store, "k1")
    publish(store, "k2")
    assert store.find("segments", "k1")
    harm(store.root / "segments" / "k1" / name)

    (fault,) = store.verify()
    assert (fault.kind, fault.key, fault.file) == ("segments", "k1", name)
    assert store.find("segments", "k1") is None
    assert store.damaged == [fault]
    assert str(fault) in caplog.text
    assert not (store.root / "segments" / "k1").exists()
    publish(store, "k1")
    assert store.find("segments", "k1").file("video.mp4").read_bytes() == VIDEO
    assert store.find("segments", "k2")
    assert list(store.verify()) == []
    assert store.sweep() == 1
    assert staged(store) == []


def test_damage_of_the_same_size_and_time_is_seen_at_once(store, publish):
    for i in range(8):
        path = publish(store, f"k{i}").file("video.mp4")
        before = path.stat()
        assert store.find("segments", f"k{i}")
        flip(path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert store.find("segments", f"k{i}") is None


def test_who_finds_damage_late_does_not_remove_what_was_made_again(store, publish):
    """Many at once find it damaged and make it anew: each ends with a whole entry."""
    for _ in range(5):
        flip(publish(store, "k1").file("video.mp4"))
        barrier = threading.Barrier(6)

        def find_or_make(_, barrier=barrier):
            mine = Store(store.root)
            barrier.wait()
            entry = mine.find("segments", "k1") or publish(mine, "k1")
            return entry.file("video.mp4").read_bytes()

        with ThreadPoolExecutor(6) as pool:
            assert set(pool.map(find_or_make, range(6))) == {VIDEO}
        assert sum(path.name.startswith("segments-k1") for path in staged(store)) == 1
        store.sweep()


def test_a_file_that_was_seen_whole_is_not_read_again(store, publish, monkeypatch):
    monkeypatch.setattr(hashes, "SETTLED_NS", 20_000_000)
    publish(store, "k1")
    time.sleep(0.05)
    assert store.find("segments", "k1")
    monkeypatch.delattr(hashlib, "file_digest")
    assert store.find("segments", "k1")


def test_an_entry_of_a_later_retake_is_refused_and_never_touched(store, publish):
    entry = publish(store, "k1")
    rewrite(entry, format=FORMAT + 1)
    before = contents(entry.path)
    for ask in (store.find, store.manifest, lambda kind, key: publish(store, key, kind)):
        with pytest.raises(FormatTooNew, match=r"k1/manifest\.json.*format 2.*Update Retake"):
            ask("segments", "k1")
    (fault,) = store.verify()
    assert "Update Retake" in fault.what
    assert store.collect({"segments": set()}, older_than_s=-1).entries == 0
    assert contents(entry.path) == before
    assert staged(store) == []


def test_strays_are_passed_over_and_reported(store, publish):
    entry = publish(store, "k1")
    (entry.path.parent / "notes.txt").write_text("mine")
    (entry.path.parent / "holiday pictures").mkdir()
    (entry.path / "extra.bin").write_bytes(b"")
    (entry.path / ".DS_Store").write_bytes(b"")
    assert list(store.keys("segments")) == ["k1"]
    assert store.find("segments", "k1") == entry
    assert store.find("segments", "notes") is None
    assert [(fault.key, fault.file) for fault in store.verify()] == [
        ("holiday pictures", ""),
        ("k1", "extra.bin"),
        ("notes.txt", ""),
    ]
    assert store.collect({"segments": {"k1"}}, older_than_s=-1).entries == 0
    assert (entry.path.parent / "notes.txt").exists()


def test_verify_reads_everything_anew_and_changes_nothing(store, publish):
    for kind in ("inputs", "segments", "takes"):
        publish(store, "k1", kind)
        store.find(kind, "k1")
    flip(store.root / "takes" / "k1" / "video.mp4")
    before = contents(store.root)
    assert [fault.kind for fault in store.verify()] == ["takes"]
    assert list(store.verify(["inputs", "segments"])) == []
    assert contents(store.root) == before


def test_a_manifest_is_read_without_its_files(store, publish):
    entry = publish(store, "k1", seed=7)
    (entry.path / "video.mp4").unlink()
    assert store.manifest("segments", "k1")["seed"] == 7
    flip(entry.path / "manifest.json")
    with pytest.raises(Damaged, match=r"k1/manifest\.json"):
        store.manifest("segments", "k1")
    with pytest.raises(NotInLibrary, match="k9"):
        store.manifest("segments", "k9")

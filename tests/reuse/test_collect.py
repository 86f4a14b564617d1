from __future__ import annotations

import os

import pytest

from tests.reuse.conftest import VIDEO, staged


def age(entry, seconds):
    then = entry.path.stat().st_mtime - seconds
    os.utime(entry.path, (then, then))


def test_collection_takes_what_is_old_and_not_kept(store, publish):
    entries = {key: publish(store, key) for key in ("kept", "old", "new")}
    age(publish(store, "take", "takes"), 1000)
    age(publish(store, "input", "inputs"), 1000)
    for key in ("kept", "old"):
        age(entries[key], 1000)
    size = sum(path.stat().st_size for path in entries["old"].path.iterdir())

    collected = store.collect({"segments": {"kept"}}, older_than_s=500)
    assert collected.removed == (("segments", "old"),)
    assert (collected.entries, collected.bytes) == (1, size)
    assert list(store.keys("segments")) == ["kept", "new"]
    assert list(store.keys("inputs")) == ["input"]
    assert list(store.keys("takes")) == ["take"]
    assert staged(store) == []
    assert store.collect({"inputs": []}, older_than_s=500).entries == 1


def test_finding_an_entry_counts_as_a_use(store, publish):
    age(publish(store, "k1"), 1000)
    store.find("segments", "k1")
    assert store.collect({"segments": []}, older_than_s=500).entries == 0


def test_takes_are_never_collected(store, publish):
    publish(store, "t1", "takes")
    with pytest.raises(ValueError, match="takes"):
        store.collect({"takes": []}, older_than_s=-1)
    assert store.find("takes", "t1")


def test_usage_counts_bytes_of_each_kind(store, publish):
    assert store.usage() == {"inputs": 0, "segments": 0, "takes": 0, "staging": 0}
    entry = publish(store, "k1")
    size = sum(path.stat().st_size for path in entry.path.iterdir())
    with store.stage() as staging:
        staging.file("video.mp4").write_bytes(VIDEO)
        assert store.usage() == {
            "inputs": 0,
            "segments": size,
            "takes": 0,
            "staging": len(VIDEO),
        }

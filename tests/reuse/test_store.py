from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

from reuse import Damaged, FormatTooNew, NotInLibrary, Store, hashes
from reuse.manifest import FORMAT

VIDEO = b"frames " * 50


def contents(folder):
    """Every path below, with what would show a change."""
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.is_dir() or path.read_bytes())
        for path in folder.rglob("*")
    }


def staged(store):
    return [path for path in store.staging.iterdir() if not path.name.startswith(".")]


def rewrite(entry, **fields):
    path = entry.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


# Publishing and finding


def test_what_is_published_is_found_with_its_files_and_fields(store, publish):
    published = publish(store, "k1", seed=7, timings={"denoise": 1.5})
    entry = Store(store.root).find("segments", "k1")
    assert entry == published
    assert entry.file("video.mp4").read_bytes() == VIDEO
    assert entry.manifest["seed"] == 7
    assert entry.manifest["timings"] == {"denoise": 1.5}
    assert entry.manifest["files"]["video.mp4"]["bytes"] == len(VIDEO)
    created = datetime.fromisoformat(entry.manifest["created"])
    assert abs((datetime.now(UTC) - created).total_seconds()) < 60


def test_the_library_has_the_layout_of_the_design(store, publish):
    publish(store, "s1")
    with store.stage() as staging:
        staging.write_tensors("", {"prompt_embeds": torch.zeros(2)})
        staging.publish("inputs", "e1", {})
    files = {str(p.relative_to(store.root)) for p in store.root.rglob("*") if p.is_file()}
    assert files == {
        "segments/s1/manifest.json",
        "segments/s1/video.mp4",
        "inputs/e1/manifest.json",
        "inputs/e1/rank_00000.safetensors",
    }


def test_nothing_is_found_before_it_is_published_or_in_an_empty_library(store):
    assert store.find("segments", "k1") is None
    assert list(store.keys("takes")) == []
    assert list(store.verify()) == []
    assert store.sweep() == 0
    with store.stage() as staging:
        staging.file("video.mp4").write_bytes(VIDEO)
        assert store.find("segments", "k1") is None
    assert store.find("segments", "k1") is None


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_staging_left_by_an_error_leaves_nothing_behind(store, error):
    with pytest.raises(error), store.stage() as staging:
        staging.file("video.mp4").write_bytes(VIDEO)
        raise error
    assert staged(store) == []


def test_the_first_to_publish_a_key_wins_and_the_second_gets_its_entry(store, publish):
    first = publish(store, "k1", who="first")
    second = publish(store, "k1", who="second", files={"video.mp4": b"other"})
    assert second == first
    assert first.file("video.mp4").read_bytes() == VIDEO
    assert staged(store) == []


@pytest.mark.parametrize("there", ["damaged", "file", "empty folder", "stray folder"])
def test_publishing_replaces_what_is_no_whole_entry(store, publish, there):
    path = publish(store, "k1").path
    if there == "damaged":
        (path / "video.mp4").write_bytes(b"broken")
    else:
        shutil.rmtree(path)
        if there == "file":
            path.write_bytes(b"stray")
        else:
            path.mkdir()
        if there == "stray folder":
            (path / "notes.txt").write_bytes(b"mine")
    publish(store, "k1")
    assert store.find("segments", "k1").file("video.mp4").read_bytes() == VIDEO
    assert list(store.verify()) == []


def test_everything_is_flushed_before_the_rename_and_the_folder_after(store, publish, monkeypatch):
    publish(store, "k0")
    calls, fsync, rename = [], os.fsync, os.rename

    def watched_fsync(file):
        calls.append(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    def watched_rename(source, target):
        calls.append("rename")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "rename", watched_rename)
    with store.stage() as staging:
        staging.file("video.mp4").write_bytes(VIDEO)
        staging.publish("segments", "k1", {})
    folder = str(staging.path)
    assert calls == [
        f"{folder}/video.mp4",
        f"{folder}/manifest.json",
        folder,
        "rename",
        str(store.root / "segments"),
    ]


def test_a_staging_folder_is_published_once(store):
    with store.stage() as staging:
        staging.publish("segments", "k1", {})
        with pytest.raises(ValueError, match="only once"):
            staging.publish("segments", "k2", {})
    assert list(store.keys("segments")) == ["k1"]


@pytest.mark.parametrize("name", ["manifest.json", "../x", "a/b", "", ".", "..", ".hidden", "/etc"])
def test_names_that_are_not_plain_files_of_an_entry_are_refused(store, name):
    with store.stage() as staging, pytest.raises(ValueError, match="not a name"):
        staging.file(name)


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "../k1", "a.b", "é", "k" * 200, "k\n"])
def test_keys_that_are_not_plain_are_never_found_nor_published(store, publish, key):
    publish(store, "k1")
    assert store.find("segments", key) is None
    with pytest.raises(ValueError, match="not a key"):
        publish(store, key)
    assert staged(store) == []


def test_an_unknown_kind_is_refused(store, publish):
    for ask in (store.find, store.manifest, lambda kind, key: publish(store, key, kind)):
        with pytest.raises(ValueError, match="inputs, segments, takes"):
            ask("staging", "k1")


@pytest.mark.parametrize(
    ("fields", "error"),
    [({"kind": "x"}, ValueError), ({"s": float("nan")}, TypeError), ({"p": object()}, TypeError)],
)
def test_fields_that_a_manifest_cannot_hold_publish_nothing(store, publish, fields, error):
    with pytest.raises(error, match=next(iter(fields))), store.stage() as staging:
        staging.publish("segments", "k1", fields)
    assert store.find("segments", "k1") is None
    assert staged(store) == []


def test_an_entry_holds_plain_files_only(store):
    with store.stage() as staging:
        (staging.path / "folder").mkdir()
        with pytest.raises(ValueError, match="folder"):
            staging.publish("segments", "k1", {})
        (staging.path / "folder").rmdir()
        staging.file("link").symlink_to("/etc/hostname")
        with pytest.raises(ValueError, match="link"):
            staging.publish("segments", "k1", {})


def test_names_in_any_script_work(tmp_path, publish):
    store = Store(tmp_path / "Bücher 図書館 🎬")
    publish(store, "k1", files={"видео é.mp4": VIDEO}, prompt="舟 — été")
    entry = Store(store.root).find("segments", "k1")
    assert entry.file("видео é.mp4").read_bytes() == VIDEO
    assert entry.manifest["prompt"] == "舟 — été"


# Damage


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
    assert store.collect({"segments": set()}, older_than_s=-1).count == 0
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
    assert store.collect({"segments": {"k1"}}, older_than_s=-1).count == 0
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


# Tensors


def as_bytes(tensor):
    return tensor.detach().contiguous().flatten().view(torch.uint8)


def test_tensors_come_back_bit_for_bit(store):
    base = torch.randn(4, 6)
    tensors = {
        "float": base,
        "view": base[1:],
        "transposed": base.t(),
        "expanded": base[:1].expand(3, 6),
        "trained": torch.nn.Parameter(base),
        "scalar": torch.tensor(float("nan")),
        "empty": torch.zeros(0, 3),
        **{
            str(dtype): torch.tensor([0, 1, 3]).to(dtype)
            for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool)
        },
    }
    with store.stage() as staging:
        path = staging.write_tensors("boundary", tensors)
        assert path.name == "boundary_rank_00000.safetensors"
        entry = staging.publish("segments", "k1", {})
    back = entry.tensors("boundary")
    assert back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype
        assert back[name].shape == tensor.shape
        assert torch.equal(as_bytes(back[name]), as_bytes(tensor))


def test_an_entry_may_have_no_tensors_in_a_file(store):
    with store.stage() as staging:
        staging.write_tensors("boundary", {})
        assert staging.publish("segments", "k1", {}).tensors("boundary") == {}


def test_changing_loaded_tensors_does_not_change_the_library(store):
    with store.stage() as staging:
        staging.write_tensors("boundary", {"latents": torch.zeros(1000)})
        entry = staging.publish("segments", "k1", {})
    entry.tensors("boundary")["latents"].add_(1)
    assert entry.tensors("boundary")["latents"].sum() == 0
    assert list(store.verify()) == []


def test_tensors_that_are_not_there_are_named(store, publish):
    with store.stage() as staging:
        staging.write_tensors("boundary", {"latents": torch.zeros(3)})
        entry = staging.publish("segments", "k1", {})
    with pytest.raises(NotInLibrary, match="boundary_rank_00001"):
        entry.tensors("boundary", rank=1)
    with pytest.raises(NotInLibrary, match=r"poster\.webp"):
        entry.file("poster.webp")
    path = entry.file("boundary_rank_00000.safetensors")
    path.write_bytes(b"no tensors")
    with pytest.raises(Damaged, match="boundary_rank_00000"):
        entry.tensors("boundary")
    path.unlink()
    with pytest.raises(Damaged, match="missing"):
        entry.tensors("boundary")


# Garbage


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
    assert (collected.count, collected.bytes) == (1, size)
    assert list(store.keys("segments")) == ["kept", "new"]
    assert list(store.keys("inputs")) == ["input"]
    assert list(store.keys("takes")) == ["take"]
    assert staged(store) == []
    assert store.collect({"inputs": []}, older_than_s=500).count == 1


def test_finding_an_entry_counts_as_a_use(store, publish):
    age(publish(store, "k1"), 1000)
    store.find("segments", "k1")
    assert store.collect({"segments": []}, older_than_s=500).count == 0


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


# The package


def test_importing_the_package_loads_nothing_heavy():
    heavy = "{'torch', 'safetensors', 'numpy', 'sqlite3', 'studio', 'pipelines', 'asyncio'}"
    code = f"import sys, reuse; print(sorted({heavy} & set(sys.modules)))"
    root = Path(__file__).parents[2]
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=root) == "[]\n"

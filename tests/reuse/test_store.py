from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

from reuse import Store
from tests.reuse.conftest import VIDEO, staged


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


def test_importing_the_package_loads_nothing_heavy():
    heavy = "{'torch', 'safetensors', 'numpy', 'sqlite3', 'studio', 'pipelines', 'asyncio'}"
    code = f"import sys, reuse; print(sorted({heavy} & set(sys.modules)))"
    root = Path(__file__).parents[2]
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=root) == "[]\n"

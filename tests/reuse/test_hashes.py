from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from reuse import FileChanging, FileHashes, hashes

SETTLED_S = 0.03


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def reads(monkeypatch):
    """The files read so far. A file counts as at rest after 30 ms here, to keep tests short."""
    monkeypatch.setattr(hashes, "SETTLED_NS", int(SETTLED_S * 1e9))
    read, digest = [], hashlib.file_digest

    def spy(file, name):
        read.append(file.name)
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", spy)
    return read


def settle():
    time.sleep(SETTLED_S * 2)


def test_a_file_is_read_once_even_by_the_next_process(tmp_path, reads):
    weights, memory = tmp_path / "w.safetensors", tmp_path / "hashes.sqlite"
    weights.write_bytes(b"weights")
    settle()
    for process in (FileHashes(memory), FileHashes(memory)):
        for _ in range(2):
            assert process.of(weights) == hashes.Content(sha256(b"weights"), 7)
    assert len(reads) == 1


def test_an_edited_file_of_the_same_size_and_time_is_read_again(tmp_path, reads):
    path, memory = tmp_path / "a.png", FileHashes(tmp_path / "hashes.sqlite")
    path.write_bytes(b"one")
    before = path.stat()
    settle()
    memory.of(path)
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert memory.of(path).sha256 == sha256(b"two")


def test_a_file_swapped_for_another_of_the_same_size_and_time_is_read_again(tmp_path, reads):
    path, other, memory = tmp_path / "a.png", tmp_path / "b.png", FileHashes()
    path.write_bytes(b"one")
    other.write_bytes(b"two")
    for file in (path, other):
        os.utime(file, (1e9, 1e9))
    settle()
    memory.of(path)
    other.rename(path)
    assert memory.of(path).sha256 == sha256(b"two")


def test_a_file_written_over_and_over_within_one_tick_is_never_mistaken(tmp_path):
    path, memory = tmp_path / "a.png", FileHashes()
    for i in range(300):
        data = b"%03d" % i
        path.write_bytes(data)
        assert memory.of(path).sha256 == sha256(data)


def test_a_file_is_remembered_only_once_it_is_at_rest(tmp_path, reads, monkeypatch):
    path, memory = tmp_path / "a.png", FileHashes()
    monkeypatch.setattr(hashes, "SETTLED_NS", 10**12)
    path.write_bytes(b"one")
    memory.of(path)
    monkeypatch.setattr(hashes, "SETTLED_NS", int(SETTLED_S * 1e9))
    settle()
    for _ in range(3):
        memory.of(path)
    assert len(reads) == 2


def test_a_file_with_a_time_in_the_future_is_remembered_too(tmp_path, reads):
    path, memory = tmp_path / "a.png", FileHashes()
    path.write_bytes(b"one")
    os.utime(path, (4e9, 4e9))
    settle()
    memory.of(path)
    memory.of(path)
    assert len(reads) == 1


def test_a_file_that_is_still_being_written_is_refused(tmp_path, monkeypatch):
    path, digest = tmp_path / "a.png", hashlib.file_digest
    path.write_bytes(b"one")

    def read_while_it_grows(file, name):
        result = digest(file, name)
        with path.open("ab") as other:
            other.write(b"more")
        return result

    monkeypatch.setattr(hashlib, "file_digest", read_while_it_grows)
    with pytest.raises(FileChanging, match=r"a\.png"):
        FileHashes().of(path)


def test_a_hub_blob_is_known_by_its_name(tmp_path, reads):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    for name, blob in {"w.safetensors": "ab" * 32, "config.json": "cd" * 20}.items():
        (blobs / blob).write_bytes(b"content")
        (snapshot / name).symlink_to(f"../../blobs/{blob}")
    memory = FileHashes()
    assert memory.of(snapshot / "w.safetensors") == hashes.Content("ab" * 32, 7)
    assert reads == []
    assert memory.of(snapshot / "config.json").sha256 == sha256(b"content")
    assert memory.of(snapshot).bytes == 14


def test_a_folder_is_the_names_and_contents_of_its_files(tmp_path):
    def model(name, files):
        for file, data in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return FileHashes().of(tmp_path / name)

    files = {"model_index.json": b"{}", "vae/weights": b"123"}
    one = model("one", files)
    assert one.bytes == 5
    assert one == model("two", dict(reversed(files.items())))
    assert one == model("hidden", {**files, ".git/HEAD": b"main", ".DS_Store": b""})
    assert one != model("edited", {**files, "vae/weights": b"124"})
    assert one != model("renamed", {"model_index.json": b"{}", "vae/w": b"123"})
    assert one != model("more", {**files, "vae/extra": b""})


def test_a_folder_that_links_to_itself_ends(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"123")
    (tmp_path / "model" / "again").symlink_to(tmp_path / "model")
    assert FileHashes().of(tmp_path / "model").bytes == 3


def test_a_file_name_that_is_not_unicode_is_hashed(tmp_path, reads):
    path = tmp_path / os.fsdecode(b"\xff.png")
    path.write_bytes(b"one")
    settle()
    memory = FileHashes(tmp_path / "hashes.sqlite")
    assert memory.of(path) == FileHashes(tmp_path / "hashes.sqlite").of(path)
    assert len(reads) == 1


@pytest.mark.parametrize(
    "junk", [b"this is no database, " * 100, b"SQLite format 3\0" + b"\1" * 90]
)
def test_a_damaged_memory_is_started_afresh(tmp_path, reads, junk):
    path, memory = tmp_path / "a.png", tmp_path / "hashes.sqlite"
    path.write_bytes(b"one")
    settle()
    memory.write_bytes(junk)
    for _ in range(3):
        assert FileHashes(memory).of(path).sha256 == sha256(b"one")
    assert len(reads) < 3
    with sqlite3.connect(memory) as db:
        assert db.execute("SELECT count(*) FROM hashes").fetchone() == (1,)


def test_a_memory_that_cannot_be_written_only_costs_time(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"one")
    for place in (tmp_path, path / "hashes.sqlite"):
        assert FileHashes(place).of(path).sha256 == sha256(b"one")


def test_threads_and_processes_share_one_memory(tmp_path, worker, reads):
    folder = tmp_path / "files"
    folder.mkdir()
    for i in range(8):
        (folder / str(i)).write_bytes(b"%d" % i * 1000)
    workers = [worker("hash_files", tmp_path, folder) for _ in range(2)]
    memory = FileHashes(tmp_path / "hashes.sqlite")
    with ThreadPoolExecutor(8) as pool:
        paths = sorted(folder.iterdir()) * 10
        for path, content in zip(paths, pool.map(memory.of, paths), strict=True):
            assert content.sha256 == sha256(path.read_bytes())
    assert [process.communicate()[0] for process in workers] == ["right\n"] * 2

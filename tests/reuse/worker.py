"""The other process of the tests: python worker.py WHAT LIBRARY ARGUMENT... It says what it did on
stdout, a line each, and waits on stdin where a test has to go first."""

from __future__ import annotations

import hashlib
import itertools
import os
import select
import sys
from pathlib import Path

from reuse import FileHashes, NotWritable, Store


def say(*words: object) -> None:
    print(*words, flush=True)


def told() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def write_entry(store: Store, key: str, who: str) -> None:
    """Two files that only belong together if both were written by the same process."""
    with store.stage() as staging:
        staging.file("video.mp4").write_bytes(who.encode() * 20_000)
        staging.file("poster.webp").write_bytes(who.encode())
        staging.publish("segments", key, {"who": who})


def publish_forever(store: Store, who: str) -> None:
    say("ready")
    for i in itertools.count():
        write_entry(store, f"{who}-{i}", who)
        say(f"{who}-{i}")


def publish_many(store: Store, who: str, keys: str) -> None:
    say("ready")
    sys.stdin.readline()
    for i in range(int(keys)):
        write_entry(store, f"k{i}", who)
    say("done")


def read_until_told(store: Store, keys: str) -> None:
    """Says how many entries it read, and `half` at the first that is not one whole."""
    say("ready")
    seen = 0
    while not told():
        for i in range(int(keys)):
            entry = store.find("segments", f"k{i}")
            if entry is None:
                continue
            try:
                video = entry.file("video.mp4").read_bytes()
                poster = entry.file("poster.webp").read_bytes()
            except FileNotFoundError:
                continue  # collected since it was found
            seen += 1
            if not (video == poster * 20_000 and poster.decode() == entry.manifest["who"]):
                return say("half", entry.path)
    say("seen", seen, "damaged", len(store.damaged))


def collect_until_told(store: Store) -> None:
    say("ready")
    removed = 0
    while not told():
        removed += store.collect({"segments": set()}, older_than_s=0).entries
        store.sweep()
    say("removed", removed)


def stage_and_wait(store: Store) -> None:
    with store.stage() as staging:
        staging.file("half.mp4").write_bytes(b"half")
        say(staging.name)
        sys.stdin.readline()


def hash_files(store: Store, folder: str) -> None:
    hashes = FileHashes(store.root / "hashes.sqlite")
    for _ in range(5):
        for path in sorted(Path(folder).iterdir()):
            right = hashlib.sha256(path.read_bytes()).hexdigest()
            if hashes.of(path).sha256 != right:
                return say("wrong", path)
    say("right")


def read_only(store: Store) -> None:
    """The folder is write-protected; whoever runs the tests as root becomes somebody else first."""
    if os.geteuid() == 0:
        os.setuid(65534)
    say("whole", store.find("segments", "whole") is not None)
    say("damaged", store.find("segments", "broken") is None, *store.damaged)
    try:
        with store.stage():
            say("staged")
    except NotWritable as error:
        say("refused", error)
    say("swept", store.sweep())


if __name__ == "__main__":
    what, library, *arguments = sys.argv[1:]
    globals()[what](Store(Path(library)), *arguments)

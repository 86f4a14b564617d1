"""Downloads one model of the hub into its local cache: a process of its own, so that a cancel is
one signal and takes effect at once. Some models come out of several repositories.

`python -m studio.fetch ID` tells its progress as lines of JSON; with `--look` it only says what a
download would come to. Files that are whole are kept, and a file that was cut short goes on where
it stopped: huggingface_hub by itself would begin it anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, BinaryIO

from pipelines.errors import BadInput
from studio.hub_errors import in_words
from studio.hub_files import File, Found, asked, find, is_whole

CONNECTIONS = 4
TELL_SECONDS = 0.2
PIECE_BYTES = 1_000_000
"""What is written at once: so much is lost when a download is stopped."""
SPARE_BYTES = 200_000_000
"""What is left free on the disk."""

_TAG = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def free_bytes(folder: Path) -> int:
    """Room on the disk that holds `folder`, which need not exist yet."""
    return next(shutil.disk_usage(p).free for p in (folder, *folder.parents) if p.exists())


def refuse_full_disk(founds: Sequence[Found]) -> None:
    """Raises BadInput if what is still to come does not fit."""
    missing = sum(found.total - found.bytes for found in founds)
    folder = founds[0].folder
    free = free_bytes(folder)
    if missing + SPARE_BYTES > free:
        fix = (
            f"{missing / 1e9:.1f} GB are still to come, and {free / 1e9:.1f} GB are free where "
            f"models are kept ({folder.parent}). Make room, or set HF_HOME to a larger disk."
        )
        raise BadInput("model", founds[0].repo, fix)


def download(found: Found, count: Callable[[int], None]) -> None:
    """Brings all files, several at a time, and makes the snapshot the one that is used. `count` is
    told of bytes as they arrive, and of those that have to be taken back with a minus."""
    from huggingface_hub import constants, hf_hub_download

    constants.DOWNLOAD_CHUNK_SIZE = PIECE_BYTES

    def bring(file: File) -> None:
        _fill(found, file, count)
        hf_hub_download(found.repo, file.name, revision=found.commit)

    smallest_first = sorted(found.files, key=lambda file: file.bytes)
    pool = ThreadPoolExecutor(CONNECTIONS)
    try:
        for done in as_completed([pool.submit(bring, file) for file in smallest_first]):
            done.result()
    finally:
        # After a failure nothing is waited for: the other connections may wait for the network.
        pool.shutdown(wait=False, cancel_futures=True)
    # Only now: until all is there, the snapshot that was in use before stays in use.
    refs = found.folder / "refs"
    refs.mkdir(parents=True, exist_ok=True)
    staged = refs / f".main.{os.getpid()}"
    staged.write_text(found.commit, encoding="utf-8")
    os.replace(staged, refs / "main")


def _fill(found: Found, file: File, count: Callable[[int], None]) -> None:
    """Puts the content of a file where huggingface_hub looks for it before it asks the network."""
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import WeakFileLock, build_hf_headers

    blob, part = found.blob(file), found.part(file)
    if not _TAG.fullmatch(file.tag) or file.bytes > constants.MAX_HTTP_DOWNLOAD_SIZE:
        return
    blob.parent.mkdir(parents=True, exist_ok=True)
    locks = found.folder.parent / ".locks" / found.folder.name
    locks.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(locks / f"{file.tag}.lock"):
        url = hf_hub_url(found.repo, file.name, revision=found.commit)
        while not blob.exists():
            with part.open("ab") as opened:
                begun = opened.tell()
                if begun > file.bytes:
                    opened.truncate(0)
                    begun = 0
                http_get(
                    url,
                    _Counted(opened, count),
                    resume_size=begun,
                    headers=build_hf_headers(),
                    expected_size=file.bytes,
                )
            if begun and not _is_whole(part, file):
                count(-file.bytes)
                part.unlink()
                continue
            os.replace(part, blob)


def _is_whole(part: Path, file: File) -> bool:
    """Whether a file that was put together from two downloads is the one that was meant."""
    if len(file.tag) != 64:
        return False
    with part.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest() == file.tag


class _Counted:
    """A file that tells how many bytes went into it."""

    def __init__(self, file: BinaryIO, count: Callable[[int], None]) -> None:
        self._file, self._count = file, count

    def write(self, chunk: bytes) -> int:
        self._count(len(chunk))
        return self._file.write(chunk)

    def tell(self) -> int:
        return self._file.tell()

    def seek(self, place: int) -> int:
        return self._file.seek(place)

    def truncate(self) -> int:
        """The server began anew: what was there does not count."""
        size = os.fstat(self._file.fileno()).st_size
        self._count(self._file.tell() - size)
        return self._file.truncate()


class _Progress:
    """Tells how far a download is, a few times a second."""

    def __init__(self, founds: Sequence[Found]) -> None:
        self._lock = threading.Lock()
        self._bytes = sum(found.bytes for found in founds)
        self._total = sum(found.total for found in founds)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Says no more: what is told next is the last."""
        self._stop.set()
        self._thread.join()

    def count(self, more: int) -> None:
        with self._lock:
            self._bytes += more

    def _tell(self) -> None:
        while True:
            tell(state="running", bytes=self._bytes, total=self._total)
            if self._stop.wait(TELL_SECONDS):
                return


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    """Ends this process when the studio that started it is gone."""
    sys.stdin.buffer.read()
    os._exit(1)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m studio.fetch", description=__doc__)
    parser.add_argument("id", help="hub id, org/name, or the id of a model of the catalogue")
    parser.add_argument("--look", action="store_true", help="only say what it would come to")
    options = parser.parse_args(words)
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    threading.Thread(target=_end_with_parent, daemon=True).start()
    parts = asked(options.id)
    repo = parts[0].id
    try:
        if len(parts) > 1:
            # What is here stays as it is: another model may use it too.
            parts = [part for part in parts if not is_whole(part)] or parts
        founds = []
        for part in parts:
            repo = part.id
            founds.append(find(part))
        total = sum(found.total for found in founds)
        tell(state="found", **_offer(founds))
        if options.look:
            return 0
        refuse_full_disk(founds)
        progress = _Progress(founds)
        try:
            for found in founds:
                repo = found.repo
                download(found, progress.count)
        finally:
            progress.end()
    except Exception as error:
        tell(state="failed", told=in_words(error, repo))
        os._exit(1)
    tell(state="done", bytes=total, total=total)
    return 0


def _offer(founds: Sequence[Found]) -> dict[str, Any]:
    return {
        "files": sum(len(found.files) for found in founds),
        "bytes": sum(found.bytes for found in founds),
        "total": sum(found.total for found in founds),
        "licence": ", ".join(dict.fromkeys(found.licence for found in founds if found.licence)),
        "free": free_bytes(founds[0].folder),
        "repo": " + ".join(found.repo for found in founds),
    }


if __name__ == "__main__":
    sys.exit(main())

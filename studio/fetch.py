"""Downloads one model of the hub into its local cache: a process of its own, so that a cancel is
one signal and takes effect at once.

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
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pipelines import catalogue
from pipelines.errors import BadInput
from studio.hub_errors import in_words

CONNECTIONS = 4
TELL_SECONDS = 0.2
HUB_SECONDS = 15
PIECE_BYTES = 1_000_000
"""What is written at once: so much is lost when a download is stopped."""
SPARE_BYTES = 200_000_000
"""What is left free on the disk."""

_TAG = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VARIANT = re.compile(r"(?:model|diffusion_pytorch_model)\.(?!safetensors)[\w-]+?[.-]")
_SUFFIXES = (".json", ".safetensors", ".model", ".txt", ".jinja")
_AT_ROOT = re.compile(r"model_index\.json|(?:README|LICEN[SC]E|NOTICE)[\w.-]*", re.IGNORECASE)


@dataclass(frozen=True)
class File:
    """One file of a repository."""

    name: str
    bytes: int
    tag: str
    """Names its content: SHA-256 of a large file, git's SHA-1 of a small one."""


@dataclass(frozen=True)
class Found:
    """What a download comes to."""

    repo: str
    commit: str
    files: tuple[File, ...]
    licence: str

    @property
    def folder(self) -> Path:
        return catalogue.hub_repository(self.repo)

    @property
    def total(self) -> int:
        return sum(file.bytes for file in self.files)

    def blob(self, file: File) -> Path:
        return self.folder / "blobs" / file.tag

    def part(self, file: File) -> Path:
        return self.folder / "blobs" / f"{file.tag}.part.incomplete"

    def here(self, file: File) -> int:
        """Bytes of a file that are on disk."""
        for path in (self.blob(file), self.part(file)):
            with suppress(OSError):
                return min(path.stat().st_size, file.bytes)
        return 0


def needed(names: Iterable[str], components: Iterable[str]) -> list[str]:
    """The files of a repository in the diffusers layout that a pipeline reads: configs, tokenizer
    and safetensors of its components, and what is said about it. Weights in other formats and
    other precisions (`model.fp16.safetensors`) are left out."""
    wanted = set(components)
    return [
        name
        for name in names
        if (_AT_ROOT.fullmatch(name))
        or (
            name.count("/") == 1
            and name.partition("/")[0] in wanted
            and name.endswith(_SUFFIXES)
            and not _VARIANT.match(name.partition("/")[2])
        )
    ]


def find(repo: str) -> Found:
    """Asks the hub. Raises BadInput for a repository that is no model this studio can run, and
    whatever huggingface_hub raises."""
    from huggingface_hub import HfApi, hf_hub_download

    info = HfApi().model_info(repo, revision="main", files_metadata=True, timeout=HUB_SECONDS)
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    if "model_index.json" not in siblings:
        fix = "It is not a model in the diffusers layout: it has no model_index.json."
        raise BadInput("model", repo, fix)
    index = Path(hf_hub_download(repo, "model_index.json", revision=info.sha))
    catalogue.family_of(index.parent)
    named: Mapping[str, Any] = json.loads(index.read_text(encoding="utf-8"))
    components = [name for name, entry in named.items() if isinstance(entry, list) and all(entry)]
    files = []
    for name in needed(siblings, components):
        sibling = siblings[name]
        tag = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
        files.append(File(name, sibling.size or 0, tag or ""))
    licence = getattr(info.card_data, "license", None)
    return Found(repo, info.sha, tuple(files), licence if isinstance(licence, str) else "")


def free_bytes(folder: Path) -> int:
    """Room on the disk that holds `folder`, which need not exist yet."""
    return next(shutil.disk_usage(p).free for p in (folder, *folder.parents) if p.exists())


def refuse_full_disk(found: Found) -> None:
    """Raises BadInput if what is still to come does not fit."""
    missing = found.total - sum(found.here(file) for file in found.files)
    free = free_bytes(found.folder)
    if missing + SPARE_BYTES > free:
        fix = (
            f"{missing / 1e9:.1f} GB are still to come, and {free / 1e9:.1f} GB are free where "
            f"models are kept ({found.folder.parent}). Make room, or set HF_HOME to a larger disk."
        )
        raise BadInput("model", found.repo, fix)


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

    def __init__(self, found: Found) -> None:
        self._lock = threading.Lock()
        self._bytes = sum(found.here(file) for file in found.files)
        self._total = found.total
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
    parser.add_argument("id", help="hub id, org/name")
    parser.add_argument("--look", action="store_true", help="only say what it would come to")
    options = parser.parse_args(words)
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        found = find(options.id)
        here = sum(found.here(file) for file in found.files)
        free = free_bytes(found.folder)
        told = {"bytes": here, "total": found.total, "licence": found.licence, "free": free}
        tell(state="found", files=len(found.files), **told)
        if options.look:
            return 0
        refuse_full_disk(found)
        progress = _Progress(found)
        try:
            download(found, progress.count)
        finally:
            progress.end()
    except Exception as error:
        tell(state="failed", told=in_words(error, options.id))
        os._exit(1)
    tell(state="done", bytes=found.total, total=found.total)
    return 0


if __name__ == "__main__":
    sys.exit(main())

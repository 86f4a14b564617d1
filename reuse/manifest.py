"""manifest.json: what an entry is, which files it has, and how a damaged one is told.

A manifest also carries its own hash, so that a changed digit in a seed is found as one in a
video is.
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reuse.errors import Damaged, FormatTooNew
from reuse.keys import canonical

NAME = "manifest.json"

FORMAT = 1
"""Counts up when an older Retake could not read the new manifests."""

RESERVED = ("format", "kind", "key", "created", "files", "manifest_sha256")


@dataclass(frozen=True)
class Fault:
    """Something in the library that is not as it was published."""

    kind: str
    key: str
    file: str
    """Name inside the entry; empty if the entry as a whole is meant."""
    what: str

    def __str__(self) -> str:
        return f"{'/'.join(filter(None, (self.kind, self.key, self.file)))}: {self.what}"


def write(kind: str, key: str, files: Mapping[str, Any], fields: Mapping[str, Any]) -> bytes:
    """The bytes of a new manifest: ours first, then the caller's fields as they are.

    Raises ValueError if a field has one of our names, TypeError if one is not JSON.
    """
    taken = [name for name in RESERVED if name in fields]
    if taken:
        raise ValueError(f"a manifest sets these fields itself: {', '.join(taken)}")
    manifest = {
        "format": FORMAT,
        "kind": kind,
        "key": key,
        "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "files": dict(files),
        **fields,
    }
    manifest["manifest_sha256"] = _own_hash(manifest)
    return json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False).encode()


def read(folder: Path, kind: str, key: str) -> dict[str, Any]:
    """The manifest of the entry in `folder`, its own hash checked and no other file touched.

    Raises Damaged if there is none or it is not whole, FormatTooNew, OSError.
    """
    path = folder / NAME
    try:
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise Damaged(path, "it is missing") from None
    except ValueError:
        raise Damaged(path, "it is not JSON") from None
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise Damaged(path, "the disk cannot read it") from error
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
        raise Damaged(path, "it has no format number")
    if manifest["format"] > FORMAT:
        raise FormatTooNew(path, manifest["format"], FORMAT)
    try:
        whole = manifest.get("manifest_sha256") == _own_hash(manifest)
    except TypeError:
        whole = False
    if not whole:
        raise Damaged(path, "it was changed after it was published")
    if (manifest["kind"], manifest["key"]) != (kind, key):
        raise Damaged(path, f"it belongs to {manifest['kind']}/{manifest['key']}")
    return manifest


def faults(
    folder: Path, manifest: Mapping[str, Any], sha256: Callable[[Path], str]
) -> Iterator[Fault]:
    """What differs between a manifest and the files beside it; `sha256` is asked for their hashes.
    Raises OSError where a file cannot be opened for other reasons than damage."""
    for name, listed in manifest["files"].items():
        what = _fault_of(folder / name, listed, sha256)
        if what:
            yield Fault(manifest["kind"], manifest["key"], name, what)


def _fault_of(path: Path, listed: Mapping[str, Any], sha256: Callable[[Path], str]) -> str | None:
    try:
        if not path.is_file():
            return "it is missing"
        size = path.stat().st_size
        if size != listed["bytes"]:
            return f"it has {size} bytes, {listed['bytes']} were published"
        if sha256(path) != listed["sha256"]:
            return "its content was changed after it was published"
    except FileNotFoundError:
        return "it is missing"
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return "the disk cannot read it"
    return None


def _own_hash(manifest: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in manifest.items() if name != "manifest_sha256"}
    return hashlib.sha256(canonical(rest).encode()).hexdigest()

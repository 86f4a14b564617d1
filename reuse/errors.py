"""Everything that the disk cache can refuse or fail at, in words for the person in front of it.

Each error keeps what it was made from as attributes, and survives a trip to another process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ABSENT = "(absent)"
"""What a `Difference` holds for a field that one side does not have."""

_LONGEST = 60


class ReuseError(Exception):
    """Base of all errors of this package. Subclasses take their facts and word them in `__str__`,
    so that `args` rebuilds the error when it crosses a process."""


class FormatTooNew(ReuseError):
    """A manifest was written by a later Retake. It is left as it is."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(path, found, known)
        self.path, self.found, self.known = path, found, known

    def __str__(self) -> str:
        return (
            f"{self.path} is in format {self.found}; this Retake reads formats up to {self.known}. "
            "Update Retake to use this library."
        )


class DiskFull(ReuseError):
    """There was no room left while writing. Nothing was published. Sizes are in bytes."""

    def __init__(self, path: Path, free: int | None, needed: int | None = None) -> None:
        super().__init__(path, free, needed)
        self.path, self.free, self.needed = path, free, needed

    def __str__(self) -> str:
        free = "" if self.free is None else f", {self.free} bytes are free"
        needed = "" if self.needed is None else f", {self.needed} bytes are needed"
        return (
            f"The disk is full: cannot write {self.path}{free}{needed}. "
            "Make room or choose a library on another disk; nothing that was finished is lost."
        )


class NotWritable(ReuseError):
    """The library cannot be written to. It can still be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return (
            f"Cannot write {self.path}: {self.reason}. "
            "Choose a library in a folder that you may write to."
        )


class Damaged(ReuseError):
    """A file of the library is not what its manifest says."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(path, what)
        self.path, self.what = path, what

    def __str__(self) -> str:
        return f"{self.path} is damaged: {self.what}."


class NotInLibrary(ReuseError):
    """Nothing is published under that name."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is not in the library."


class MissingInput(ReuseError):
    """A field names a file that is not there. `field` is a dotted name such as `loras.0.file`."""

    def __init__(self, field: str, path: Path) -> None:
        super().__init__(field, path)
        self.field, self.path = field, path

    def __str__(self) -> str:
        return f"{self.field}: there is no file or folder {self.path}. Give one that exists."


class FileChanging(ReuseError):
    """A file was written to while it was being hashed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} changes while it is read. Try again when it is fully written."


@dataclass(frozen=True)
class Difference:
    """One field in which what is asked for differs from what was kept."""

    name: str
    """Dotted, such as `flowcache.epsilon`."""
    kept: Any
    asked: Any

    def __str__(self) -> str:
        kept, asked = _text(self.kept), _text(self.asked)
        # Two long prompts often differ only at their ends: show the place where they part.
        pairs = enumerate(zip(kept, asked, strict=False))
        parting = next((i for i, (a, b) in pairs if a != b), min(len(kept), len(asked)))
        start = max(0, parting - _LONGEST // 3)
        return f"{self.name}: kept {_cut(kept, start)}, asked {_cut(asked, start)}"


class NotCompatible(ReuseError):
    """What is asked for cannot continue what was kept; `differences` says in which fields."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        super().__init__(differences)
        self.differences = list(differences)

    def __str__(self) -> str:
        fields = "; ".join(str(difference) for difference in self.differences)
        return f"Not compatible with what was kept. {fields}."


def is_content(value: object) -> bool:
    """Whether a value stands for the bytes of a file, as `keys.resolve` leaves it."""
    return isinstance(value, dict) and value.keys() == {"sha256", "bytes"}


def _text(value: object) -> str:
    if value is ABSENT:
        return ABSENT
    if is_content(value):
        return f"file {value['sha256'][:12]} ({value['bytes']} bytes)"
    return json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, start: int) -> str:
    if len(text) <= _LONGEST:
        return text
    start = min(start, len(text) - _LONGEST)
    end = start + _LONGEST
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")

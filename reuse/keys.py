"""Keys: from fields to one hash, the chain of segments, and what differs between two of them.

Fields are JSON. Two numbers that are equal make the same key (1 and 1.0, as a page may turn one
into the other); `true` is not 1, and a field that is absent is not one that is null.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from reuse.errors import ABSENT, Difference, MissingInput, is_content
from reuse.hashes import FileHashes

__all__ = ["FileHashes", "canonical", "differences", "digest", "resolve", "segment_id"]

SCHEME = 1
"""Counts up when keys are made differently, so that old and new ones never meet."""

KEY_DIGITS = 40
"""Hex digits of a key: 160 bits of a SHA-256."""


def canonical(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, equal numbers written alike.

    Raises TypeError, naming the field, for what JSON cannot hold: other types, names of fields
    that are not strings, NaN and infinity, text that is not Unicode.
    """
    return json.dumps(_plain(value, ""), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def digest(kind: str, fields: Mapping[str, Any]) -> str:
    """The key of `fields`, KEY_DIGITS hex digits. The same fields make another key for another
    kind. Raises TypeError as `canonical` does; paths must have gone through `resolve`."""
    text = canonical({"scheme": SCHEME, "kind": kind, "fields": _plain(fields, "")})
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def segment_id(fields: Mapping[str, Any], index: int, seed: int, previous: str | None) -> str:
    """The id of segment `index`, and through `previous` of all that came before it.

    A Merkle chain: equal ids mean equal recipe and seeds from the first segment on. `previous` is
    the id of segment index - 1, None for the first; anything else raises ValueError.
    """
    if index < 0 or (index == 0) != (previous is None):
        raise ValueError(f"segment {index} cannot follow {previous!r}")
    link = {"recipe": fields, "index": index, "seed": seed, "previous": previous}
    return digest("segment", link)


def resolve(fields: Mapping[str, Any], hashes: FileHashes) -> dict[str, Any]:
    """`fields` with each path in it, at any depth, replaced by the content found there, as
    {"sha256": 64 hex digits, "bytes": size}. Raises MissingInput naming the field and the path."""
    return {str(name): _resolved(value, str(name), hashes) for name, value in fields.items()}


def differences(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> list[Difference]:
    """The fields that would make another key, by dotted name, in the order of their names."""
    found: list[Difference] = []
    _compare(kept, asked, "", found)
    return found


def _plain(value: Any, name: str) -> Any:
    match value:
        case None | bool() | int():
            return value
        case float():
            if not math.isfinite(value):
                raise TypeError(f"{name or 'value'}: {value} is not a JSON number")
            return int(value) if value.is_integer() else value
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise TypeError(f"{name or 'value'}: {value!r} is not Unicode text") from None
            return value
        case list() | tuple():
            return [_plain(item, _dotted(name, i)) for i, item in enumerate(value)]
        case Mapping():
            for key in value:
                if not isinstance(key, str):
                    raise TypeError(f"{_dotted(name, key)}: names of fields are strings")
            return {_plain(k, name): _plain(item, _dotted(name, k)) for k, item in value.items()}
    hint = "; resolve() it to its content first" if isinstance(value, PurePath) else ""
    raise TypeError(f"{name or 'value'}: a {type(value).__name__} is not JSON{hint}")


def _resolved(value: Any, name: str, hashes: FileHashes) -> Any:
    match value:
        case PurePath():
            try:
                content = hashes.of(value)
            except (FileNotFoundError, NotADirectoryError):
                raise MissingInput(name, value) from None
            return {"sha256": content.sha256, "bytes": content.bytes}
        case Mapping():
            return {k: _resolved(item, _dotted(name, k), hashes) for k, item in value.items()}
        case list() | tuple():
            return [_resolved(item, _dotted(name, i), hashes) for i, item in enumerate(value)]
    return value


def _compare(kept: Any, asked: Any, name: str, found: list[Difference]) -> None:
    match kept, asked:
        case (Mapping(), Mapping()) if not (is_content(kept) or is_content(asked)):
            for key in sorted(kept.keys() | asked.keys()):
                _compare(kept.get(key, ABSENT), asked.get(key, ABSENT), _dotted(name, key), found)
        case (list() | tuple(), list() | tuple()) if len(kept) == len(asked):
            for i, pair in enumerate(zip(kept, asked, strict=True)):
                _compare(*pair, _dotted(name, i), found)
        case _:
            absent = kept is ABSENT or asked is ABSENT
            if absent or canonical(kept) != canonical(asked):
                found.append(Difference(name, kept, asked))


def _dotted(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)

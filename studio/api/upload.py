"""Takes one file in, as browsers send it, straight into a place of ours and with a limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from pipelines.errors import BadInput

MOST_FIELDS = 8
MOST_FIELD_BYTES = 4096
BESIDES = (MOST_FIELDS + 1) * 2 * MOST_FIELD_BYTES
"""Bytes of a request that are no file: fields, and the headers of all parts."""


@dataclass
class Form:
    """What came in."""

    name: str = ""
    """Of the file, as the person knows it, without folders."""
    bytes: int = 0
    fields: dict[str, str] = field(default_factory=dict)


async def receive(request: Request, into: Path, most: int) -> Form:
    """Writes the part `file` of a multipart request to `into`, and gives the other parts.

    Raises BadInput, whose field is `file`, if there is none, if it has more than `most` bytes (as
    soon as that is known), if there are more than MOST_FIELDS other parts, or if the request is
    broken.
    """
    if int(request.headers.get("content-length") or 0) > most + BESIDES:
        raise _too_large(most)
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise BadInput("file", "", "Send a file as multipart/form-data.")
    with into.open("wb") as out:
        parts = _Parts(out, most)
        parser = MultipartParser(options[b"boundary"], parts.callbacks())
        came = 0
        try:
            async for chunk in request.stream():
                came += len(chunk)
                if came > most + BESIDES:
                    raise _too_large(most)
                parser.write(chunk)
            parser.finalize()
        except FormParserError as error:
            raise BadInput("file", "", "The upload is broken; send it again.") from error
    if not parts.seen:
        raise BadInput("file", "", "There is no file in the request.")
    return parts.form


class _Parts:
    """Follows the parser from part to part."""

    def __init__(self, out: BinaryIO, most: int) -> None:
        self.form = Form()
        self.seen = False
        self._out, self._most = out, most
        self._header, self._value = b"", b""
        self._part, self._is_file = "", False
        self._parts = 0

    def callbacks(self) -> dict[str, object]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_part_data": self._on_data,
        }

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MOST_FIELDS + 1:
            raise BadInput("file", "", f"Send the file and at most {MOST_FIELDS} fields.")
        self._header, self._value, self._part, self._is_file = b"", b"", "", False

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        header, value = self._header.lower(), self._value
        self._header, self._value = b"", b""
        if header != b"content-disposition":
            return
        _, options = parse_options_header(value)
        self._part = options.get(b"name", b"").decode("utf-8", "replace")
        if self._part == "file" and not self.seen:
            self.seen = self._is_file = True
            given = options.get(b"filename", b"").decode("utf-8", "replace")
            self.form.name = given.replace("\\", "/").rpartition("/")[2][:200]

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self.form.bytes += end - start
            if self.form.bytes > self._most:
                raise _too_large(self._most)
            self._out.write(data[start:end])
        elif self._part:
            value = data[start:end].decode("utf-8", "replace")
            known = self.form.fields.get(self._part, "")
            self.form.fields[self._part] = (known + value)[:MOST_FIELD_BYTES]


def _too_large(most: int) -> BadInput:
    return BadInput("file", "", f"It is too large: at most {most // 1_000_000} MB.")

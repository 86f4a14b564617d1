"""What people are told of files that they gave: by their own names, not by the library's copies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipelines.errors import BadInput
from studio.library import Library


@contextmanager
def files_as_given(library: Library) -> Iterator[None]:
    """A BadInput about copies in the library goes on as one about what the person gave."""
    try:
        yield
    except BadInput as error:
        value = _as_given(library, error.value)
        if value == error.value:
            raise
        raise type(error)(error.field, value, error.fix) from error


def _as_given(library: Library, value: Any) -> Any:
    if isinstance(value, list):
        return [_as_given(library, one) for one in value]
    return library.called(Path(value)) or value if isinstance(value, (str, Path)) else value

"""The studio's own errors, and the exit code of each: the one place where that is decided."""

from __future__ import annotations

from pipelines.errors import BadInput
from reuse.errors import NotCompatible

__all__ = ["BadInput", "Cancelled", "NotCompatible", "TakeUnknown", "exit_code"]

DONE, FAILED, BAD_INPUT, NOT_COMPATIBLE, CANCELLED = 0, 1, 2, 3, 130


class Cancelled(Exception):
    """The person asked to stop. Finished segments are on disk and will be reused."""


class TakeUnknown(BadInput):
    """No take, or more than one, goes by the name that was given."""


def exit_code(error: BaseException) -> int:
    """Exit code of a command that ended with `error`."""
    if isinstance(error, BadInput):
        return BAD_INPUT
    if isinstance(error, NotCompatible):
        return NOT_COMPATIBLE
    if isinstance(error, (Cancelled, KeyboardInterrupt)):
        return CANCELLED
    return FAILED

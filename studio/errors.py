"""The studio's own errors, and the exit code of each: the one place where that is decided."""

from __future__ import annotations

from pipelines.errors import BadInput
from reuse.errors import NotCompatible, ReuseError

__all__ = [
    "BadInput",
    "Cancelled",
    "NotCompatible",
    "OtherVoices",
    "RenderFailed",
    "TakeUnknown",
    "exit_code",
    "is_known",
]

DONE, FAILED, BAD_INPUT, NOT_COMPATIBLE, CANCELLED = 0, 1, 2, 3, 130


class Cancelled(Exception):
    """The person asked to stop. Finished segments are on disk and will be reused."""


class OtherVoices(NotCompatible):
    """No segment hears the same in the voices that are asked for as in those that were kept."""

    def __str__(self) -> str:
        found = dict.fromkeys(one.name.partition(".")[0] for one in self.differences)
        names = " and ".join(found)
        return (
            f"Not compatible with what was kept. {names}: what is heard differs already in segment"
            " 1, so that none can stay. Keep 0 works."
        )


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


class RenderFailed(Exception):
    """Something stopped a render: says where, why, and what is kept."""

    def __init__(self, stage: str, segment: int, segments: int, cause: Exception) -> None:
        why = f"{type(cause).__name__}: {cause}".strip().rstrip(":")
        fix = "Run the same again to go on from there."
        if _is_out_of_memory(cause):
            why, fix = (
                "there was not enough memory",
                "Try a smaller size or fewer frames a segment.",
            )
        super().__init__(
            f"Segment {segment + 1} of {segments} failed in {stage}: {why}. Finished segments and "
            f"earlier takes are kept. {fix}"
        )
        self.stage, self.segment, self.cause = stage, segment, cause


def _is_out_of_memory(error: Exception) -> bool:
    # torch says so by an error of its own on a GPU, and in a sentence on the CPU.
    by_name = type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error)
    return isinstance(error, MemoryError) or by_name


def is_known(error: BaseException) -> bool:
    """Whether the message was written for the person, so that no traceback is needed."""
    from studio.media.errors import MediaError

    known = (BadInput, NotCompatible, Cancelled, RenderFailed, ReuseError, MediaError)
    return isinstance(error, (*known, KeyboardInterrupt))

"""What can go wrong with a picture, a video or a sound, in words for the person."""

from __future__ import annotations

import errno


class MediaError(Exception):
    """A media file could not be read or written. The message names the file and the reason."""


class DiskFull(MediaError, OSError):
    """There is no space left where the file was being written.

    It is an `OSError` with `errno.ENOSPC` too, so that whoever handles a full disk handles this.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = errno.ENOSPC

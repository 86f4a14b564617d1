"""A file appears whole or not at all: work in a hidden folder beside it, rename at the end."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from studio.media.errors import DiskFull, MediaError


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """Give the path of a draft with the suffix of `out`; rename it to `out` when the block ends.

    The folder of the draft is the block's own: whatever else is written there goes away with it.
    If the block raises, `out` stays as it was. Raises MediaError (DiskFull) for an OSError.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=".retake-", dir=out.absolute().parent))
    except OSError as error:
        raise _in_words(out, error) from error
    try:
        draft = folder / f"draft{out.suffix}"
        yield draft
        os.replace(draft, out)
    except MediaError:
        raise
    except OSError as error:
        raise _in_words(out, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_words(out: Path, error: OSError) -> MediaError:
    message = f"{out} cannot be written: {error.strerror or error}"
    return DiskFull(message) if error.errno == errno.ENOSPC else MediaError(message)

"""What a segment and a take hold as pictures: written, joined, and published.

A take of one frame is an image: its segment holds a PNG, and so does its own folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pipelines.frames import Chain
from reuse import Entry
from reuse.staging import Staging
from studio import media
from studio.clock import Clock
from studio.library import Library
from studio.take import Take, embedded

if TYPE_CHECKING:
    import numpy as np

VIDEO, IMAGE = "video.mp4", "image.png"


def result_of(chain: Chain) -> Literal["result.mp4", "result.png"]:
    """The name of the result of a take of this chain."""
    return "result.png" if chain.total == 1 else "result.mp4"


def pictures_of(entry: Entry) -> str:
    """The name of the file of a segment that holds its frames."""
    return IMAGE if IMAGE in entry.manifest["files"] else VIDEO


def write_pictures(staging: Staging, chain: Chain, frames: np.ndarray, fps: int) -> None:
    """Frames of one segment, uint8 `[n, H, W, 3]`. Raises MediaError, DiskFull."""
    if chain.total == 1:
        media.write_image(frames[0], staging.file(IMAGE))
    else:
        media.write_segment(frames, staging.file(VIDEO), fps)


def assemble(library: Library, take: Take, entries: Sequence[Entry], clock: Clock) -> Take:
    """Joins the segments by stream copy, adds the sound, and publishes the take with what `clock`
    reads by then. The rename at its end is the commit. Returns the take as it is on disk.

    Raises MediaError, DiskFull, OSError; then nothing was published.
    """
    portable = library.portable(take)
    with library.store.stage() as staging:
        with clock.measure("join"):
            _join(take, entries, staging.file(take.result), embedded(portable))
        clock.stage = "publish"
        portable = portable.model_copy(update={"timings": clock.reading()})
        entry = staging.publish("takes", take.id, {"take": portable.model_dump(mode="json")})
    return library.located(Take.model_validate(entry.manifest["take"]))


def _join(take: Take, entries: Sequence[Entry], out: Path, metadata: Mapping[str, object]) -> None:
    if take.result.endswith(".png"):
        media.write_image(media.read_image(entries[0].file(IMAGE)), out, metadata)
    else:
        files = [entry.file(VIDEO) for entry in entries]
        recipe = take.chapters[-1].recipe  # whose voice may have a new ending
        media.join(files, out, audio=recipe.audio, audio_2=recipe.audio_2, metadata=metadata)

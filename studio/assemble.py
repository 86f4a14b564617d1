"""The last step of a take: its segments are joined, and its folder is published."""

from __future__ import annotations

from collections.abc import Sequence

from reuse import Entry
from studio import media
from studio.clock import Clock
from studio.library import Library
from studio.take import Take, embedded

VIDEO, RESULT = "video.mp4", "result.mp4"


def assemble(library: Library, take: Take, entries: Sequence[Entry], clock: Clock) -> Take:
    """Joins the segments by stream copy, adds the sound, and publishes the take with what `clock`
    reads by then. The rename at its end is the commit. Returns the take as it is on disk.

    Raises MediaError, DiskFull, OSError; then nothing was published.
    """
    portable = library.portable(take)
    with library.store.stage() as staging:
        with clock.measure("join"):
            media.join(
                [entry.file(VIDEO) for entry in entries],
                staging.file(RESULT),
                audio=take.recipe.audio,
                metadata=embedded(portable),
            )
        clock.stage = "publish"
        portable = portable.model_copy(update={"timings": clock.reading()})
        entry = staging.publish("takes", take.id, {"take": portable.model_dump(mode="json")})
    return library.located(Take.model_validate(entry.manifest["take"]))

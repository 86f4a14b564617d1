"""Pictures and videos, by id and never by path."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

import reuse
from pipelines.errors import BadInput
from reuse import ReuseError
from studio import actions
from studio.api.studio import Studio
from studio.assemble import VIDEO
from studio.media import DiskFull, MediaError
from studio.prefix import Prefixes
from studio.render import POSTER
from studio.take import Take

ID = re.compile(r"[0-9a-f]{16,64}")
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}
MOST_TAKES = 4
FORMATS = ("mp4", "webm", "gif", "png")
NOT_IN_NAMES = frozenset('<>:"/\\|?*')
LONGEST_NAME = 120
"""Bytes of UTF-8 that the session may take in the name of an exported file."""
SEEDS_IN_NAME = 4


def routes(studio: Studio) -> APIRouter:
    library = studio.library
    scratch = tempfile.TemporaryDirectory(prefix="retake-", ignore_cleanup_errors=True)
    folder = Path(scratch.name)
    prefixes = Prefixes(library, folder)
    exporting = threading.Lock()

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        yield
        scratch.cleanup()

    router = APIRouter(lifespan=lifespan)

    @router.get("/api/takes/{take_id}/result")
    def result(take_id: str) -> FileResponse:
        take = known(take_id)
        path = library.result(take)
        if not path.is_file():
            raise HTTPException(404, f"The file of this take is gone: {take.result}.")
        return FileResponse(path, headers=FOREVER)

    @router.get("/api/segments/{segment_id}/poster")
    def poster(segment_id: str) -> FileResponse:
        return of_segment(segment_id, POSTER)

    @router.get("/api/segments/{segment_id}/video")
    def video(segment_id: str) -> FileResponse:
        return of_segment(segment_id, VIDEO)

    @router.get("/api/prefix/{segment_id}")
    def prefix(segment_id: str) -> dict[str, Any]:
        """What the video of a prefix holds: its segments, and the frames that each adds."""
        try:
            links = prefixes.chain(as_segment(segment_id))
        except ReuseError as error:
            raise HTTPException(404, f"This chain is not whole: {error}") from error
        return {
            "segment_ids": [link.id for link in links],
            "frames": [list(link.frames) for link in links],
        }

    @router.get("/api/prefix/{segment_id}/video")
    def prefix_video(segment_id: str) -> FileResponse:
        try:
            path = prefixes.video(as_segment(segment_id))
        except (reuse.DiskFull, DiskFull):
            raise
        except (ReuseError, MediaError) as error:
            raise HTTPException(404, f"This chain cannot be joined: {error}") from error
        return FileResponse(path, headers=FOREVER)

    @router.get("/api/export")
    def export(takes: str, format: str = "mp4", scale: int = 1) -> FileResponse:
        """One take as a file, or up to four as one film in which they play side by side."""
        ids = [take_id for take_id in takes.split(",") if take_id]
        if not 1 <= len(ids) <= MOST_TAKES:
            raise BadInput("takes", takes, f"Give 1 to {MOST_TAKES} ids with commas between.")
        chosen = [known(take_id) for take_id in ids]
        refuse_unfit_format(chosen, format)
        folder.mkdir(exist_ok=True)  # The system clears away what lies in its place for long.
        work = Path(tempfile.mkdtemp(prefix="export-", dir=folder))
        out = work / f"export.{format}"
        try:
            with exporting:
                actions.export(library, ids, out, scale)
        except BaseException as error:
            shutil.rmtree(work, ignore_errors=True)
            if isinstance(error, MediaError) and not isinstance(error, DiskFull):
                raise HTTPException(422, f"This cannot be exported: {error}") from error
            raise
        return FileResponse(
            out,
            filename=file_name(chosen, format),
            headers={"Cache-Control": "no-store"},
            background=BackgroundTask(shutil.rmtree, work, ignore_errors=True),
        )

    def known(take_id: str) -> Take:
        if not ID.fullmatch(take_id):
            raise HTTPException(404, "No such take.")
        return library.read_take(take_id)

    def as_segment(segment_id: str) -> str:
        if not ID.fullmatch(segment_id):
            raise HTTPException(404, "No such segment.")
        return segment_id

    def of_segment(segment_id: str, name: str) -> FileResponse:
        path = library.folder / "segments" / as_segment(segment_id) / name
        if not path.is_file():
            raise HTTPException(404, "This segment is not in the library.")
        return FileResponse(path, headers=FOREVER)

    return router


def refuse_unfit_format(takes: list[Take], format: str) -> None:
    """Raises BadInput for a format that these takes cannot be written in."""
    pictures = [take.result.endswith(".png") for take in takes]
    if format not in FORMATS:
        raise BadInput("format", format, f"Use one of {', '.join(FORMATS)}.")
    if any(pictures) and (len(takes) > 1 or format != "png"):
        raise BadInput("format", format, "An image is exported by itself, as png.")
    if format == "png" and not all(pictures):
        raise BadInput("format", format, "A video is exported as mp4, webm or gif.")


def file_name(takes: list[Take], format: str) -> str:
    """What an exported file is called: the session, short ids, and the seeds of a single take."""
    session = "".join(
        letter if letter.isprintable() and letter not in NOT_IN_NAMES else " "
        for letter in takes[0].session
    )
    words = session.encode()[:LONGEST_NAME].decode("utf-8", "ignore").strip(" .").split()
    words += [take.id[:8] for take in takes]
    if len(takes) == 1:
        seeds = list(dict.fromkeys(takes[0].seeds))
        words += ["seed", "-".join(map(str, seeds[:SEEDS_IN_NAME]))]
    return f"{' '.join(words)}.{format}"

"""The files of the page: styles and modules, at an address that changes with their content."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import FileResponse

from studio.api.studio import Studio

FOLDER = Path(__file__).resolve().parent.parent.parent / "assets" / "page"
KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FOREVER = {"Cache-Control": "private, max-age=31536000, immutable"}


@functools.cache
def version() -> str:
    """Names the content of all files of the page: modules import each other by relative paths, so
    one changed file must give all of them a new address."""
    digest = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in KINDS:
            digest.update(str(path.relative_to(FOLDER)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def modules() -> list[str]:
    """The names of all scripts of the page."""
    return sorted(path.name for path in FOLDER.glob("*.js"))


def address(name: str) -> str:
    """Where the page finds one of its files."""
    return f"/page/{version()}/{name}"


def routes(studio: Studio) -> APIRouter:
    router = APIRouter()

    @router.get("/page/{of}/{name:path}")
    def file(of: str, name: str) -> FileResponse:
        path = (FOLDER / name).resolve()
        if not path.is_relative_to(FOLDER) or path.suffix not in KINDS or not path.is_file():
            raise HTTPException(404, "No such file.")
        # An old tab may ask by an old address: it gets what there is, but must ask again.
        headers = FOREVER if of == version() else {"Cache-Control": "no-store"}
        return FileResponse(path, media_type=KINDS[path.suffix], headers=headers)

    return router

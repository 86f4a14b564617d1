"""Pictures, videos, voices and LoRAs that people give: whether they are what they should be, and
the library's own copies of them."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from pipelines.errors import BadInput
from pipelines.film import look
from pipelines.film_kinds import film_ending
from pipelines.images import FAULTS, TOO_LARGE, size_fault
from pipelines.safetensors_header import safetensors_problem
from studio import media
from studio.library import Library
from studio.media import MediaError
from studio.recipe import INPUT_FILES

MAY_MOVE = frozenset({"image"})
"""Fields for a picture that some models take a video for; the others refuse it."""
PICTURES = {
    "PNG": ".png",
    "JPEG": ".jpg",
    "WEBP": ".webp",
    "GIF": ".gif",
    "BMP": ".bmp",
    "TIFF": ".tiff",
}
"""Formats that are taken, by the name that Pillow gives them, and how a copy of one ends."""

TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
    ".tiff": "image/tiff",
    ".tif": "image/tiff",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".m4a": "audio/mp4",
    ".aac": "audio/aac",
    ".webm": "audio/webm",
}
"""How an adopted picture or sound is served. Nothing that a browser would run is among them."""

VIDEOS = {
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".avi": "video/x-msvideo",
    ".ogv": "video/ogg",
    ".mpg": "video/mpeg",
    ".flv": "video/x-flv",
}
"""How an adopted video is served, which stands where a picture may."""

SOUNDS = (
    (rb"RIFF.{4}WAVE", ".wav"),
    (rb"fLaC", ".flac"),
    (rb"OggS", ".ogg"),
    (rb".{4}ftyp", ".m4a"),
    (rb"\x1aE\xdf\xa3", ".webm"),
    (rb"\xff[\xf0\xf1\xf8\xf9]", ".aac"),
    (rb"ID3|\xff[\xe2-\xff]", ".mp3"),
)
"""How sounds that are taken begin, and how a copy of one ends. ffmpeg knows more formats, among
them lists that name other files: those are not let through."""


def adopt(library: Library, field: str, path: Path, name: str) -> Path:
    """The library's copy of a file for a recipe field that names files. `name` is what the person
    calls it. Raises BadInput, whose field is that one, if it is not what the field holds."""
    kind = INPUT_FILES[field]
    check = _picture_or_video if field in MAY_MOVE else _ENDINGS[kind]
    try:
        ending = check(path, name)
    except BadInput as error:
        raise BadInput(field, error.value, error.fix) from None
    # The copy ends as its content does, whatever the name says.
    file = path.with_name(f"given{ending}")
    path.rename(file)
    return library.adopt_file(kind, file, name)


def served_as(file: str) -> str | None:
    """The content type of an adopted file by its name; None for any other file of an entry."""
    stem, _, ending = file.partition(".")
    kind = TYPES.get(f".{ending}", "")
    if stem == "image" and f".{ending}" in VIDEOS:
        return VIDEOS[f".{ending}"]
    return kind if kind.startswith(f"{stem}/") and stem in ("image", "audio") else None


def _picture_or_video(path: Path, name: str) -> str:
    """The ending for a picture, or for a video that is there to its end."""
    ending = film_ending(path)
    if ending is None:
        also = " A model that takes a voice takes mp4, mov, webm, mkv and avi, too."
        return _picture(path, name, also)
    try:
        look(path)
    except BadInput as error:
        raise BadInput("image", name, error.fix) from None
    return ending


def _picture(path: Path, name: str, also: str = "") -> str:
    """The ending for a picture that Pillow can read to its last pixel. `also` says what else might
    have been given."""
    try:
        with Image.open(path, formats=list(PICTURES)) as image:
            width, height = image.size
            if fault := size_fault(width, height):
                raise BadInput("image", name, fault)
            image.load()
            # Which are counted, and the way up, when the picture is used.
            image.getexif()
            getattr(image, "n_frames", 1)
            return PICTURES[image.format]
    except UnidentifiedImageError:
        fix = f"It is not a picture; use png, jpg, webp, gif, bmp or tiff.{also}"
        raise BadInput("image", name, fix) from None
    except Image.DecompressionBombError:
        raise BadInput("image", name, TOO_LARGE) from None
    except FAULTS:
        fix = "The picture is damaged; save it anew or choose another one."
        raise BadInput("image", name, fix) from None


def _sound(path: Path, name: str) -> str:
    """The ending for a file with sound."""
    with path.open("rb") as file:
        start = file.read(12)
    ending = next((end for form, end in SOUNDS if re.match(form, start, re.DOTALL)), None)
    if ending is None:
        fix = "It is not a sound; use wav, mp3, flac, ogg, m4a, aac or webm."
        raise BadInput("audio", name, fix)
    try:
        media.check_audio(path)
    except MediaError:
        raise BadInput("audio", name, "There is no sound in it that can be read.") from None
    return ending


def _lora(path: Path, name: str) -> str:
    """The ending for a safetensors file, looked at as far as its header goes."""
    if problem := safetensors_problem(path):
        raise BadInput("loras", name, f"It {problem}.")
    return ".safetensors"


_ENDINGS = {"image": _picture, "audio": _sound, "lora": _lora}

"""Takes as files to give away: mp4, webm or gif; one take, or several side by side."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from studio.media import ffmpeg
from studio.media.decode import check_video
from studio.media.encode import CRF, REPRODUCIBLE, TO_YUV, raw_input
from studio.media.errors import MediaError
from studio.media.join import join, sound_options
from studio.media.metadata import read_metadata, to_ffmetadata, to_text
from studio.media.probe import probe
from studio.media.reel import compose, pictures
from studio.media.whole import whole_file

PICTURE = {
    ".mp4": (
        *("-vf", TO_YUV, "-c:v", "libx264", "-preset", "medium", "-crf", str(CRF)),
        *("-movflags", "+faststart", "-f", "mp4"),
    ),
    ".webm": (
        *("-vf", TO_YUV, "-c:v", "libvpx-vp9", "-crf", "24", "-b:v", "0"),
        *("-deadline", "good", "-cpu-used", "4", "-row-mt", "1", "-f", "webm"),
    ),
    # One palette for the whole film, made from all its frames.
    ".gif": ("-vf", "split[a][b];[a]palettegen[p];[b][p]paletteuse", "-loop", "0", "-f", "gif"),
}
SOUND = {".mp4": ("-c:a", "aac", "-b:a", "192k"), ".webm": ("-c:a", "libopus", "-b:a", "128k")}
EXPORTS = (*PICTURE, ".png")
"""File names may end so."""
FASTEST = 240
"""Frames in a second."""


def export(
    takes: Sequence[Path],
    out: Path,
    *,
    labels: Sequence[str] | None = None,
    scale: int = 1,
    fps: float | None = None,
    audio: bool = True,
    overwrite: bool = False,
) -> None:
    """Write the takes, mp4 files of `join`, to `out`; its suffix (.mp4, .webm, .gif) says how.

    One take that needs no change is copied byte for byte. Two or more become one film in which
    they play side by side.

    labels: one for each take, drawn above it.
    scale: how many times larger.
    fps: frames in a second, by default those of the take (the quickest, if they differ).
    audio: keep the sound, for several takes that of the first that has one. A gif has none.
    overwrite: replace `out` if it exists.

    Raises MediaError for what cannot be done, and leaves nothing half-written.
    """
    kind = out.suffix.lower()
    if kind not in EXPORTS:
        found = kind or "a name without a suffix"
        raise MediaError(f"{out.name}: {found} cannot be written. Use .mp4, .webm or .gif")
    if not takes:
        raise MediaError("takes: at least one is needed")
    if labels is not None and len(labels) != len(takes):
        raise MediaError(f"labels: {len(labels)} for {len(takes)} takes. Give one for each")
    if scale != int(scale) or scale < 1:
        raise MediaError(f"scale: {scale} cannot be used. Use a whole number from 1")
    if fps is not None and not 0 < fps <= FASTEST:
        raise MediaError(f"fps: {fps} cannot be used. Use a number from 1 to {FASTEST}")
    if out.exists() and not overwrite:
        raise MediaError(f"{out} exists. Choose another name, or allow it to be overwritten")

    if kind == ".png":
        _export_picture(takes, out, changed=bool(labels) or scale != 1)
        return
    first = probe(takes[0])
    as_it_is = len(takes) == 1 and labels is None and scale == 1 and fps in (None, first.fps)
    if kind == ".mp4" and as_it_is and (audio or not first.audio):
        with whole_file(out) as draft:
            shutil.copyfile(takes[0], draft)
    elif kind == ".mp4" and as_it_is:
        join(takes, out, metadata=read_metadata(takes[0]))
    else:
        _encode(takes, out, kind, labels, int(scale), fps, audio)


def _export_picture(takes: Sequence[Path], out: Path, changed: bool) -> None:
    if len(takes) != 1 or takes[0].suffix.lower() != ".png" or changed:
        raise MediaError(f"{out.name}: a .png is written only from one image as it is")
    with whole_file(out) as draft:
        shutil.copyfile(takes[0], draft)


def _encode(
    takes: Sequence[Path],
    out: Path,
    kind: str,
    labels: Sequence[str] | None,
    scale: int,
    fps: float | None,
    audio: bool,
) -> None:
    infos = [probe(take) for take in takes]
    rate = fps or max(info.fps for info in infos)
    frames = max(1, round(max(info.seconds for info in infos) * rate))
    loud = [take for take, info in zip(takes, infos, strict=True) if info.audio]
    for take in takes:
        check_video(take)  # moviepy would repeat the last good frame, and only warn.
    with whole_file(out) as draft, compose(takes, labels, scale) as clip:
        width, height = clip.size
        arguments = [*raw_input(width, height, rate)]
        mapping = ["-map_metadata", "-1", "-map_metadata:s", "-1", "-map_chapters", "-1"]
        mapping += ["-map", "0:v:0"]
        if audio and loud and kind in SOUND:
            arguments += ["-i", ffmpeg.url(loud[0])]
            mapping += ["-map", "1:a:0", *sound_options(frames, rate), *SOUND[kind]]
        metadata = read_metadata(takes[0]) if len(takes) == 1 and kind == ".mp4" else None
        if metadata is not None:
            about = draft.with_name("about.txt")
            about.write_text(to_ffmetadata(to_text(metadata)), encoding="utf-8")
            mapping[1] = str(arguments.count("-i"))
            arguments += ["-f", "ffmetadata", "-i", ffmpeg.url(about)]
        arguments += [*mapping, *PICTURE[kind], *REPRODUCIBLE, ffmpeg.url(draft)]
        ffmpeg.run(arguments, f"{out} cannot be exported", frames=pictures(clip, frames, rate))

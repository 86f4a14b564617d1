"""Segments into one video by stream copy: nothing that was encoded is encoded again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studio.media import ffmpeg
from studio.media.encode import REPRODUCIBLE, container
from studio.media.errors import DiskFull, MediaError
from studio.media.metadata import to_ffmetadata, to_text
from studio.media.mp4 import VideoTrack, video_track
from studio.media.whole import whole_file

SAMPLE_RATE = 48_000


def join(
    segments: Sequence[Path],
    out: Path,
    *,
    audio: Path | None = None,
    audio_2: Path | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Put segments of `write_segment` one after the other into `out`, an mp4 file.

    Frame k of the result is at exactly k / fps and decodes to the bits that its segment decodes to.
    audio: any file with sound. It starts with the first frame; the video's length rules, so it is
        cut there or filled up with silence.
    audio_2: sound that is heard at the same time.
    metadata: what `read_metadata(out)` is to give.

    Raises MediaError if there are no segments, if one is damaged or does not fit the first (it is
    named, with what differs), or if ffmpeg fails. `out` is replaced if all went well.
    """
    if not segments:
        raise MediaError(f"{out} cannot be written: there are no segments to join")
    tracks = [video_track(path) for path in segments]
    for path, track in zip(segments, tracks, strict=True):
        _check_fit(path, track, segments[0], tracks[0])
    frames, timescale = sum(track.frames for track in tracks), tracks[0].timescale
    with whole_file(out) as draft:
        parts = draft.with_name("parts.txt")
        parts.write_bytes(b"".join(_line(path) for path in segments))
        inputs = ["-f", "concat", "-safe", "0", "-i", ffmpeg.url(parts)]
        tags = ["-map_metadata", "-1", "-map_metadata:s", "-1", "-map_chapters", "-1"]
        voices = [path for path in (audio, audio_2) if path is not None]
        sound: list[str] = []
        if voices:
            for path in voices:
                inputs += ["-i", ffmpeg.url(path)]
            chosen = sound_options(frames, timescale)
            mapped = ["-map", "1:a:0", *chosen] if len(voices) == 1 else _together(chosen[1])
            sound = [*mapped, "-c:a", "aac", "-b:a", "192k"]
        if metadata is not None:
            about = draft.with_name("about.txt")
            about.write_text(to_ffmetadata(to_text(metadata)), encoding="utf-8")
            tags[1] = str(1 + len(voices))
            inputs += ["-f", "ffmetadata", "-i", ffmpeg.url(about)]
        arguments = [
            *inputs,
            *("-map", "0:v:0", "-c:v", "copy", *sound, *tags),
            *(*REPRODUCIBLE, *container(timescale), ffmpeg.url(draft)),
        ]
        try:
            ffmpeg.run(arguments, f"{out} cannot be joined")
        except DiskFull:
            raise
        except MediaError:
            for path in voices:
                check_audio(path)  # If the sound is to blame, say so.
            raise


def _together(options: str) -> list[str]:
    """Two sounds at once, at the loudness that each has by itself, and `options` after it."""
    begins = f"aresample={SAMPLE_RATE},asetpts=N/SR/TB"
    both = "amix=inputs=2:duration=longest:normalize=0"
    graph = f"[1:a:0]{begins}[a];[2:a:0]{begins}[b];[a][b]{both},{options}[sound]"
    return ["-filter_complex", graph, "-map", "[sound]"]


def check_audio(path: Path) -> None:
    """Raise MediaError, which names the file, if no sound can be read from it."""
    if not path.is_file():
        raise MediaError(f"audio: {path} does not exist. Choose a file with sound")
    arguments = ["-i", ffmpeg.url(path), "-map", "0:a:0", "-t", "1", "-f", "null", "-"]
    ffmpeg.run(arguments, f"audio: {path} has no sound that can be read")


def sound_options(frames: int, fps: float) -> tuple[str, ...]:
    """Options that make a sound exactly as long as `frames` frames, from its first sample on."""
    samples = round(frames * SAMPLE_RATE / fps)
    return (
        "-af",
        f"aresample={SAMPLE_RATE},asetpts=N/SR/TB,apad,atrim=end_sample={samples}",
    )


def _check_fit(path: Path, track: VideoTrack, first: Path, model: VideoTrack) -> None:
    """Raise MediaError if a segment cannot follow another without being encoded again."""
    if not track.steady or track.ticks != track.frames:
        raise MediaError(f"{path} is not a segment: its frames are not one tick apart")
    differs = [
        f"{name} {found} against {wanted}"
        for name, found, wanted in (
            ("size", f"{track.width}x{track.height}", f"{model.width}x{model.height}"),
            ("fps", track.timescale, model.timescale),
            ("codec", track.codec, model.codec),
        )
        if found != wanted
    ]
    if not differs and track.settings != model.settings:
        differs = ["encoder settings"]
    if differs:
        raise MediaError(f"{path} does not fit {first}: {', '.join(differs)}")


def _line(path: Path) -> bytes:
    """A line of the concat demuxer's list: in quotes, and a quote in the name outside of them."""
    name = os.fsencode(ffmpeg.url(path))
    if b"\n" in name or b"\r" in name:
        raise MediaError(f"{path}: a line break in the name of a file cannot be used")
    return b"file '" + name.replace(b"'", b"'\\''") + b"'\n"

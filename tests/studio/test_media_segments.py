"""Segments are encoded once, and what is joined from them is the same pictures to the bit."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from studio import media
from studio.media import ffmpeg

FPS = 24
LENGTHS = (33, 24, 24, 1, 24)
H, W = 64, 96


def smooth(frames: int, height: int = H, width: int = W, start: int = 0) -> np.ndarray:
    """Slow waves of colour, uint8 `[frames, height, width, 3]`: what yuv420p can hold well."""
    t = np.arange(start, start + frames)[:, None, None]
    y, x = np.mgrid[0:height, 0:width]
    red = 127 + 100 * np.sin((x + 2 * t) / 40)
    green = np.broadcast_to(127 + 100 * np.sin((y + t) / 30), red.shape)
    blue = 127 + 100 * np.sin((x + y - 3 * t) / 50)
    return np.stack([red, green, blue], axis=-1).astype(np.uint8)


def psnr(a: np.ndarray, b: np.ndarray) -> float:
    return 10 * np.log10(255**2 / np.mean((a.astype(float) - b) ** 2))


def packets(path: Path) -> list[tuple[int, int, int, float]]:
    """(dts, pts, length, ticks a second) of each video packet, as ffmpeg reads the file."""
    out = np.zeros(1 << 20, np.uint8)
    arguments = ["-i", ffmpeg.url(path), "-map", "0:v:0", "-c", "copy", "-f", "framecrc", "pipe:1"]
    text = out[: ffmpeg.run(arguments, "no packets", into=out)].tobytes().decode()
    lines = text.splitlines()
    (base,) = (line.split(": ")[1] for line in lines if line.startswith("#tb 0"))
    ticks = int(base.split("/")[1]) / int(base.split("/")[0])
    rows = [line.split(",") for line in lines if not line.startswith("#")]
    return [(int(row[1]), int(row[2]), int(row[3]), ticks) for row in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five segments of uneven length, 0.mp4 to 4.mp4."""
    folder = tmp_path_factory.mktemp("segments")
    starts = np.cumsum([0, *LENGTHS])
    for i, frames in enumerate(LENGTHS):
        media.write_segment(smooth(frames, start=starts[i]), folder / f"{i}.mp4", FPS)
    return folder


@pytest.fixture(scope="module")
def segments(folder: Path) -> list[Path]:
    return [folder / f"{i}.mp4" for i in range(len(LENGTHS))]


def test_a_segment_looks_like_its_frames(segments: list[Path]) -> None:
    assert psnr(media.decode(segments[0]), smooth(LENGTHS[0])) >= 40


def test_colours_are_not_shifted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    corners = [(r, g, b) for r in (0, 255) for g in (0, 255) for b in (0, 255)]
    colours = np.array([*corners, *rng.integers(0, 256, (24, 3))], np.uint8)
    # 32 flat fields side by side in one picture, measured away from the edges between them.
    picture = colours.repeat(16, axis=0)[None, None].repeat(32, axis=1).repeat(3, axis=0)
    media.write_segment(picture, tmp_path / "flat.mp4", FPS)
    error = media.decode(tmp_path / "flat.mp4").astype(int) - picture
    inside = error.reshape(3, 32, 32, 16, 3)[:, :, :, 4:12]
    assert np.abs(inside).mean() < 1
    assert np.abs(inside.mean(axis=(0, 1, 2, 3))).max() < 0.5


def test_the_file_says_how_its_colours_are_meant(segments: list[Path]) -> None:
    # nclx: primaries, transfer, matrix = 1 (BT.709), limited range.
    assert b"colrnclx\0\1\0\1\0\1\0" in segments[0].read_bytes()


def test_a_joined_video_decodes_to_the_bits_of_its_segments(
    segments: list[Path], tmp_path: Path
) -> None:
    media.join(segments, tmp_path / "out.mp4")
    parts = [media.decode(segment) for segment in segments]
    assert [len(part) for part in parts] == list(LENGTHS)
    np.testing.assert_array_equal(media.decode(tmp_path / "out.mp4"), np.concatenate(parts))


def test_joining_what_was_joined_changes_nothing(segments: list[Path], tmp_path: Path) -> None:
    once, twice = tmp_path / "once.mp4", tmp_path / "twice.mp4"
    media.join(segments, once)
    media.join(segments[:2], tmp_path / "a.mp4")
    media.join(segments[2:], tmp_path / "b.mp4")
    media.join([tmp_path / "a.mp4", tmp_path / "b.mp4"], twice)
    assert packets(twice) == packets(once)
    np.testing.assert_array_equal(media.decode(twice), media.decode(once))


@pytest.mark.parametrize("fps", [1, 24, 30])
def test_frame_k_is_at_exactly_k_over_fps(fps: int, tmp_path: Path) -> None:
    lengths = (5, 1, 1, 3)
    paths = [tmp_path / f"{i}.mp4" for i in range(len(lengths))]
    for path, frames in zip(paths, lengths, strict=True):
        media.write_segment(smooth(frames), path, fps)
    many = paths * 6
    media.join(many, tmp_path / "out.mp4")
    assert packets(tmp_path / "out.mp4") == [(k, k, 1, fps) for k in range(sum(lengths) * 6)]
    info = media.probe(tmp_path / "out.mp4")
    assert info == media.VideoInfo(60, fps, W, H, 60 / fps, audio=False)


def test_the_same_frames_give_the_same_bytes_on_a_busy_machine_too(tmp_path: Path) -> None:
    frames = smooth(24)
    media.write_segment(frames, tmp_path / "0.mp4", FPS)
    stop = threading.Event()

    def keep_busy() -> None:
        noise = np.random.default_rng(0).random((300, 300))
        while not stop.is_set():
            noise @ noise

    busy = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        for i in range(1, 4):
            media.write_segment(frames, tmp_path / f"{i}.mp4", FPS)
    finally:
        stop.set()
        for thread in busy:
            thread.join()
    assert len({(tmp_path / f"{i}.mp4").read_bytes() for i in range(4)}) == 1


def test_a_hard_cut_inside_a_segment_adds_no_keyframe(tmp_path: Path) -> None:
    frames = smooth(12)
    frames[6:] = 255 - frames[6:]
    media.write_segment(frames, tmp_path / "cut.mp4", FPS)
    # stss: the table of keyframes. One entry: frame 1.
    assert b"stss\0\0\0\0\0\0\0\1\0\0\0\1" in (tmp_path / "cut.mp4").read_bytes()
    assert psnr(media.decode(tmp_path / "cut.mp4"), frames) >= 38


def test_decode_gives_exactly_the_frames_asked_for(segments: list[Path], tmp_path: Path) -> None:
    media.join(segments, tmp_path / "out.mp4")
    whole = media.decode(tmp_path / "out.mp4")
    for first, last in ((0, 1), (32, 34), (81, 82), (57, 106), (5, 5)):
        np.testing.assert_array_equal(
            media.decode(tmp_path / "out.mp4", first, last), whole[first:last]
        )
    with pytest.raises(media.MediaError, match="has 106 frames; 100 to 107"):
        media.decode(tmp_path / "out.mp4", 100, 107)


@pytest.mark.parametrize(
    "name", ["a b.mp4", "it's ''.mp4", "猫 🎈 é.mp4", "-y.mp4", "a:b.mp4", '%d #1 \\n "$x".mp4']
)
def test_any_name_works(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / f"of {name}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path, out = Path(name), Path(f"-joined {name}")
    media.write_segment(smooth(2), path, FPS)
    media.join([path, path.absolute()], out)
    assert media.probe(out).frames == len(media.decode(out)) == 4
    assert sorted(folder.iterdir()) == sorted([path.absolute(), out.absolute()])


def test_a_line_break_in_a_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a\nb.mp4"
    media.write_segment(smooth(1), path, FPS)
    with pytest.raises(media.MediaError, match="line break"):
        media.join([path], tmp_path / "out.mp4")


@pytest.mark.parametrize(
    ("frames", "fps", "message"),
    [
        (smooth(2, 64, 95), FPS, "width: 95 is odd"),
        (smooth(2, 63, 96), FPS, "height: 63 is odd"),
        (smooth(2)[0], FPS, r"frames: uint8 \[n, H, W, 3\]"),
        (smooth(2)[:0], FPS, r"frames: uint8 \[n, H, W, 3\]"),
        (smooth(2).astype(np.float32), FPS, "float32"),
        (smooth(2), 0, "fps: 0"),
        (smooth(2), 23.976, "fps: 23.976"),
    ],
)
def test_frames_that_do_not_fit_are_refused_by_name(
    frames: np.ndarray, fps: float, message: str, tmp_path: Path
) -> None:
    with pytest.raises(media.MediaError, match=message):
        media.write_segment(frames, tmp_path / "a.mp4", fps)
    assert not list(tmp_path.iterdir())


def test_segments_that_do_not_fit_are_refused_by_name(folder: Path, tmp_path: Path) -> None:
    first = folder / "0.mp4"
    media.write_segment(smooth(2, 64, 64), tmp_path / "narrow.mp4", FPS)
    media.write_segment(smooth(2), tmp_path / "slow.mp4", 16)
    arguments = ["-i", ffmpeg.url(first), "-c:v", "mpeg4", "-video_track_timescale", str(FPS)]
    ffmpeg.run([*arguments, ffmpeg.url(tmp_path / "old.mp4")], "no mpeg4")
    arguments = ["-i", ffmpeg.url(first), "-c:v", "libx264", "-qp", "3", "-bf", "2"]
    other = [*arguments, "-video_track_timescale", str(FPS), ffmpeg.url(tmp_path / "other.mp4")]
    ffmpeg.run(other, "no h264")
    for name, differs in (
        ("narrow.mp4", "size 64x64 against 96x64"),
        ("slow.mp4", "fps 16 against 24"),
        ("old.mp4", "codec mp4v against avc1"),
        ("other.mp4", "encoder settings"),
    ):
        with pytest.raises(media.MediaError, match=f"{name} does not fit .*0.mp4: {differs}"):
            media.join([first, tmp_path / name], tmp_path / "out.mp4")
    with pytest.raises(media.MediaError, match="no segments"):
        media.join([], tmp_path / "out.mp4")
    assert not (tmp_path / "out.mp4").exists()

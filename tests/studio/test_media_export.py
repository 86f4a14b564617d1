"""Exports: one take in another form, or several side by side, and never half a file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from studio import media
from studio.media import ffmpeg
from studio.media.reel import draw_label
from tests.studio.test_media_audio import read_sound, write_tone
from tests.studio.test_media_segments import H, W, packets, psnr, smooth

FPS = 12
FRAMES = 10
METADATA = {"prompt": "Duration: 99:00:00 Stream #0:0: Video: h264, 1x1\n猫 🎈"}


@pytest.fixture(scope="module")
def take(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A take with sound and metadata."""
    folder = tmp_path_factory.mktemp("a take's folder")
    media.write_segment(smooth(FRAMES), folder / "0.mp4", FPS)
    write_tone(folder / "tone.wav", 3, 440)
    out = folder / "it's a take.mp4"
    media.join([folder / "0.mp4"], out, audio=folder / "tone.wav", metadata=METADATA)
    return out


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shorter, smaller, mute take."""
    path = tmp_path_factory.mktemp("short") / "short.mp4"
    media.write_segment(255 - smooth(4, 32, 48), path, FPS)
    return path


def frames_of(path: Path, height: int, width: int) -> np.ndarray:
    """Frames of a file in any format, uint8 `[n, H, W, 3]`."""
    out = np.zeros(1 << 24, np.uint8)
    arguments = ["-i", ffmpeg.url(path), "-fps_mode", "passthrough", "-pix_fmt", "rgb24"]
    count = ffmpeg.run([*arguments, "-f", "rawvideo", "pipe:1"], "no frames", into=out)
    return out[:count].reshape(-1, height, width, 3)


def test_a_take_that_needs_no_change_is_copied(take: Path, tmp_path: Path) -> None:
    for kind, options in (("a", {}), ("b", {"fps": FPS, "scale": 1})):
        media.export([take], tmp_path / f"{kind}.mp4", **options)
        assert (tmp_path / f"{kind}.mp4").read_bytes() == take.read_bytes()


def test_an_image_is_copied_as_it_is(tmp_path: Path) -> None:
    media.write_image(smooth(1)[0], tmp_path / "image.png", METADATA)
    media.export([tmp_path / "image.png"], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "image.png").read_bytes()
    with pytest.raises(media.MediaError, match="only from one image as it is"):
        media.export([tmp_path / "image.png"], tmp_path / "b.png", scale=2)


def test_without_sound_the_pictures_are_still_the_same(take: Path, tmp_path: Path) -> None:
    media.export([take], tmp_path / "a.mp4", audio=False)
    assert not media.probe(tmp_path / "a.mp4").audio
    assert media.read_metadata(tmp_path / "a.mp4") == METADATA
    np.testing.assert_array_equal(media.decode(tmp_path / "a.mp4"), media.decode(take))


def test_a_larger_mp4_keeps_time_sound_and_metadata(take: Path, tmp_path: Path) -> None:
    media.export([take], tmp_path / "a.mp4", scale=2)
    info = media.probe(tmp_path / "a.mp4")
    assert (info.frames, info.fps, info.width, info.height) == (FRAMES, FPS, 2 * W, 2 * H)
    assert len(read_sound(tmp_path / "a.mp4")) == pytest.approx(48_000 * FRAMES / FPS, abs=1024)
    assert media.read_metadata(tmp_path / "a.mp4") == METADATA
    small = media.decode(tmp_path / "a.mp4")[:, ::2, ::2]
    for frame, wanted in zip(small, media.decode(take), strict=True):
        assert psnr(frame, wanted) > 30


def test_a_webm_looks_and_sounds_like_the_take(take: Path, tmp_path: Path) -> None:
    media.export([take], tmp_path / "a.webm")
    assert psnr(frames_of(tmp_path / "a.webm", H, W), media.decode(take)) > 30
    assert np.abs(read_sound(tmp_path / "a.webm")[2000:4000]).max() > 0.3


def test_a_gif_has_each_frame_and_repeats(take: Path, tmp_path: Path) -> None:
    media.export([take], tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as gif:
        assert (gif.n_frames, gif.size, gif.info["loop"]) == (FRAMES, (W, H), 0)
    assert psnr(frames_of(tmp_path / "a.gif", H, W), media.decode(take)) > 25


def test_fewer_frames_a_second_take_as_long(take: Path, tmp_path: Path) -> None:
    media.export([take], tmp_path / "a.mp4", fps=6)
    info = media.probe(tmp_path / "a.mp4")
    assert (info.frames, info.fps) == (FRAMES // 2, 6)
    assert psnr(media.decode(tmp_path / "a.mp4"), media.decode(take)[1::2]) > 35


def test_two_takes_play_side_by_side(take: Path, short: Path, tmp_path: Path) -> None:
    media.export([take, short], tmp_path / "a.mp4", labels=["seed 7", "猫 🎈 é \ud800"])
    info = media.probe(tmp_path / "a.mp4")
    band = info.height - H
    assert (info.frames, info.fps, info.width, info.audio) == (FRAMES, FPS, 2 * W, True)
    assert band > 0
    frames = media.decode(tmp_path / "a.mp4")
    assert frames[0, :band].max() > 180  # The labels are there.
    assert psnr(frames[:, band:, :W], media.decode(take)) > 30
    other = media.decode(short)
    other = np.concatenate([other, other[-1:].repeat(FRAMES - len(other), axis=0)])
    assert psnr(frames[:, band::2, W::2], other) > 25
    assert media.read_metadata(tmp_path / "a.mp4") is None
    assert [row[:2] for row in packets(take)] == [(k, k) for k in range(FRAMES)]


def test_four_takes_make_a_square(take: Path, short: Path, tmp_path: Path) -> None:
    media.export([take, short, short, take], tmp_path / "a.gif", fps=3)
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.size == (2 * W, 2 * H)


@pytest.mark.parametrize(
    "text", ["", " ", "seed 7", "long " * 5000, "猫🎈ÄÖ\n\x00\u202e\ud800", "…"]
)
def test_any_label_can_be_drawn(text: str) -> None:
    strip = draw_label(text, 96, 20)
    assert strip.shape == (20, 96, 3)
    assert strip[:, 90:].max() < 100  # It ends before the edge.


def test_a_label_without_accents_is_better_than_boxes() -> None:
    np.testing.assert_array_equal(draw_label("Café", 96, 20), draw_label("Cafe", 96, 20))


def test_a_file_is_not_overwritten_unless_that_was_said(take: Path, tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"precious")
    with pytest.raises(media.MediaError, match=r"a\.mp4 exists"):
        media.export([take], tmp_path / "a.mp4")
    assert (tmp_path / "a.mp4").read_bytes() == b"precious"
    media.export([take], tmp_path / "a.mp4", overwrite=True)
    assert (tmp_path / "a.mp4").read_bytes() == take.read_bytes()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.avi", {}, r"\.avi cannot be written. Use .mp4, .webm or .gif"),
        ("a", {}, "a name without a suffix cannot be written"),
        ("a.png", {}, "only from one image"),
        ("a.mp4", {"scale": 0}, "scale: 0"),
        ("a.mp4", {"scale": 1.5}, "scale: 1.5"),
        ("a.mp4", {"scale": 100}, "would be 9600x6400 pixels"),
        ("a.mp4", {"fps": 0}, "fps: 0"),
        ("a.mp4", {"fps": float("nan")}, "fps: nan"),
        ("a.mp4", {"labels": ["a", "b"]}, "labels: 2 for 1 takes"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(
    name: str, options: dict, message: str, take: Path, tmp_path: Path
) -> None:
    with pytest.raises(media.MediaError, match=message):
        media.export([take], tmp_path / name, **options)
    with pytest.raises(media.MediaError, match="takes: at least one"):
        media.export([], tmp_path / "a.mp4")
    assert not list(tmp_path.iterdir())


def test_a_damaged_take_is_named_and_leaves_nothing(take: Path, tmp_path: Path) -> None:
    content = bytearray(take.read_bytes())
    start = content.index(b"mdat") + 1200
    content[start : start + 400] = bytes(400)
    (tmp_path / "bad.mp4").write_bytes(content)
    (tmp_path / "a.webm").write_bytes(b"as it was")
    with pytest.raises(media.MediaError, match=r"bad\.mp4 cannot be decoded"):
        media.export([take, tmp_path / "bad.mp4"], tmp_path / "a.webm", overwrite=True)
    assert (tmp_path / "a.webm").read_bytes() == b"as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.webm", "bad.mp4"]


def test_an_export_that_fails_half_way_leaves_nothing(take: Path, tmp_path: Path) -> None:
    # Files of this process and its children may have 4 kB: writing fails in the middle.
    program = (
        "import resource, sys; from pathlib import Path; from studio import media;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "media.export([Path(sys.argv[1])], Path(sys.argv[2]), scale=2)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, take, tmp_path / "a.webm"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert re.search(r"MediaError: .*a\.webm cannot be exported", done.stderr), done.stderr
    assert not list(tmp_path.iterdir())


def test_an_export_is_silent_and_leaves_only_its_file(
    take: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    media.export([take, take], Path("a.mp4"), labels=["a", "b"])
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]
    assert capfd.readouterr() == ("", "")


def test_moviepy_is_loaded_only_by_an_export() -> None:
    program = (
        "import sys, studio.media; sys.exit('moviepy' in sys.modules or 'torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])

"""When a file cannot be read or written, the error says which and why, and nothing is left over."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from studio import media
from studio.media import ffmpeg
from studio.media.whole import whole_file
from tests.studio.test_media_segments import smooth


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("failures") / "segment.mp4"
    media.write_segment(smooth(24), path, 24)
    return path


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file"),
        (b"", "is not an mp4 video"),
        (b"a text that is no video", "is not an mp4 video"),
        (b"\x89PNG\r\n\x1a\n", "is not an mp4 video"),
        ("cut short", "ends too early"),
    ],
)
def test_a_file_that_is_no_video_is_named(
    content: bytes | str | None, reason: str, segment: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.mp4"
    if content == "cut short":
        bad.write_bytes(segment.read_bytes()[:-200])
    elif content is not None:
        bad.write_bytes(content)
    for use in (
        lambda: media.probe(bad),
        lambda: media.decode(bad),
        lambda: media.join([segment, bad], tmp_path / "out.mp4"),
        lambda: media.export([bad], tmp_path / "out.webm"),
    ):
        with pytest.raises(media.MediaError, match=rf"bad\.mp4.*{reason}"):
            use()
    assert not (tmp_path / "out.mp4").exists()


def test_pictures_that_are_damaged_are_not_passed_on(segment: Path, tmp_path: Path) -> None:
    content = bytearray(segment.read_bytes())
    start = content.index(b"mdat")
    content[start + 1200 : start + 1800] = bytes(600)
    (tmp_path / "bad.mp4").write_bytes(content)
    with pytest.raises(media.MediaError, match=r"bad\.mp4"):
        media.decode(tmp_path / "bad.mp4")


def test_a_folder_that_does_not_exist_is_named(segment: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    for write in (
        lambda: media.write_segment(smooth(1), nowhere / "a.mp4", 24),
        lambda: media.join([segment], nowhere / "a.mp4"),
        lambda: media.write_poster(smooth(1), nowhere / "a.webp"),
        lambda: media.export([segment], nowhere / "a.mp4"),
    ):
        with pytest.raises(media.MediaError, match=r"nowhere.* cannot be written: No such file"):
            write()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_apart(segment: Path) -> None:
    arguments = ["-i", ffmpeg.url(segment), "-f", "rawvideo", "file:/dev/full"]
    with pytest.raises(media.DiskFull, match=r"^a\.mp4 cannot be written: No space left") as caught:
        ffmpeg.run(arguments, "a.mp4 cannot be written")
    assert isinstance(caught.value, media.MediaError)
    assert isinstance(caught.value, OSError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.errno, str(again)) == (errno.ENOSPC, str(caught.value))


def test_a_full_disk_under_python_is_the_same_error(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"as it was")
    with pytest.raises(media.DiskFull, match=r"a\.png"), whole_file(tmp_path / "a.png") as draft:
        draft.write_bytes(b"half of")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert (tmp_path / "a.png").read_bytes() == b"as it was"
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_an_ffmpeg_that_ends_early_is_an_error_and_no_broken_pipe() -> None:
    frames = np.zeros((64, 256, 256, 3), np.uint8)
    with pytest.raises(media.MediaError, match=r"a\.mp4 cannot be written: .*Encoder not found"):
        arguments = ["-f", "rawvideo", "-video_size", "256x256", "-pixel_format", "rgb24"]
        ffmpeg.run(
            [*arguments, "-i", "pipe:0", "-c:v", "no_such", "-f", "null", "-"],
            "a.mp4 cannot be written",
            frames=frames,
        )


def test_frames_that_fail_half_way_stop_ffmpeg(tmp_path: Path) -> None:
    def frames() -> Iterator[np.ndarray]:
        yield np.zeros((64, 96, 3), np.uint8)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), whole_file(tmp_path / "a.mp4") as draft:
        arguments = ["-f", "rawvideo", "-video_size", "96x64", "-pixel_format", "rgb24"]
        ffmpeg.run([*arguments, "-i", "pipe:0", ffmpeg.url(draft)], "no video", frames=frames())
    assert not list(tmp_path.iterdir())


def test_a_process_killed_while_it_writes_leaves_no_half_video(tmp_path: Path) -> None:
    program = (
        "import numpy as np, sys; from pathlib import Path; from studio import media;"
        "frames = np.random.default_rng(0).integers(0, 255, (60, 480, 640, 3), np.uint8);"
        "print('ready', flush=True);"
        "media.write_segment(frames, Path(sys.argv[1]), 24)"
    )
    path = tmp_path / "a.mp4"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not path.exists()
    media.write_segment(smooth(2), path, 24)
    assert media.probe(path).frames == 2

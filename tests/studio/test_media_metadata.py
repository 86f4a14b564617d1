"""A result file carries its recipe, and reading a file from anywhere is safe."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from studio import media
from studio.media import ffmpeg
from studio.media.metadata import from_text, to_ffmetadata
from tests.studio.test_media_segments import smooth

RECIPE = {
    "prompt": "ein rotes Boot 🚤, 夕焼け\nsecond line\r\n\ttab 'one' \"two\" \\three\\ a=b; #c",
    "negative_prompt": "<b>&amp;</b> ${HOME} $(id) {x} %s [v] ' -y \u0000 \ud800 \u2028",
    "seeds": [0, 2**63 - 1, -1],
    "guidance_scale": 1e-9,
    "image": None,
    "flowcache": {"mode": "exact", "on": True},
    "": "",
}


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("metadata") / "segment.mp4"
    media.write_segment(smooth(3), path, 24)
    return path


@pytest.mark.parametrize("metadata", [RECIPE, {}, {"prompt": "ü🎈\\" * 30_000}])
def test_what_is_written_is_read_again(
    metadata: dict[str, Any], segment: Path, tmp_path: Path
) -> None:
    media.join([segment, segment], tmp_path / "a.mp4", metadata=metadata)
    media.write_image(smooth(1)[0], tmp_path / "a.png", metadata)
    assert media.read_metadata(tmp_path / "a.mp4") == metadata
    assert media.read_metadata(tmp_path / "a.png") == metadata
    assert media.probe(tmp_path / "a.mp4").frames == len(media.decode(tmp_path / "a.mp4")) == 6


def test_the_same_take_gives_the_same_file(segment: Path, tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        media.join([segment], tmp_path / name, metadata=RECIPE)
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_other_programs_find_it_in_the_comment(segment: Path, tmp_path: Path) -> None:
    media.join([segment], tmp_path / "a.mp4", metadata=RECIPE)
    out = np.zeros(1 << 16, np.uint8)
    arguments = ["-i", ffmpeg.url(tmp_path / "a.mp4"), "-f", "ffmetadata", "pipe:1"]
    said = out[: ffmpeg.run(arguments, "no tags", into=out)].tobytes().decode()
    assert to_ffmetadata(json.dumps({"retake": RECIPE})).splitlines()[1] in said.splitlines()


def test_a_png_is_the_frame_to_the_bit(tmp_path: Path) -> None:
    frame = smooth(1)[0]
    media.write_image(frame, tmp_path / "a.png", RECIPE)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")), frame)


def test_what_json_cannot_hold_is_refused(segment: Path, tmp_path: Path) -> None:
    for bad in ({"x": float("nan")}, {"x": object()}, {"x": b"bytes"}):
        with pytest.raises(media.MediaError, match="metadata"):
            media.join([segment], tmp_path / "a.mp4", metadata=bad)
        with pytest.raises(media.MediaError, match="metadata"):
            media.write_image(smooth(1)[0], tmp_path / "a.png", bad)
    assert not list(tmp_path.iterdir())


HOSTILE = [
    "",
    "null",
    "[]",
    '{"retake": []}',
    '{"retake": "x"}',
    '{"other": {}}',
    '{"retake": {"x": NaN}}',
    '{"retake": {"x": Infinity}}',
    '{"retake": {"x": ' + "9" * 5000 + "}}",
    '{"retake": ' + "[" * 50_000,
    '{"retake": ' + '{"a":' * 50_000,
    '{"retake": {}} trailing',
    "\ud800",
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:24].encode("ascii", "replace"))
def test_hostile_comments_hold_nothing(text: str) -> None:
    assert from_text(text) is None


def test_files_of_others_hold_nothing(segment: Path, tmp_path: Path) -> None:
    assert media.read_metadata(segment) is None
    theirs = tmp_path / "theirs.mp4"
    arguments = ["-i", ffmpeg.url(segment), "-c", "copy", "-metadata", "comment=[[[ lovely"]
    ffmpeg.run([*arguments, ffmpeg.url(theirs)], "no copy")
    assert media.read_metadata(theirs) is None
    info = PngInfo()
    info.add_text("Comment", "[" * 100_000, zip=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "theirs.png", pnginfo=info)
    assert media.read_metadata(tmp_path / "theirs.png") is None
    for name, content in {"a.txt": b"hello", "empty": b"", "a.gif": b"GIF89a"}.items():
        (tmp_path / name).write_bytes(content)
        assert media.read_metadata(tmp_path / name) is None
    with pytest.raises(media.MediaError, match=r"missing\.mp4"):
        media.read_metadata(tmp_path / "missing.mp4")


@pytest.mark.parametrize("name", ["a.mp4", "a.png"])
def test_a_damaged_file_never_raises_anything_but_our_error(
    name: str, segment: Path, tmp_path: Path
) -> None:
    good = tmp_path / name
    if name == "a.mp4":
        media.join([segment], good, metadata={"prompt": "x"})
    else:
        media.write_image(smooth(1)[0], good, {"prompt": "x"})
    content = good.read_bytes()
    bad = tmp_path / f"bad-{name}"
    rng = np.random.default_rng(0)
    for trial in range(200):
        damaged = bytearray(content)
        if trial % 3 == 0:
            del damaged[rng.integers(len(damaged)) :]
        else:
            for at in rng.integers(0, min(len(damaged), 2000), 1 + trial % 8):
                damaged[at] = rng.integers(256) if trial % 3 == 1 else 255
        bad.write_bytes(damaged)
        found = media.read_metadata(bad)
        assert found is None or isinstance(found, dict)
        try:
            media.probe(bad)
        except media.MediaError as error:
            assert str(bad) in str(error)


def test_a_box_that_claims_to_be_huge_costs_no_memory(tmp_path: Path) -> None:
    huge = struct.pack(">I4sQ", 1, b"moov", 2**62)
    (tmp_path / "a.mp4").write_bytes(struct.pack(">I4s", 8, b"ftyp") + huge)
    assert media.read_metadata(tmp_path / "a.mp4") is None
    with pytest.raises(media.MediaError, match="ends too early"):
        media.probe(tmp_path / "a.mp4")


def test_a_poster_is_the_middle_frame_no_larger_than_asked(tmp_path: Path) -> None:
    frames = smooth(9)
    media.write_poster(frames, tmp_path / "small.webp")
    with Image.open(tmp_path / "small.webp") as poster:
        assert (poster.format, poster.size) == ("WEBP", (96, 64))
        assert np.abs(np.asarray(poster.convert("RGB")).astype(int) - frames[4]).mean() < 4
    media.write_poster(smooth(1, 384, 640)[0], tmp_path / "large.webp")
    with Image.open(tmp_path / "large.webp") as poster:
        assert poster.size == (480, 288)
    media.write_poster(frames, tmp_path / "tiny.webp", size=(48, 48))
    with Image.open(tmp_path / "tiny.webp") as poster:
        assert poster.size == (48, 32)


@pytest.mark.parametrize("frames", [smooth(2)[:0], smooth(1)[0, 0], smooth(2).astype(float)])
def test_a_poster_of_what_is_no_picture_is_refused(frames: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(media.MediaError, match="frame: uint8"):
        media.write_poster(frames, tmp_path / "a.webp")
    assert not list(tmp_path.iterdir())

"""Videos are read to the picture, whatever they are kept in, and refused in words."""

from __future__ import annotations

import itertools
import os
import threading
import tracemalloc
from fractions import Fraction
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from pipelines import ffmpeg as reader
from pipelines import film
from pipelines.errors import BadInput
from pipelines.film import look, pictures_at
from pipelines.film_kinds import film_ending
from pipelines.infinitetalk.reference import moves, read_references, reference_size
from tests.fixtures.films import LOSSLESS, ffmpeg, numbered, write_film
from tests.fixtures.voices import hum, write_wav


def seen(path: Path, times) -> list[int]:
    """The numbers of the pictures that are seen then."""
    return [int(np.asarray(picture)[0, 0, 0]) for picture in pictures_at(path, times)]


@pytest.mark.parametrize("ending", LOSSLESS)
def test_what_is_seen_at_a_time_is_that_picture_to_the_bit(tmp_path, ending):
    pictures = numbered(30)
    path = write_film(tmp_path / f"film{ending}", pictures)
    assert film_ending(path) == ending
    assert (look(path).width, look(path).height) == (60, 40)
    assert look(path).seconds == pytest.approx(1.2)
    times = [Fraction(n, 25) for n in (0, 4, 12, 29)]
    for n, picture in zip((0, 4, 12, 29), pictures_at(path, times), strict=True):
        assert np.array_equal(np.asarray(picture)[..., :3], pictures[n])


def test_after_its_end_a_video_shows_its_last_picture(tmp_path):
    path = write_film(tmp_path / "film.mkv", numbered(7))
    times = [Fraction(n, 25) for n in (0, 5, 6, 7, 8, 500)]
    assert seen(path, times) == [0, 5, 6, 6, 6, 6]


@pytest.mark.parametrize("fps", ["30", "24", "30000/1001", "12"])
@pytest.mark.parametrize("ending", [".mkv", ".mp4"])
def test_a_video_of_another_rate_is_read_by_time(tmp_path, fps, ending):
    """The picture that a player shows; in mkv, times are rounded to thousandths."""
    rate = Fraction(fps)
    path = write_film(tmp_path / f"film{ending}", numbered(40, 16, 16), fps)
    late = Fraction(1, 100)
    at_25 = [Fraction(n, 25) + late for n in range(33)]
    assert seen(path, at_25) == [min(39, int(time * rate)) for time in at_25]
    each = [n / rate for n in range(40)]
    assert seen(path, each) == list(range(40))


def test_pictures_that_last_longer_than_others_are_seen_for_as_long(tmp_path):
    steady = write_film(tmp_path / "steady.mkv", numbered(20))
    uneven = tmp_path / "uneven.mkv"
    dropped = ("-vf", "select=not(between(n\\,5\\,14))", "-fps_mode", "vfr", "-c:v", "ffv1")
    ffmpeg("-i", str(steady), *dropped, str(uneven))
    times = [Fraction(n, 25) for n in (4, 5, 14, 15, 19)]
    assert seen(uneven, times) == [4, 4, 4, 15, 19]


def test_hundreds_of_pictures_are_picked_from_one_video(tmp_path):
    path = write_film(tmp_path / "film.avi", numbered(250, 16, 16))
    times = [Fraction(n, 50) for n in range(500)]
    assert seen(path, times) == [n // 2 for n in range(500)]


def test_a_video_that_lies_on_its_side_is_turned(tmp_path):
    pictures = numbered(3)
    plain = write_film(tmp_path / "plain.mp4", pictures)
    turned = tmp_path / "turned.mp4"
    ffmpeg("-display_rotation", "90", "-i", str(plain), "-c", "copy", str(turned))
    assert reference_size(turned) == (60, 40)
    (picture,) = read_references(turned, [Fraction(0)])
    assert np.array_equal(np.asarray(picture), np.rot90(pictures[0]))


def test_pixels_that_are_not_square_are_made_so(tmp_path):
    wide = write_film(tmp_path / "wide.mkv", numbered(2), "25", "-vf", "setsar=4/3")
    assert reference_size(wide) == (40, 80)
    (picture,) = read_references(wide, [Fraction(0)])
    assert picture.size == (80, 40)


def test_a_video_whose_size_changes_is_read_in_that_of_its_beginning(tmp_path):
    """As those of screens and calls do."""
    streams = []
    for height, width, colour, begins in ((40, 60, 50, "0"), (80, 120, 200, "0.4")):
        pictures = np.full((10, height, width, 3), colour, np.uint8)
        part = write_film(tmp_path / f"{width}.mp4", pictures, "25", "-bf", "0")
        stream = tmp_path / f"{width}.ts"
        ffmpeg("-i", str(part), "-c", "copy", "-output_ts_offset", begins, str(stream))
        streams.append(stream.read_bytes())
    (tmp_path / "both.ts").write_bytes(b"".join(streams))
    path = tmp_path / "both.mkv"
    ffmpeg("-i", str(tmp_path / "both.ts"), "-c", "copy", str(path))
    times = [Fraction(n, 25) for n in (0, 9, 10, 15, 19)]
    found = list(read_references(path, times))
    assert {picture.size for picture in found} == {(60, 40)}
    assert [round(np.asarray(one).mean()) for one in found] == [50, 50, 200, 200, 200]


def test_a_video_with_faults_inside_gives_its_pictures_or_is_refused_in_words(tmp_path):
    path = write_film(tmp_path / "film.mp4", numbered(50))
    data = bytearray(path.read_bytes())
    third = len(data) // 3
    data[third : 2 * third] = bytes(third)
    path.write_bytes(data)
    try:
        found = seen(path, [Fraction(n, 25) for n in (0, 25, 49)])
    except BadInput as error:
        assert error.field == "image" and "save it anew" in error.fix
    else:
        assert len(found) == 3 and found[0] == 0


def test_odd_sizes_are_read_and_transparency_is_white(tmp_path):
    pictures = numbered(3, 33, 47)
    path = write_film(tmp_path / "odd.mov", pictures)
    (picture,) = read_references(path, [Fraction(2, 25)])
    assert np.array_equal(np.asarray(picture), pictures[2])
    clear = tmp_path / "clear.mov"
    ffmpeg(
        *("-f", "lavfi", "-i", "color=red@0.0:s=32x32:r=25,format=rgba", "-frames:v", "2"),
        *("-c:v", "png", str(clear)),
    )
    (picture,) = read_references(clear, [Fraction(0)])
    assert np.asarray(picture).min() == 255


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_a_picture_that_moves_is_a_video(tmp_path, form):
    pictures = [Image.new("RGB", (32, 24), (40 * n, 0, 0)) for n in range(4)]
    path = tmp_path / f"moving.{form.lower()}"
    given = {"save_all": True, "append_images": pictures[1:], "duration": [40, 200, 40, 40]}
    pictures[0].save(path, form, **given, **({"lossless": True} if form == "WEBP" else {}))
    assert moves(path) and reference_size(path) == (24, 32)
    times = [Fraction(n, 25) for n in (0, 1, 5, 6, 7, 90)]
    found = [round(np.asarray(one)[0, 0, 0] / 40) for one in read_references(path, times)]
    assert found == [0, 1, 1, 2, 3, 3]


def moving(path: Path, count: int, duration: int, **more) -> Path:
    """Pictures of 64 x 64 whose red is their number, times 40."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 255, (count, 64, 64, 3), np.uint8)
    pixels[:, :8, :8] = 0
    pixels[:, :8, :8, 0] = 40 * np.arange(count)[:, None, None]
    first, *others = [Image.fromarray(picture) for picture in pixels]
    first.save(path, save_all=True, append_images=others, duration=duration, **more)
    return path


def shown(path: Path, *times: str) -> list[int]:
    found = read_references(path, [Fraction(time) for time in times])
    return [round(np.asarray(one)[:8, :8, 0].mean() / 40) for one in found]


def test_a_picture_that_is_only_for_those_who_cannot_see_others_is_left_out(tmp_path):
    path = moving(tmp_path / "moving.png", 4, 1000, default_image=True)
    assert shown(path, "0", "0.9", "1.1", "2.1", "9") == [1, 1, 2, 3, 3]


def test_a_moving_picture_in_too_great_a_hurry_moves_as_in_a_browser(tmp_path):
    assert shown(moving(tmp_path / "10.gif", 3, 10), "0", "0.09", "0.1", "0.2") == [0, 0, 1, 2]
    assert shown(moving(tmp_path / "20.gif", 3, 20), "0", "0.03", "0.05") == [0, 1, 2]


def test_a_moving_picture_that_was_cut_short_anywhere_is_read_or_refused(tmp_path):
    for form in ("gif", "png", "webp"):
        data = moving(tmp_path / f"whole.{form}", 3, 100).read_bytes()
        for end in range(20, len(data), len(data) // 60):
            path = tmp_path / f"cut.{form}"
            path.write_bytes(data[:end])
            try:
                assert reference_size(path) == (64, 64)
                assert not moves(path) or len(shown(path, "0", "0.15", "9")) == 3
            except BadInput as error:
                assert error.field == "image"


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "JPEG", "TIFF"])
def test_a_picture_that_does_not_move_is_none(tmp_path, form):
    path = tmp_path / "still"
    Image.new("RGB", (32, 24)).save(path, form)
    assert not moves(path) and reference_size(path) == (24, 32)


def test_only_one_picture_at_a_time_is_in_memory(tmp_path):
    """Of 60 pictures of 1.2 MB."""
    path = tmp_path / "film.mp4"
    ffmpeg("-f", "lavfi", "-i", "testsrc2=s=640x480:r=25", "-frames:v", "60", str(path))
    tracemalloc.start()
    try:
        count = sum(1 for _ in pictures_at(path, [Fraction(n, 25) for n in range(60)]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 60 and peak < 6_000_000


def children() -> set[str]:
    """Processes that this thread has started and that are not gone."""
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


def test_a_reader_that_stops_leaves_no_process(tmp_path):
    path = write_film(tmp_path / "film.mkv", numbered(200))
    before = children()
    coming = pictures_at(path, [Fraction(n, 25) for n in range(200)])
    assert len(list(itertools.islice(coming, 2))) == 2
    assert children() != before
    coming.close()
    assert children() == before


def refused(path: Path) -> str:
    with pytest.raises(BadInput) as refusal:
        reference_size(path)
    assert (refusal.value.field, refusal.value.value) == ("image", str(path))
    return refusal.value.fix


def test_what_is_no_video_is_refused_in_words(tmp_path):
    assert "no such file" in refused(tmp_path / "gone.mp4")
    for name, data, words in (
        ("empty.mp4", b"", "empty"),
        ("list.mp4", b"#EXTM3U\n#EXTINF:1,\n/etc/hostname\n", "neither a picture nor a video"),
        ("free.mp4", b"The free world has a wide sea", "neither a picture nor a video"),
        ("words.mp4", b"ffconcat version 1.0\nfile /etc/hostname\n", "neither a picture"),
        ("picture.heic", b"\0\0\0\x18ftypheic" + b"\0" * 80, "neither a picture"),
        ("start.mp4", b"\0\0\0\x18ftypisom" + b"\0" * 80, "damaged"),
    ):
        (tmp_path / name).write_bytes(data)
        assert words in refused(tmp_path / name)


def test_a_file_that_may_not_be_read_is_refused_in_words(tmp_path):
    """As for anybody but the superuser, who may read all."""
    path = write_film(tmp_path / "film.mkv", numbered(2, 16, 16))
    path.chmod(0)
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            reference_size(path)
        except BadInput as error:
            os._exit(0 if "It cannot be read: Permission denied" in error.fix else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_begins_like_a_video_is_read_as_one_of_the_kinds_that_are_taken(tmp_path):
    """ffmpeg looks further, and would find what is of another kind behind the beginning."""
    film = write_film(tmp_path / "film.mp4", numbered(30, 48, 64))
    ffmpeg("-i", str(film), "-c", "copy", str(tmp_path / "film.ts"))
    for start in (b"FLV\x01", b"\x1aE\xdf\xa3"):
        path = tmp_path / "behind.flv"
        path.write_bytes(start.ljust(188, b"\0") + (tmp_path / "film.ts").read_bytes())
        assert "of an unknown kind" in refused(path)


def test_a_file_with_sound_alone_is_refused_in_words(tmp_path):
    voice = write_wav(tmp_path / "voice.wav", hum(0.5))
    sound = tmp_path / "sound.mp4"
    ffmpeg("-i", str(voice), str(sound))
    assert "sound in it, but no picture" in refused(sound)
    cover = tmp_path / "cover.png"
    Image.new("RGB", (32, 32)).save(cover)
    with_cover = tmp_path / "with_cover.m4a"
    streams = ("-map", "0:a", "-map", "1:v", "-c:v", "png", "-disposition:v:0", "attached_pic")
    ffmpeg("-i", str(voice), "-i", str(cover), *streams, "-f", "mp4", str(with_cover))
    assert "damaged" in refused(with_cover) or "no picture" in refused(with_cover)


@pytest.mark.parametrize("more", [(), ("-movflags", "+faststart")])
def test_a_video_that_was_cut_short_is_refused_in_words(tmp_path, more):
    """Whether its table stands at its end or its beginning."""
    path = write_film(tmp_path / "film.mp4", numbered(50), "25", *more)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert "damaged" in refused(path)


def test_a_video_that_is_too_long_or_too_small_is_refused_in_words(tmp_path, monkeypatch):
    small = write_film(tmp_path / "small.mkv", numbered(2, 8, 40))
    assert "40 x 8 pixels: too small" in refused(small)
    slow = write_film(tmp_path / "slow.mkv", numbered(13, 16, 16), "1/100")
    assert "longer than 20 minutes" in refused(slow)
    monkeypatch.setattr(film, "MOST_PIXELS", 1000)
    large = write_film(tmp_path / "large.mkv", numbered(2))
    assert "60 x 40 pixels: too large" in refused(large)


def test_an_edited_video_is_looked_at_anew(tmp_path):
    path = write_film(tmp_path / "film.mkv", numbered(5))
    assert reference_size(path) == (40, 60)
    write_film(path, numbered(6, 20, 30))
    assert reference_size(path) == (20, 30)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """`stand_in("exit 1")`: from now on ffmpeg does the first 900 bytes of its work, then that."""

    def put(ending: str) -> None:
        script = tmp_path / "ffmpeg"
        work = f'"{imageio_ffmpeg.get_ffmpeg_exe()}" "$@" | head -c 900'
        script.write_text(f"#!/bin/sh\n{work}\n{ending}\n")
        script.chmod(0o755)
        monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(script))

    return put


@pytest.mark.parametrize(
    ("ending", "words"),
    [("kill -KILL $$", "stopped by SIGKILL"), ("exit 255", "was stopped"), ("exit 183", "damaged")],
)
def test_a_list_of_pictures_that_was_cut_short_is_not_used(tmp_path, stand_in, ending, words):
    """255 is how ffmpeg itself ends after a signal. Neither of them is a fault of the file."""
    path = write_film(tmp_path / "film.mkv", numbered(50, 16, 16))
    looked_at = write_film(tmp_path / "looked_at.mkv", numbered(50, 16, 16))
    look(looked_at)
    stand_in(ending)
    assert words in refused(path)
    with pytest.raises(BadInput, match=words):
        list(pictures_at(looked_at, [Fraction(0), Fraction(49, 25)]))


def test_ctrl_c_is_not_for_the_process_that_reads(tmp_path):
    path = write_film(tmp_path / "film.mkv", numbered(200))
    coming = pictures_at(path, [Fraction(n, 25) for n in range(200)])
    before = children()
    next(coming)
    (child,) = children() - before
    assert os.getpgid(int(child)) != os.getpgid(0)
    coming.close()


def test_reading_that_hangs_is_given_up(tmp_path, stand_in, monkeypatch):
    path = write_film(tmp_path / "film.mkv", numbered(2))
    stand_in("exec sleep 60")
    monkeypatch.setattr(reader, "MOST_WAIT", 0.3)
    assert "took longer than" in refused(path)


@pytest.mark.parametrize(
    "title", ["sar:1/1 s:10x10", "config in time_base: 1/1", "] n: 0 pts: 900 pts_time:", "[error]"]
)
def test_what_a_file_says_of_itself_is_not_taken_for_what_it_is(tmp_path, title):
    said = ("-metadata", f"title={title}", "-metadata", "comment=Duration: 01:00:00")
    path = write_film(tmp_path / "film.mkv", numbered(30), "25", *said)
    assert (look(path).width, look(path).height) == (60, 40)
    assert seen(path, [Fraction(n, 25) for n in (0, 12, 29)]) == [0, 12, 29]


def test_pictures_that_are_kept_out_of_order_without_a_time_are_read(tmp_path):
    """As avi keeps them."""
    path = tmp_path / "film.avi"
    mixed = write_film(tmp_path / "film.mp4", numbered(50), "25", "-bf", "3", "-b_strategy", "0")
    ffmpeg("-i", str(mixed), "-c", "copy", str(path))
    assert look(path).seconds == pytest.approx(2, abs=0.1)
    times = [Fraction(n, 25) for n in (0, 1, 2, 13, 26, 44)]
    assert seen(path, times) == [0, 1, 2, 13, 26, 44]


def test_thousands_of_pictures_are_picked_from_one_video(tmp_path):
    """More than one argument of a program holds."""
    path = tmp_path / "film.mp4"
    fast = ("-c:v", "mpeg4", "-video_track_timescale", "90000")
    ffmpeg("-f", "lavfi", "-i", "color=s=16x16:r=25", "-frames:v", "7500", *fast, str(path))
    assert sum(1 for _ in pictures_at(path, [Fraction(n, 25) for n in range(7500)])) == 7500


def test_a_video_that_is_too_large_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    """Which shows in that its pixels are told as they are kept, not as they are seen."""
    wide = write_film(tmp_path / "wide.mkv", numbered(2), "25", "-vf", "setsar=4/3")
    monkeypatch.setattr(film, "MOST_PIXELS", 1000)
    assert "60 x 40 pixels: too large" in refused(wide)


def test_a_video_of_too_many_pictures_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(film, "MOST_PACKETS", 5)
    path = write_film(tmp_path / "film.mkv", numbered(9, 16, 16))
    assert "more than 5 pictures" in refused(path)

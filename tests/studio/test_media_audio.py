"""Sound is added whole when segments are joined, and the pictures do not notice."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from studio import media
from studio.media import ffmpeg
from tests.studio.test_media_segments import smooth

FPS = 24
LENGTHS = (33, 24)
AAC_FRAME = 1024


def write_tone(path: Path, seconds: float, hertz: float, rate: int = 16_000) -> None:
    """A wav file with a tone that begins at its first sample."""
    times = np.arange(round(seconds * rate)) / rate
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((20_000 * np.sin(2 * np.pi * hertz * times)).astype("<i2").tobytes())


def read_sound(path: Path) -> np.ndarray:
    """Sound of a file, float `[n]` at 48 kHz, as a player would hear it."""
    out = np.zeros(1 << 23, np.uint8)
    arguments = ["-i", ffmpeg.url(path), "-map", "0:a:0", "-ac", "1", "-ar", "48000"]
    count = ffmpeg.run([*arguments, "-f", "s16le", "pipe:1"], "no sound", into=out)
    return out[:count].view("<i2") / 32768


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("audio")
    for i, frames in enumerate(LENGTHS):
        media.write_segment(smooth(frames, start=33 * i), folder / f"{i}.mp4", FPS)
    return [folder / f"{i}.mp4" for i in range(len(LENGTHS))]


@pytest.mark.parametrize("seconds", [1.0, sum(LENGTHS) / FPS, 9.0])
def test_a_tone_starts_with_the_first_frame_and_the_video_rules_how_long_it_is(
    seconds: float, segments: list[Path], tmp_path: Path
) -> None:
    write_tone(tmp_path / "it's a tone.wav", seconds, 440)
    out = tmp_path / "out.mp4"
    media.join(segments, out, audio=tmp_path / "it's a tone.wav")
    info = media.probe(out)
    assert (info.frames, info.audio, info.seconds) == (57, True, 57 / FPS)

    sound = read_sound(out)
    assert abs(len(sound) - 48_000 * info.seconds) <= AAC_FRAME
    heard = int(48_000 * min(seconds, info.seconds))
    spectrum = np.abs(np.fft.rfft(sound[:heard] * np.hanning(heard)))
    assert abs(np.argmax(spectrum) * 48_000 / heard - 440) < 1
    # The same phase as the tone that went in: not a sample late. 5 % is AAC's loss.
    wanted = 20_000 / 32_768 * np.sin(2 * np.pi * 440 * np.arange(heard) / 48_000)
    inside = slice(AAC_FRAME, heard - AAC_FRAME)
    assert np.abs(sound[:heard] - wanted)[inside].max() < 0.05 * np.abs(wanted).max()
    assert np.abs(sound[heard + AAC_FRAME :]).max(initial=0) < 0.01


def test_two_sounds_are_heard_at_once_and_begin_together(segments, tmp_path) -> None:
    write_tone(tmp_path / "low.wav", 1.0, 220)
    write_tone(tmp_path / "high.wav", 9.0, 660, rate=44_100)
    out = tmp_path / "out.mp4"
    voices = {"audio": tmp_path / "low.wav", "audio_2": tmp_path / "high.wav"}
    media.join(segments, out, **voices, metadata={"seed": 7})
    assert media.read_metadata(out) == {"seed": 7}
    sound = read_sound(out)
    assert abs(len(sound) - 48_000 * 57 / FPS) <= AAC_FRAME

    def heard(part: np.ndarray, hertz: int) -> float:
        times = np.arange(len(part)) / 48_000
        return abs(np.exp(-2j * np.pi * hertz * times) @ part) * 2 / len(part)

    first, rest = sound[2048:46_000], sound[52_000:100_000]
    assert heard(first, 660) == pytest.approx(20_000 / 32_768, rel=0.1)
    assert heard(first, 220) == pytest.approx(20_000 / 32_768, rel=0.1)
    assert heard(rest, 660) == pytest.approx(20_000 / 32_768, rel=0.1)
    assert heard(rest, 220) < 0.01


def test_the_sound_leaves_the_pictures_as_they_were(segments: list[Path], tmp_path: Path) -> None:
    write_tone(tmp_path / "tone.wav", 3, 440)
    media.join(segments, tmp_path / "mute.mp4")
    media.join(segments, tmp_path / "loud.mp4", audio=tmp_path / "tone.wav")
    np.testing.assert_array_equal(
        media.decode(tmp_path / "loud.mp4"), media.decode(tmp_path / "mute.mp4")
    )


@pytest.mark.parametrize("name", ["a.mp3", "a.ogg", "video.mp4"])
def test_any_file_with_sound_will_do(name: str, segments: list[Path], tmp_path: Path) -> None:
    write_tone(tmp_path / "tone.wav", 3, 440, rate=44_100)
    picture = ["-i", ffmpeg.url(segments[0])] if name == "video.mp4" else []
    tags = ["-metadata", "comment=someone else's", "-metadata", "title=theirs"]
    arguments = [*picture, "-i", ffmpeg.url(tmp_path / "tone.wav"), *tags]
    ffmpeg.run([*arguments, ffmpeg.url(tmp_path / name)], "no sound")
    media.join(segments, tmp_path / "out.mp4", audio=tmp_path / name, metadata={"ours": 1})
    sound = read_sound(tmp_path / "out.mp4")
    assert abs(len(sound) - 48_000 * sum(LENGTHS) / FPS) <= AAC_FRAME
    assert np.abs(sound[2000:4000]).max() > 0.3
    assert media.read_metadata(tmp_path / "out.mp4") == {"ours": 1}
    assert b"theirs" not in (tmp_path / "out.mp4").read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"this is no sound", "segment"])
def test_a_file_without_sound_is_refused(
    content: bytes | str | None, segments: list[Path], tmp_path: Path
) -> None:
    audio = tmp_path / "voice.wav"
    if content == "segment":
        audio = segments[0]
    elif content is not None:
        audio.write_bytes(content)
    (tmp_path / "out.mp4").write_bytes(b"as it was")
    with pytest.raises(media.MediaError, match=f"audio: .*{audio.name}"):
        media.join(segments, tmp_path / "out.mp4", audio=audio)
    assert (tmp_path / "out.mp4").read_bytes() == b"as it was"
    assert {path.name for path in tmp_path.iterdir()} <= {"out.mp4", "voice.wav"}

"""From a file with a voice to what each frame of a segment hears."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
import torch

from pipelines.errors import BadInput
from pipelines.infinitetalk import sound
from pipelines.infinitetalk.loudness import integrated_loudness, normalised
from pipelines.infinitetalk.sound import read_voice, samples_in
from pipelines.infinitetalk.speech import convolved, speech_features
from pipelines.infinitetalk.windows import (
    audio_windows,
    chain_of,
    frames_of,
    segments_needed,
    window_indices,
)
from tests.fixtures.infinitetalk_golden import FOLDER, cases, close, golden
from tests.fixtures.voices import RATE, hum, write_wav


def convert(source: Path, target: Path, *options: str) -> Path:
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-y", "-i", str(source)]
    subprocess.run([*command, *options, str(target)], check=True)
    return target


@pytest.fixture(scope="module")
def encoder():
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    config = json.loads((FOLDER / "wav2vec.json").read_text())["config"]
    model = Wav2Vec2Model(Wav2Vec2Config(**config)).eval().requires_grad_(False)
    loaded = model.load_state_dict(golden("wav2vec_weights"), strict=False)
    assert loaded.unexpected_keys == [] and loaded.missing_keys == ["masked_spec_embed"]
    return model


@pytest.mark.parametrize("name", ["wav6400", "wav20800"])
def test_speech_features_equal_the_published_ones(encoder, name):
    voice = golden("wav2vec")[f"{name}.in"].numpy()
    ours = speech_features(encoder, voice, fps=25, do_normalize=True)
    close(ours, golden("wav2vec")[f"{name}.emb"], atol=1e-4, rtol=1e-4)


def test_a_length_that_floats_get_wrong_has_all_its_frames(encoder):
    voice = golden("wav2vec")["wav18560.in"].numpy()
    assert len(golden("wav2vec")["wav18560.emb"]) == 28
    assert len(speech_features(encoder, voice, fps=25, do_normalize=True)) == 29


def test_a_voice_taken_in_pieces_has_the_same_features(encoder):
    layers = encoder.feature_extractor.conv_layers
    voice = golden("wav2vec")["wav20800.in"]
    whole = encoder.feature_extractor(voice[None])[0]
    for piece in (700, 5_000, 20_800):
        close(convolved(layers, voice, piece), whole, atol=2e-5)


def test_frames_of_a_voice_are_whole_numbers():
    for samples, theirs in cases()["audio_frames_T_from_samples_at_16k"].items():
        exact = int(samples) * 25 // RATE
        assert frames_of(int(samples), 25) == exact
        assert exact - theirs in ((0, 1) if int(samples) % 640 == 0 else (0,))


@pytest.mark.parametrize("name", sorted(golden("audio_windows")))
def test_windows_and_segments_equal_the_published_ones(name):
    expected, case = golden("audio_windows")[name], cases()["audio_windows"][name]
    F, M = case["F"], case["M"]
    frames = min(case["T"][0], case["max_frames"])
    assert segments_needed(frames, F, M) == case["segments"] == len(expected)
    for i, of_segment in enumerate(expected):
        last = i == case["segments"] - 1
        ours = [window_indices(i * (F - M), F, T, last) for T in case["T"]]
        assert torch.equal(torch.tensor(ours, dtype=torch.int16), of_segment)
    if len(case["T"]) == 1:
        assert chain_of(frames, 1000, F, M).total == case["frames_out"]


@pytest.mark.parametrize("frames", [1, 3, 10])
def test_a_voice_shorter_than_a_segment_goes_on_mirrored(frames):
    heard = window_indices(0, 81, frames, last=True)
    middles = [window[2] for window in heard]
    assert middles[:frames] == list(range(frames))
    assert middles[frames : 2 * frames] == list(reversed(range(frames)))
    assert {index for window in heard for index in window} <= set(range(frames))
    assert chain_of(frames, 5, 81, 9).total == frames


def test_a_segment_that_is_not_the_last_one_does_not_know_how_long_the_voice_is():
    embeds = torch.randn(2, 400, 3, 4)
    for i in (0, 2):
        longer, shorter = (audio_windows(embeds[:, :n], i, 81, 9) for n in (400, 300))
        assert longer.shape == (2, 81, 5, 3, 4)
        assert torch.equal(longer, shorter)


def test_fewer_segments_than_the_voice_needs_are_not_cut():
    assert chain_of(1000, 2, 81, 9).total == 153
    assert chain_of(154, 9, 81, 9).segments == 3
    assert chain_of(154, 9, 81, 9).total == 154


@pytest.mark.parametrize(
    ("ending", "rate", "channels", "options"),
    [
        ("wav", 44_100, 2, ()),
        ("wav", 8_000, 1, ()),
        ("flac", 48_000, 2, ()),
        ("mp3", 44_100, 1, ("-b:a", "64k")),
        ("ogg", 48_000, 1, ("-c:a", "libvorbis")),
        ("m4a", 44_100, 2, ("-c:a", "aac")),
        ("opus", 48_000, 1, ("-c:a", "libopus")),
    ],
)
def test_any_common_format_and_rate_can_be_read(tmp_path, ending, rate, channels, options):
    mono = hum(1.2, rate)
    samples = np.repeat(mono, channels)
    source = write_wav(tmp_path / "source.wav", samples, rate, channels)
    path = convert(source, tmp_path / f"voice one.{ending}", *options) if options else source
    voice = read_voice(path)
    assert voice.dtype == np.float32 and voice.ndim == 1
    assert abs(len(voice) - 1.2 * RATE) < 0.06 * RATE
    assert 0.2 < np.abs(voice).max() < 0.5


def test_a_wav_at_16_khz_is_read_sample_by_sample(tmp_path):
    samples = hum(0.4)
    voice = read_voice(write_wav(tmp_path / "voice.wav", samples))
    assert len(voice) == 6400
    np.testing.assert_allclose(voice, samples, atol=1 / 16000)


def test_a_sound_track_of_a_video_is_a_voice_too(tmp_path):
    source = write_wav(tmp_path / "source.wav", hum(0.5))
    picture = ("-f", "lavfi", "-i", "color=red:size=32x32:rate=25:duration=0.5", "-shortest")
    assert len(read_voice(convert(source, tmp_path / "film.mp4", *picture))) > 0.45 * RATE


def refusal(path: Path, field: str = "audio") -> str:
    with pytest.raises(BadInput) as error:
        read_voice(path, field)
    assert error.value.field == field
    return error.value.fix


def test_what_is_no_voice_is_refused_in_words(tmp_path):
    assert "no such file" in refusal(tmp_path / "none.wav")
    empty = tmp_path / "empty.wav"
    empty.touch()
    assert "is empty" in refusal(empty, "audio_2")
    text = tmp_path / "letter.wav"
    text.write_text("Dear Sir,")
    assert "no sound" in refusal(text)
    assert "no sound" in refusal(write_wav(tmp_path / "nothing.wav", np.zeros(0)))
    assert "silent" in refusal(write_wav(tmp_path / "silent.wav", np.zeros(RATE)))
    assert "0.05 s" in refusal(write_wav(tmp_path / "click.wav", hum(0.05)))
    playlist = tmp_path / "list.m3u8"
    playlist.write_text("#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n")
    assert "no sound" in refusal(playlist)


def test_a_list_that_names_another_file_is_no_voice(tmp_path):
    write_wav(tmp_path / "voice.wav", hum(0.5))
    (tmp_path / "list.wav").write_text("ffconcat version 1.0\nfile voice.wav\n")
    assert "no sound in it" in refusal(tmp_path / "list.wav")


def test_a_reading_that_was_stopped_is_no_fault_of_the_voice(tmp_path, monkeypatch):
    path = write_wav(tmp_path / "voice.wav", hum(0.5))
    (tmp_path / "ffmpeg").write_text("#!/bin/sh\nhead -c 9000 /dev/zero; kill -KILL $$\n")
    (tmp_path / "ffmpeg").chmod(0o755)
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", str(tmp_path / "ffmpeg"))
    assert "stopped by SIGKILL" in refusal(path)


def test_a_file_that_is_too_long_is_refused_without_reading_all_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sound, "MOST_SECONDS", 60)
    path = write_wav(tmp_path / "long.wav", np.full(200 * 1000, 0.1), rate=1000)
    assert "1 minutes" in refusal(path)
    assert len(sound._decoded(path, "audio")[0]) == 61 * RATE


def test_a_damaged_file_is_refused_and_a_scratch_is_not(tmp_path):
    source = write_wav(tmp_path / "source.wav", hum(4))
    whole = convert(source, tmp_path / "voice.flac")
    content = bytearray(whole.read_bytes())
    third = len(content) // 3
    content[third : 2 * third] = bytes(third)
    damaged = tmp_path / "damaged.flac"
    damaged.write_bytes(content)
    assert "damaged" in refusal(damaged)
    scratched = tmp_path / "scratched.mp3"
    mp3 = convert(source, tmp_path / "voice.mp3").read_bytes()
    scratched.write_bytes(mp3 + b"some words at the end" * 3)
    assert len(read_voice(scratched)) > 3.9 * RATE


def test_the_length_of_a_file_is_remembered_until_it_changes(tmp_path):
    path = write_wav(tmp_path / "voice.wav", hum(0.4))
    assert samples_in(path) == samples_in(path) == 6400
    write_wav(path, hum(0.5))
    assert samples_in(path) == 8000


@pytest.mark.parametrize(
    ("rate", "frequency", "lufs"),
    [(16_000, 997, -3.0832156835), (16_000, 60, -6.6326060663), (48_000, 997, -3.0516806906)],
)
def test_loudness_is_what_pyloudnorm_measures(rate, frequency, lufs):
    sine = np.sin(2 * np.pi * frequency * np.arange(3 * rate) / rate)
    assert integrated_loudness(sine, rate) == pytest.approx(lufs, abs=1e-8)
    assert integrated_loudness(sine / 10, rate) == pytest.approx(lufs - 20, abs=1e-8)


def test_pauses_do_not_make_a_voice_quieter():
    spoken = hum(2)
    with_pause = np.concatenate([spoken, np.zeros(4 * RATE, np.float32), spoken])
    there, pauses = integrated_loudness(spoken, RATE), integrated_loudness(with_pause, RATE)
    assert pauses == pytest.approx(there, abs=0.5)
    assert integrated_loudness(normalised(with_pause, RATE), RATE) == pytest.approx(-23, abs=0.01)


def test_a_voice_of_no_loudness_stays_as_it_is():
    hiss = np.full(RATE, 1e-6, np.float32)
    assert normalised(hiss, RATE) is hiss


def test_a_voice_shorter_than_a_block_is_normalised_too():
    assert integrated_loudness(normalised(hum(0.2), RATE), RATE) == pytest.approx(-23, abs=0.01)

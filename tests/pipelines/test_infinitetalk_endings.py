"""How much of a talking video may stay when its voices get another ending."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.errors import BadInput
from pipelines.infinitetalk import endings
from pipelines.infinitetalk.endings import most_kept
from pipelines.infinitetalk.loudness import normalised
from tests.fixtures.voices import RATE, hum, write_wav

FRAME = 640


def recipe(audio: Path, audio_2: Path | None = None) -> SimpleNamespace:
    return SimpleNamespace(audio=audio, audio_2=audio_2, fps=25, frames=9, overlap=5)


@pytest.fixture
def voice(tmp_path):
    """`voice(samples)` is a new file with them."""
    made = iter(range(100))
    return lambda samples: write_wav(tmp_path / f"voice{next(made)}.wav", samples)


def with_ending(speech: np.ndarray, frames: int) -> np.ndarray:
    """The speech with another pitch after so many frames."""
    return np.concatenate([speech[: frames * FRAME], hum(10 / 25, pitch=90)])


def test_a_short_voice_that_stays_does_not_count_against_the_ending_of_the_long_one(voice):
    speech, short = hum(40 / 25), hum(6 / 25, pitch=300)
    old, new, other = voice(speech), voice(with_ending(speech, 24)), voice(short)
    alone = most_kept(recipe(old), recipe(new))
    assert alone == 4
    assert most_kept(recipe(old, other), recipe(new, other)) == alone
    # The same words under another name, and with silence behind them.
    copy = voice(np.concatenate([short, np.zeros(3 * FRAME, np.float32)]))
    assert most_kept(recipe(old, other), recipe(new, copy)) == alone


def test_a_voice_that_goes_on_where_it_was_silent_differs_from_there(voice):
    long, short = voice(hum(40 / 25)), hum(15 / 25, pitch=300)
    goes_on = np.concatenate([short, hum(10 / 25, pitch=90)])
    assert most_kept(recipe(long, voice(short)), recipe(long, voice(goes_on))) == 2
    assert most_kept(recipe(long, voice(goes_on)), recipe(long, voice(short))) == 2


def test_nothing_is_kept_beyond_the_end_of_the_shorter_video(voice):
    speech = hum(40 / 25)
    assert most_kept(recipe(voice(speech)), recipe(voice(speech[: 21 * FRAME]))) == 3


def test_quiet_beginnings_that_differ_are_not_the_same(voice):
    """Loudness is brought to one level before a voice is heard."""
    quiet = [0.001 * hum(40 / 25, pitch=pitch) for pitch in (180, 300)]
    assert np.abs(quiet[0] - quiet[1]).max() < 1e-3
    rest = 0.01 * hum(1.0)
    whole = [np.concatenate([one, rest]) for one in quiet]
    heard = [normalised(one, RATE)[: len(quiet[0])] for one in whole]
    assert np.abs(heard[0] - heard[1]).max() > 0.01
    old, new = map(voice, whole)
    assert most_kept(recipe(old), recipe(new)) == 0


def test_saving_in_16_bits_once_more_changes_nothing(voice):
    speech = hum(40 / 25)
    step = np.random.default_rng(0).integers(-1, 2, len(speech)) / 32768
    again = (speech + step).astype(np.float32)
    ending = with_ending(again, 24)
    assert most_kept(recipe(voice(speech)), recipe(voice(ending))) == 4


def test_two_files_are_compared_once_while_they_stay_as_they_are(voice):
    compared = endings._compared.cache_info().misses
    speech = hum(40 / 25)
    old, new = voice(speech), voice(with_ending(speech, 24))
    for _ in range(3):
        assert most_kept(recipe(old), recipe(new)) == 4
    assert endings._compared.cache_info().misses == compared + 1
    write_wav(new, with_ending(speech, 16))
    os.utime(new, ns=(1, 1))
    assert most_kept(recipe(old), recipe(new)) == 2
    assert endings._compared.cache_info().misses == compared + 2


def test_a_voice_that_is_gone_is_named(voice, tmp_path):
    with pytest.raises(BadInput, match=r"audio.*no such file"):
        most_kept(recipe(voice(hum(1.0))), recipe(tmp_path / "gone.wav"))

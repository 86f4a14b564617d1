"""Loudness of a voice, and the gain that brings it to the one that the model was trained with.

ITU-R BS.1770-4: K-weighting, blocks of 400 ms, two gates. The filters are those of De Man (2018),
"Evaluation of Implementations of the EBU R128 Loudness Measurement", at any rate.
"""

from __future__ import annotations

import math

import numpy as np

from pipelines.infinitetalk.sound import TARGET_LUFS

BLOCK_SECONDS = 0.4
STEP_SECONDS = 0.1
ABSOLUTE_GATE = -70.0
RELATIVE_GATE = -10.0
OFFSET = -0.691
RESPONSE_SECONDS = 0.5
"""After which the impulse response of the filters is below 1e-9: so they can be a convolution."""


def normalised(voice: np.ndarray, rate: int) -> np.ndarray:
    """`voice`, mono in -1..1, at -23 LUFS. One in which nothing is above the gate stays as it is.

    Peaks may pass 1, as in the published code: what comes next is scaled to unit variance.
    """
    loudness = integrated_loudness(voice, rate)
    if not math.isfinite(loudness):
        return voice
    return (voice * 10 ** ((TARGET_LUFS - loudness) / 20)).astype(np.float32)


def integrated_loudness(voice: np.ndarray, rate: int) -> float:
    """LUFS of mono samples in -1..1; -inf if nothing is above the gate. A sound shorter than one
    block counts as one block of its own length."""
    power = np.square(_weighted(voice, rate))
    power_to = np.concatenate(([0.0], np.cumsum(power)))
    block = min(round(BLOCK_SECONDS * rate), len(voice))
    starts = np.arange(0, len(voice) - block + 1, round(STEP_SECONDS * rate))
    energy = (power_to[starts + block] - power_to[starts]) / block
    energy = energy[_lufs(energy) >= ABSOLUTE_GATE]
    if not len(energy):
        return -math.inf
    gate = float(_lufs(energy.mean())) + RELATIVE_GATE
    return float(_lufs(energy[_lufs(energy) > gate].mean()))


def _lufs(energy: np.ndarray) -> np.ndarray:
    return OFFSET + 10 * np.log10(np.maximum(energy, 1e-20))


def _weighted(voice: np.ndarray, rate: int) -> np.ndarray:
    """K-weighted samples, float64: convolution with the impulse response, piece by piece."""
    response = _impulse_response(rate)
    size = 1 << (4 * len(response) - 1).bit_length()
    piece = size - len(response) + 1
    spectrum = np.fft.rfft(response, size)
    out = np.zeros(len(voice) + size)
    for start in range(0, len(voice), piece):
        part = np.fft.rfft(voice[start : start + piece].astype(np.float64), size)
        out[start : start + size] += np.fft.irfft(part * spectrum, size)
    return out[: len(voice)]


def _impulse_response(rate: int) -> np.ndarray:
    signal = np.zeros(round(RESPONSE_SECONDS * rate))
    signal[0] = 1.0
    return _biquad(_biquad(signal, *_high_shelf(rate)), *_high_pass(rate))


def _high_shelf(rate: int) -> tuple[list[float], list[float]]:
    """What a head does: +4 dB above 1500 Hz, Q = 1 / sqrt(2)."""
    gain, w = 10 ** (4.0 / 40), 2 * math.pi * 1500.0 / rate
    alpha, cos = math.sin(w) / (2 * math.sqrt(0.5)), math.cos(w)
    root = 2 * math.sqrt(gain) * alpha
    b = [
        gain * ((gain + 1) + (gain - 1) * cos + root),
        -2 * gain * ((gain - 1) + (gain + 1) * cos),
        gain * ((gain + 1) + (gain - 1) * cos - root),
    ]
    a = [
        (gain + 1) - (gain - 1) * cos + root,
        2 * ((gain - 1) - (gain + 1) * cos),
        (gain + 1) - (gain - 1) * cos - root,
    ]
    return b, a


def _high_pass(rate: int) -> tuple[list[float], list[float]]:
    """38 Hz, Q = 0.5."""
    w = 2 * math.pi * 38.0 / rate
    alpha, cos = math.sin(w) / (2 * 0.5), math.cos(w)
    return [(1 + cos) / 2, -(1 + cos), (1 + cos) / 2], [1 + alpha, -2 * cos, 1 - alpha]


def _biquad(x: np.ndarray, b: list[float], a: list[float]) -> np.ndarray:
    b0, b1, b2 = (value / a[0] for value in b)
    _, a1, a2 = (value / a[0] for value in a)
    y, s1, s2 = np.empty_like(x), 0.0, 0.0
    for n, sample in enumerate(x.tolist()):
        y[n] = out = b0 * sample + s1
        s1, s2 = b1 * sample - a1 * out + s2, b2 * sample - a2 * out
    return y

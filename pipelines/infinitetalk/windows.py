"""Which speech features each frame of a segment hears, and how many frames and segments a voice
comes to. Whole-number arithmetic throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.frames import Chain

if TYPE_CHECKING:
    import torch

SAMPLE_RATE = 16_000
REACH = 2
"""Features before and after that of the frame itself."""
WINDOW = 2 * REACH + 1


def frames_of(samples: int, fps: int) -> int:
    """Whole frames in so many samples at 16 kHz.

    The published code multiplies seconds as floats, which loses a frame for some whole lengths
    (18560 samples at 25 fps are 29 frames, not 28).
    """
    return samples * fps // SAMPLE_RATE


def segments_needed(frames: int, F: int, M: int) -> int:
    """Segments until `frames` frames are there; at least one."""
    return 1 + max(0, -(-(frames - F) // (F - M)))


def chain_of(frames: int, segments: int, F: int, M: int) -> Chain:
    """At most `segments` segments of a voice of `frames` frames, cut where the voice ends."""
    return Chain(min(segments, segments_needed(frames, F, M)), F, M, end=frames)


def window_indices(first: int, F: int, frames: int, last: bool) -> list[list[int]]:
    """For each of the frames `first` to `first + F` the five features that it hears, of `frames`.

    Before the beginning stands the first feature. In the last segment, where the voice ends before
    the segment, the features go on mirrored, back and forth as long as it takes: published for
    as many as there are, and continued here so that a voice of any length will do. A segment that
    is not the last reaches at most two frames beyond its end; there stands the last feature.
    """

    def heard(index: int) -> int:
        if not last:
            return min(max(index, 0), frames - 1)
        folded = max(index, 0) % (2 * frames)
        return min(folded, 2 * frames - 1 - folded)

    offsets = range(-REACH, REACH + 1)
    return [[heard(first + i + offset) for offset in offsets] for i in range(F)]


def audio_windows(embeds: torch.Tensor, i: int, F: int, M: int) -> torch.Tensor:
    """`[P, F, 5, blocks, channels]` of segment i, from the features `[P, T, blocks, channels]`."""
    frames = embeds.shape[1]
    first = i * (F - M)
    return embeds[:, window_indices(first, F, frames, last=first + F >= frames)]

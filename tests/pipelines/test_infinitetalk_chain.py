"""A chain whose last segment ends early, where the voice does."""

from __future__ import annotations

import pytest

from pipelines.frames import Chain


def test_a_chain_may_end_within_its_last_segment():
    chain = Chain(segments=3, F=81, M=9, end=160)
    assert [chain.P(n) for n in range(4)] == [0, 81, 153, 160]
    assert chain.new_frames(2) == (153, 160)
    assert chain.start(2) == 144 and chain.total == 160


def test_an_end_beyond_the_last_segment_cuts_nothing():
    assert Chain(segments=2, F=81, M=9, end=1000).total == Chain(2, 81, 9).total == 153


@pytest.mark.parametrize("end", [0, 153])
def test_a_chain_has_no_segment_without_new_frames(end):
    with pytest.raises(ValueError, match=f"frame {end}"):
        Chain(segments=3, F=81, M=9, end=end)

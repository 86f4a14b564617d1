"""Previews: a linear map from latents to colours."""

from __future__ import annotations

import numpy as np
import torch

from pipelines.preview import Projection


def test_a_linear_codec_is_learned_from_what_it_decodes():
    generator = torch.Generator().manual_seed(0)
    latents = torch.rand(3, 4, 8, 8, generator=generator) * 2 - 1
    frames = ((latents + 1) * 127.5).round().to(torch.uint8).permute(1, 2, 3, 0)
    frames = frames.repeat_interleave(8, 1).repeat_interleave(8, 2).numpy()
    projection = Projection()
    assert projection.picture(latents[:, 0]) is None
    projection.learn(latents, frames)
    picture = projection.picture(latents[:, 2])
    assert picture.shape == (8, 8, 3) and picture.dtype == np.uint8
    assert abs(picture.astype(int) - frames[2, ::8, ::8]).max() <= 3


def test_a_map_that_is_given_is_used_as_it_is():
    projection = Projection(np.array([[1.0, 0, 0], [0, 0, 0], [0, 1.0, -1.0]]))
    projection.learn(torch.zeros(2, 1, 1, 1), np.zeros((1, 8, 8, 3), np.uint8))
    assert projection.picture(torch.zeros(2, 1, 1)).tolist() == [[[128, 255, 0]]]

"""The frame-stack codec of the shipped checkpoint."""

import numpy as np
import pytest
import torch

from pipelines.starter.codec import FrameStackCodec, stack_frames, unstack_frames
from pipelines.starter.codec_training import CodecSettings, CodecTrainer, fidelity
from pipelines.starter.dataset import Scene, draw_clip
from pipelines.starter.evaluate import CHECKPOINT, through_codec
from pipelines.starter.judge import largest_jump


@pytest.fixture(scope="module")
def codec():
    return FrameStackCodec.from_pretrained(CHECKPOINT / "vae", torch_dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def latents(codec):
    generator = torch.Generator().manual_seed(0)
    std = torch.tensor(codec.config.latents_std).view(1, -1, 1, 1, 1)
    return torch.randn(1, 24, 5, 8, 12, generator=generator) * std


def test_held_out_clips_come_back_at_30_decibels(codec):
    found = fidelity(codec, clips=8, seed=10_001)
    assert found.whole >= 30
    assert found.actor >= 25


def test_motion_is_spread_over_the_frames_of_a_stack(codec):
    """A scene that scrolls must not come back as four like frames and then a jump."""
    rng = np.random.default_rng(4)
    clip = draw_clip(Scene("sea", "noon", "boat", "red", "left"), 33, rng).frames
    assert largest_jump(through_codec(codec, clip)) < 3
    gain = codec.config.motion_gain
    codec.register_to_config(motion_gain=0.0)
    assert largest_jump(through_codec(codec, clip)) > 4
    codec.register_to_config(motion_gain=gain)


def test_stacking_frames_can_be_undone():
    video = torch.rand(2, 3, 9, 8, 8)
    assert stack_frames(video).shape == (6, 12, 8, 8)
    assert torch.equal(unstack_frames(stack_frames(video), batch=2), video)


@torch.no_grad()
def test_a_latent_frame_decodes_from_itself_and_the_one_before_only(codec, latents):
    whole = codec.decode(latents).sample
    assert whole.shape == (1, 3, 17, 64, 96)
    changed = latents.clone()
    changed[:, :, 2] += 1
    differs = (codec.decode(changed).sample - whole).abs().amax((0, 1, 3, 4)) > 1e-4
    # The last frame of the next stack is that stack's own picture.
    assert differs.nonzero().flatten().tolist() == [5, 6, 7, 8, 9, 10, 11]


@torch.no_grad()
def test_a_segment_decodes_as_it_does_inside_the_whole_video(codec, latents):
    """The repeated latents at its start are context enough."""
    whole = codec.decode(latents).sample
    segment = codec.decode(latents[:, :, 1:]).sample
    assert torch.allclose(whole[:, :, 5:], segment[:, :, 1:], atol=1e-5)


@torch.no_grad()
def test_slices_do_not_change_the_result(codec, latents):
    whole = codec.decode(latents).sample
    codec.register_to_config(frames_per_slice=2)
    assert torch.allclose(codec.decode(latents).sample, whole, atol=1e-5)
    codec.register_to_config(frames_per_slice=16)


@pytest.mark.parametrize("frames, nearest", [(8, "5 and 9"), (3, "1 and 5")])
def test_other_frame_counts_are_refused_with_the_nearest(codec, frames, nearest):
    with pytest.raises(ValueError, match=nearest):
        codec.encode(torch.zeros(1, 3, frames, 64, 96))


def test_other_sides_are_refused_with_the_nearest(codec):
    with pytest.raises(ValueError, match="96 x 64"):
        codec.encode(torch.zeros(1, 3, 5, 64, 97))


@torch.no_grad()
def test_normalised_latents_preview_as_a_small_picture(codec):
    """latents_rgb is close to the mean colour of each cell."""
    from pipelines.starter.codec_training import _cell_colours, draw_stacks, to_float

    stacks = draw_stacks(4, 9, seed=3).pixels
    latents = codec.encoder(to_float(stacks)).movedim(1, -1).flatten(0, 2)
    config = codec.config
    latents = (latents - torch.tensor(config.latents_mean)) / torch.tensor(config.latents_std)
    matrix = torch.tensor(config.latents_rgb)
    picture = latents @ matrix[:-1] + matrix[-1]
    assert (picture - _cell_colours(stacks)).abs().mean() < 0.15


def test_it_saves_and_loads(tmp_path, latents):
    codec = FrameStackCodec(block_out_channels=(8, 8, 8, 8), detail_width=16, detail_layers=1)
    codec.save_pretrained(tmp_path)
    again = FrameStackCodec.from_pretrained(tmp_path)
    assert again.config.z_dim == 24
    with torch.no_grad():
        assert torch.equal(codec.decode(latents).sample, again.decode(latents).sample)


def test_codec_training_goes_on_where_it_stopped(tmp_path):
    def trainer(minutes):
        torch.manual_seed(0)
        codec = FrameStackCodec(block_out_channels=(8, 8, 8, 8))
        settings = CodecSettings(minutes=minutes, clips=2, frames=5, batch=2)
        return CodecTrainer(codec, settings)

    first = trainer(0.01)
    first.run(tmp_path, log=lambda line: None)
    again = trainer(0.02)
    again.load(tmp_path)
    assert again.step == first.step > 0 and again.minutes == first.minutes
    again.run(tmp_path, log=lambda line: None)
    assert again.step > first.step
    assert again.minutes >= 0.02

"""The transformer gives what the published code gives, as a whole and part by part."""

from __future__ import annotations

import pytest
import torch

from pipelines.infinitetalk.audio_tokens import gather_windows
from pipelines.infinitetalk.routing import (
    first_frame_attention,
    key_positions,
    query_positions,
    rotate,
)
from pipelines.infinitetalk.transformer import InfiniteTalkTransformer3DModel
from tests.fixtures.infinitetalk_golden import cases, close, golden, sizes, transformer

PART = {"atol": 2e-5, "rtol": 1e-5}


def inputs(persons: str, timestep: int = 0) -> dict[str, torch.Tensor]:
    given = golden("forward")
    return {
        "hidden_states": torch.cat([given["in.x"], given["in.y"]])[None],
        "timestep": given["in.timesteps"][timestep : timestep + 1],
        "encoder_hidden_states": given["in.context"][None],
        "encoder_hidden_states_image": given["in.clip_fea"],
        "audio_embeds": given[f"in.audio.{persons}"][None],
        "ref_target_masks": given[f"in.ref_target_masks.{persons}"],
    }


@pytest.mark.parametrize("text_len", [16, 512])
@pytest.mark.parametrize("timestep", [0, 1])
@pytest.mark.parametrize("persons", ["p1", "p2"])
def test_the_velocity_is_that_of_the_published_model(persons, timestep, text_len):
    sample = transformer(text_len)(**inputs(persons, timestep)).sample[0]
    expected = golden("forward")[f"out.{persons}.t{timestep}.textlen{text_len}"]
    close(sample, expected, atol=2e-4, rtol=1e-3)


def test_without_a_voice_two_persons_are_computed_as_one():
    given = inputs("p2") | {
        "audio_embeds": torch.zeros_like(golden("forward")["in.audio.p1"])[None]
    }
    expected = golden("forward")["out.null_audio.t0.textlen512"]
    close(transformer()(**given).sample[0], expected, atol=2e-4, rtol=1e-3)


def test_each_latent_frame_hears_the_features_of_its_own_frames():
    frames, slots = torch.meshgrid(torch.arange(9.0), torch.arange(5.0), indexing="ij")
    first, later = gather_windows((10 * frames + slots)[..., None, None])
    assert torch.equal(first[..., 0, 0], golden("modules")["audio_gather.first"])
    assert torch.equal(later[..., 0, 0], golden("modules")["audio_gather.latter"])


def test_audio_tokens_equal_the_published_projection():
    given = golden("modules")
    first, later = given["audio_proj.in.first"], given["audio_proj.in.latter"]
    # Windows from which the gathering makes just these inputs.
    windows = torch.zeros(2, 9, 5, *first.shape[-2:])
    windows[:, :1] = first
    groups = windows[:, 1:].unflatten(1, (2, 4))
    groups[:, :, 0, :3], groups[:, :, 3, 2:] = later[:, :, :3], later[:, :, 5:]
    groups[:, :, 1, 2], groups[:, :, 2, 2] = later[:, :, 3], later[:, :, 4]
    close(transformer().audio_proj(windows), given["audio_proj.out"], **PART)


@pytest.mark.parametrize("persons", [1, 2])
def test_the_attention_to_the_voices_equals_the_published_one(persons):
    given = golden("modules")
    attention = transformer().blocks[cases()["audio_attn_block_index"]].audio_cross_attn
    tokens = given[f"audio_attn.p{persons}.in.audio_tokens"].unflatten(2, (persons, -1))
    positions = None
    if persons == 2:
        positions = query_positions(given["audio_attn.p2.in.x_ref_attn_map"][None])
        close(positions[0], given["audio_attn.p2.query_pos"], **PART)
        one_frame = key_positions(2, tokens.shape[3], tokens)
        close(one_frame.repeat(3), given["audio_attn.p2.key_pos"].reshape(3, -1).flatten(), **PART)
    out = attention(given["audio_attn.in.x"], tokens.transpose(1, 2), positions)
    close(out, given[f"audio_attn.p{persons}.out"], **PART)


def test_tokens_are_mapped_to_persons_as_in_the_published_code():
    given = golden("modules")
    query, key = given["attn_map.in.q"], given["attn_map.in.k"]
    ours = first_frame_attention(query, key, given["attn_map.in.token_masks"][None])
    close(ours[0], given["attn_map.out"], **PART)


def test_positions_rotate_as_in_the_published_code():
    given = golden("modules")
    close(rotate(given["rope1d.in.x"], given["rope1d.in.pos"]), given["rope1d.out"], **PART)


def test_a_person_without_a_single_token_is_nobodys_owner():
    query = torch.randn(1, 8, 2, 4, generator=torch.Generator().manual_seed(0))
    masks = torch.tensor([[[1.0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]])
    attention = first_frame_attention(query, query, masks)
    assert attention.isfinite().all()
    assert (attention.argmax(1) != 1).all()


def test_every_weight_gets_a_gradient_and_a_small_model_needs_no_clip():
    torch.manual_seed(0)
    model = InfiniteTalkTransformer3DModel(
        num_attention_heads=2, attention_head_dim=12, in_channels=24 + 4 + 24, out_channels=24,
        text_dim=8, text_len=4, freq_dim=16, ffn_dim=32, num_layers=2, image_dim=None,
        audio_blocks=2, audio_channels=4, intermediate_dim=8, audio_output_dim=8, context_tokens=2,
    )  # fmt: skip
    masks = torch.zeros(3, 4, 4)
    masks[0, :, :2] = masks[1, :, 2:] = 1
    given = (torch.randn(2, 52, 2, 4, 4), torch.tensor([900.0, 10.0]), torch.randn(2, 3, 8), None)
    for persons in (1, 2):
        sample = model(*given, torch.randn(2, persons, 5, 5, 2, 4), masks).sample
        assert sample.shape == (2, 24, 2, 4, 4)
        sample.square().mean().backward()
        without = [name for name, p in model.named_parameters() if p.grad is None]
        assert without == []
        model.zero_grad()


def test_checkpointed_gradients_are_the_same():
    given = inputs("p1")
    model = InfiniteTalkTransformer3DModel(**sizes(16)).train()
    found = []
    for use in (model.disable_gradient_checkpointing, model.enable_gradient_checkpointing):
        use()
        model.zero_grad()
        model(**given).sample.square().mean().backward()
        found.append(model.audio_proj.proj1.weight.grad.clone())
    assert torch.equal(*found)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"audio_embeds": torch.zeros(1, 1, 5, 5, 12, 8)}, "audio_embeds"),
        ({"encoder_hidden_states": torch.zeros(1, 513, 32)}, "513 text tokens"),
        ({"ref_target_masks": None}, "2 persons need 3"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        transformer()(**inputs("p2") | change)

"""The published weights load by their own names, all of them and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pipelines.errors import BadInput
from pipelines.infinitetalk.names import AUDIO_NAMES, from_published
from pipelines.infinitetalk.transformer import InfiniteTalkTransformer3DModel
from pipelines.infinitetalk.weights import load_transformer, own_names, skeleton
from tests.fixtures.infinitetalk_golden import cases, golden, sizes, transformer
from tests.fixtures.tiny_infinitetalk import published_config

BASE_CONFIG = {
    "model_type": "i2v", "dim": 5120, "eps": 1e-06, "ffn_dim": 13824, "freq_dim": 256,
    "in_dim": 36, "num_heads": 40, "num_layers": 40, "out_dim": 16, "text_len": 512,
}  # fmt: skip


def full_size_names() -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """The tensors of the real files: the small ones' names, for 40 blocks."""

    def widened(small: dict[str, torch.Tensor]) -> set[str]:
        once = {name for name in small if not name.startswith("blocks.")}
        of_block = {n.removeprefix("blocks.0.") for n in small if n.startswith("blocks.0.")}
        return once | {f"blocks.{i}.{name}" for i in range(40) for name in of_block}

    base, audio = widened(golden("weights_base")), widened(golden("weights_infinitetalk"))
    published = {
        "audio_proj.proj1.weight": [512, 46080], "audio_proj.proj1_vf.weight": [512, 73728],
        "audio_proj.proj2.weight": [512, 512], "audio_proj.proj3.weight": [24576, 512],
        "audio_proj.norm.weight": [768], "audio_cross_attn.q_linear.weight": [5120, 5120],
        "audio_cross_attn.kv_linear.weight": [10240, 768],
        "audio_cross_attn.proj.weight": [5120, 5120], "norm_x.weight": [5120],
    }  # fmt: skip

    def shape(name: str) -> list[int]:
        weight = name.removesuffix("bias") + "weight" if name.endswith("bias") else name
        known = next(shape for end, shape in published.items() if weight.endswith(end))
        return known[:1] if name.endswith("bias") else known

    return {name: [] for name in base}, {name: shape(name) for name in audio}


def test_the_real_files_hold_exactly_the_tensors_of_the_full_size_model():
    base, audio = full_size_names()
    assert len(audio) == 330
    model = skeleton(BASE_CONFIG, audio, audio_blocks=12)
    wanted = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    names = own_names(base, published=True)
    assert {**dict.fromkeys(names.values()), **dict.fromkeys(audio)}.keys() == wanted.keys()
    assert {name: wanted[name] for name in audio} == audio
    assert all(AUDIO_NAMES.fullmatch(name) for name in audio)
    of_voices = sum(p.numel() for n, p in model.named_parameters() if AUDIO_NAMES.fullmatch(n))
    assert round(of_voices / 1e9, 3) == 2.487


def test_the_rest_of_the_full_size_model_is_that_of_diffusers():
    from diffusers import WanTransformer3DModel

    _, audio = full_size_names()
    ours = skeleton(BASE_CONFIG, audio, audio_blocks=12).state_dict()
    with torch.device("meta"):
        theirs = WanTransformer3DModel(
            in_channels=36, image_dim=1280, added_kv_proj_dim=5120
        ).state_dict()
    rest = {n: t.shape for n, t in ours.items() if not AUDIO_NAMES.fullmatch(n)}
    assert rest == {name: tensor.shape for name, tensor in theirs.items()}


def test_audio_attention_keeps_its_name_where_diffusers_converter_would_change_it():
    from diffusers.loaders.single_file_utils import convert_wan_transformer_to_diffusers

    name = "blocks.0.audio_cross_attn.q_linear.weight"
    theirs = convert_wan_transformer_to_diffusers({name: torch.zeros(1), "head.head.bias": 0})
    assert name not in theirs, "the trap is gone: this test can go too"
    assert AUDIO_NAMES.fullmatch(name) and from_published(name) is None
    assert from_published("blocks.0.cross_attn.q.weight") == "blocks.0.attn2.to_q.weight"
    assert from_published("blocks.0.norm3.weight") == "blocks.0.norm2.weight"
    for unknown in ("blocks.0.norm2.weight", "head.modulation.weight", "blocks.x.ffn.0.bias", "a"):
        assert from_published(unknown) is None


@pytest.fixture
def files(tmp_path) -> tuple[list[Path], Path]:
    """The small weights as published: the base in two shards."""
    base, names = golden("weights_base"), sorted(golden("weights_base"))
    shards = [tmp_path / f"diffusion_pytorch_model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for shard, part in zip(shards, (names[::2], names[1::2]), strict=True):
        save_file({name: base[name].clone() for name in part}, shard)
    audio = tmp_path / "infinitetalk.safetensors"
    save_file(golden("weights_infinitetalk"), audio)
    return shards, audio


def load(files, dtype=torch.float32, config=None) -> InfiniteTalkTransformer3DModel:
    shards, audio = files
    blocks = cases()["config"]["audio_blocks"]
    return load_transformer(shards, config or published_config(), audio, blocks, dtype, "cpu")


def test_sharded_weights_of_the_published_layout_make_the_model(files):
    loaded, expected = load(files), transformer()
    assert {n: loaded.config[n] for n in sizes(512)} == sizes(512)
    for name, tensor in expected.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    given = golden("forward")
    sample = loaded(
        torch.cat([given["in.x"], given["in.y"]])[None],
        given["in.timesteps"][:1],
        given["in.context"][None],
        given["in.clip_fea"],
        given["in.audio.p1"][None],
    ).sample[0]
    torch.testing.assert_close(sample, given["out.p1.t0.textlen512"], atol=2e-4, rtol=1e-3)


def test_weights_of_the_diffusers_layout_make_the_same_model(files, tmp_path):
    _, audio = files
    own = {from_published(n): t.clone() for n, t in golden("weights_base").items()}
    # As in some copies on the hub, which diffusers passes over.
    own["blocks.0.attn2.norm_added_q.weight"] = torch.zeros(64)
    one = tmp_path / "diffusion_pytorch_model.safetensors"
    save_file(own, one)
    config = {
        "num_attention_heads": 4, "attention_head_dim": 16, "in_channels": 36, "out_channels": 16,
        "ffn_dim": 128, "num_layers": 3, "text_dim": 32, "image_dim": 40, "added_kv_proj_dim": 64,
        "qk_norm": "rms_norm_across_heads", "cross_attn_norm": True, "rope_max_seq_len": 1024,
    }  # fmt: skip
    loaded = load(([one], audio), config=config)
    for name, tensor in transformer().state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)


def test_in_half_precision_what_wan_keeps_in_full_stays_so(files):
    loaded = load(files, torch.bfloat16)
    dtypes = {name: tensor.dtype for name, tensor in loaded.state_dict().items()}
    assert dtypes["blocks.0.attn1.to_q.weight"] == torch.bfloat16
    assert dtypes["audio_proj.proj1.weight"] == torch.bfloat16
    for kept in ("scale_shift_table", "blocks.1.norm2.weight", "blocks.1.norm_x.weight"):
        assert dtypes[kept] == torch.float32
    assert dtypes["condition_embedder.time_embedder.linear_1.weight"] == torch.float32
    given = golden("forward")
    sample = loaded(
        torch.cat([given["in.x"], given["in.y"]])[None].bfloat16(),
        given["in.timesteps"][:1],
        given["in.context"][None].bfloat16(),
        given["in.clip_fea"].bfloat16(),
        given["in.audio.p2"][None].bfloat16(),
        given["in.ref_target_masks.p2"],
    ).sample
    assert sample.dtype == torch.bfloat16 and sample.isfinite().all()


def resave(path: Path, change) -> None:
    from safetensors.torch import load_file

    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize(
    ("of_audio", "change", "words"),
    [
        (False, lambda t: t.pop("head.modulation"), "lack scale_shift_table"),
        (True, lambda t: t.pop("blocks.1.norm_x.bias"), "lack blocks.1.norm_x.bias"),
        (False, lambda t: t.update(extra=torch.zeros(1)), "not known: extra"),
        (True, lambda t: t.update(extra=torch.zeros(1)), "belong there: extra"),
        (True, lambda t: t.update({"audio_proj.norm.bias": torch.zeros(3)}), r"\[3\] instead"),
    ],
)
def test_a_tensor_that_is_missing_or_left_over_is_named(files, of_audio, change, words):
    shards, audio = files
    holder = next(p for p in shards if "head.modulation" in _names(p)) if not of_audio else audio
    resave(holder, change)
    with pytest.raises(BadInput, match=words):
        load((shards, audio))


def test_a_shard_that_is_missing_or_cut_short_is_named(files):
    shards, audio = files
    with pytest.raises(BadInput, match="lack"):
        load((shards[:1], audio))
    shards[1].write_bytes(shards[1].read_bytes()[:-50])
    with pytest.raises(BadInput, match=r"00002-of-00002.*cut short"):
        load((shards, audio))


def _names(path: Path) -> set[str]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return set(file.keys())


def test_a_model_that_was_saved_is_the_one_that_is_loaded(tmp_path):
    transformer().save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["context_tokens"] == 4
    loaded = InfiniteTalkTransformer3DModel.from_pretrained(tmp_path)
    for name, tensor in transformer().state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)

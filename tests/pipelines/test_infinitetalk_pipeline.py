"""A talking video as a chain of segments, through the classes and files that the real one takes."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import Lora, TalkRecipe, assert_same, chain, encode, seeded
from PIL import Image
from safetensors.torch import save_file

from pipelines.components import settle
from pipelines.errors import BadInput, ModelMissing
from pipelines.infinitetalk import InfiniteTalk
from pipelines.one_piece.holding import offload_groups
from reuse import FileHashes, digest, resolve
from tests.fixtures.tiny_infinitetalk import build, publish
from tests.fixtures.voices import RATE, hum, write_wav

VERY_SMALL = {
    "segments": 4, "frames": 9, "overlap": 5, "width": 48, "height": 32, "fps": 25, "steps": 2,
    "guidance_scale": 5.0, "shift": 7.0, "audio_scale": 4.0, "color_correction": 1.0, "apg": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("checkpoints") / "tiny-infinitetalk")


@pytest.fixture(scope="module")
def talk(folder, one_thread) -> InfiniteTalk:
    return InfiniteTalk.open(folder, device="cpu")


@pytest.fixture(scope="module")
def face(tmp_path_factory) -> Path:
    x, y = np.meshgrid(np.arange(60), np.arange(40))
    pixels = np.stack([x * 4, y * 6, (x + y) * 2], -1).astype(np.uint8)
    path = tmp_path_factory.mktemp("pictures") / "face.png"
    Image.fromarray(pixels).save(path)
    return path


def frames_long(frames: float, path: Path, pitch: float = 180.0) -> Path:
    """A voice of so many frames."""
    return write_wav(path, hum(frames / 25, pitch=pitch))


@pytest.fixture(scope="module")
def voices(tmp_path_factory) -> dict[int, Path]:
    where = tmp_path_factory.mktemp("voices")
    return {n: frames_long(n, where / f"{n}.wav") for n in (4, 9, 10, 15)}


@pytest.fixture(scope="module")
def asked(face, voices) -> TalkRecipe:
    """Three segments, 9 + 4 + 2 frames."""
    return TalkRecipe(image=face, audio=voices[15], **VERY_SMALL)


@pytest.fixture(scope="module")
def given(talk, asked) -> dict[str, torch.Tensor]:
    """The encoder outputs of `asked`."""
    return encode(talk, asked)


@pytest.fixture(scope="module")
def whole(talk, asked, given):
    return chain(talk, asked, inputs=given)


def test_the_video_is_as_long_as_the_voice(talk, asked, voices, whole):
    assert [len(output.frames) for output in whole] == [9, 4, 2]
    assert whole[0].frames.shape == (9, 32, 48, 3) and whole[0].frames.dtype == np.uint8
    assert whole[0].boundary["latents"].shape == (1, 16, 2, 4, 6)
    plans = {n: talk.plan(asked.but(audio=voice)).chain for n, voice in voices.items()}
    assert {n: plan.total for n, plan in plans.items()} == {4: 4, 9: 9, 10: 10, 15: 15}
    assert {n: plan.segments for n, plan in plans.items()} == {4: 1, 9: 1, 10: 2, 15: 3}


def test_a_voice_shorter_than_a_segment_makes_a_short_video(talk, asked, voices):
    short = asked.but(audio=voices[4])
    (only,) = chain(talk, short)
    assert len(only.frames) == 4


@pytest.mark.parametrize("i", [2, 0, 1])
def test_any_segment_made_again_from_its_boundary_is_bit_identical(talk, asked, given, whole, i):
    boundary = whole[i - 1].boundary if i else None
    again = talk.generate(asked, given, i, boundary, seeded(i + 1))
    assert_same(again, whole[i])


def test_another_seed_changes_its_segment_and_leaves_the_one_before(talk, asked, given, whole):
    other = talk.generate(asked, given, 1, whole[0].boundary, seeded(9))
    assert not np.array_equal(other.frames, whole[1].frames)


def test_a_shorter_chain_is_the_beginning_of_the_longer_one(talk, asked, given, whole):
    outputs = chain(talk, asked.but(segments=2), inputs=given)
    assert len(outputs) == 2
    for ours, theirs in zip(outputs, whole, strict=False):
        assert_same(ours, theirs)


def test_each_segment_begins_with_what_the_one_before_ended_with(talk, asked, given, whole):
    """The first latents are the boundary, to the bit: only new frames are shown."""
    from pipelines.infinitetalk import denoise

    seen = {}
    original = denoise.finish

    def finish(codec, latents, *rest):
        seen["latents"] = latents
        return original(codec, latents, *rest)

    denoise.finish = finish
    try:
        talk.generate(asked, given, 1, whole[0].boundary, seeded(2))
    finally:
        denoise.finish = original
    assert torch.equal(seen["latents"][:, :, :2], whole[0].boundary["latents"])


def test_the_global_generators_are_neither_read_nor_moved(talk, asked, given, whole):
    talk.load_denoiser(asked)
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    again = talk.generate(asked, given, 0, None, seeded(1))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert_same(again, whole[0])


@pytest.mark.parametrize(
    ("scales", "forwards"),
    [((5.0, 4.0), 6), ((1.0, 2.0), 4), ((5.0, 1.0), 4), ((1.0, 1.0), 2)],
)
def test_a_step_computes_only_the_forwards_that_count(talk, asked, given, scales, forwards):
    recipe = asked.but(guidance_scale=scales[0], audio_scale=scales[1])
    output = talk.generate(recipe, given, 0, None, seeded(1))
    assert output.forwards == forwards


@pytest.mark.parametrize("change", [{"audio_scale": 2.0}, {"apg": 1.0}, {"color_correction": 0.0}])
def test_every_strength_shows_in_the_video_and_in_the_key(talk, asked, given, whole, change):
    other = talk.generate(asked.but(**change), given, 0, None, seeded(1))
    assert not np.array_equal(other.frames, whole[0].frames)
    assert talk.segment_inputs(asked.but(**change)) != talk.segment_inputs(asked)


def test_strengths_that_are_left_open_are_the_published_ones(talk, asked):
    left_open = asked.but(audio_scale=None, color_correction=None, apg=None)
    assert talk.segment_inputs(left_open) == talk.segment_inputs(asked)


def test_the_number_of_segments_is_in_no_key(talk, asked):
    assert talk.segment_inputs(asked) == talk.segment_inputs(asked.but(segments=1))
    assert talk.encoder_inputs(asked) == talk.encoder_inputs(asked.but(segments=1))


def test_two_voices_move_two_faces(talk, asked, voices, tmp_path):
    second = frames_long(10, tmp_path / "second.wav", pitch=90)
    both = asked.but(audio=voices[10], audio_2=second)
    inputs = encode(talk, both)
    first = chain(talk, both, inputs=inputs)
    assert [len(output.frames) for output in first] == [9, 1]
    assert inputs["faces_masks"].shape == (3, 4, 6)
    assert len(inputs["audio_embeds"]) == len(inputs["audio_2_embeds"]) == 10
    names = {"audio_embeds": "audio_2_embeds", "audio_2_embeds": "audio_embeds"}
    exchanged = {name: inputs[names.get(name, name)] for name in inputs}
    other = talk.generate(both, exchanged, 0, None, seeded(1))
    assert not np.array_equal(first[0].frames, other.frames)
    boxed = both.but(faces="2,2,25,25;35,2,58,25")
    boxes = talk.encode(boxed, ["faces"])["faces"]["masks"]
    assert boxes.shape == (3, 4, 6) and not torch.equal(boxes, inputs["faces_masks"])


def test_the_shorter_of_two_voices_is_silent_at_the_end(talk, asked, voices):
    both = asked.but(audio=voices[4], audio_2=voices[10])
    assert talk.plan(both).chain.total == 10
    voices = talk.encode(both, ["audio", "audio_2"])
    assert [len(voice["embeds"]) for voice in voices.values()] == [10, 10]


def keys(pipeline, recipe) -> dict[str, str]:
    parts = resolve(pipeline.encoder_inputs(recipe), FileHashes())
    return {part: digest("inputs", fields) for part, fields in parts.items()}


def changed(pipeline, recipe, **changes) -> set[str]:
    before, after = keys(pipeline, recipe), keys(pipeline, recipe.but(**changes))
    return {part for part in before if before[part] != after.get(part)}


def test_each_part_is_encoded_anew_only_for_what_it_depends_on(talk, asked, voices, face, tmp_path):
    assert keys(talk, asked).keys() == {"prompt", "negative_prompt", "image", "audio"}
    assert changed(talk, asked, prompt="a dog") == {"prompt"}
    assert changed(talk, asked, audio=voices[10]) == {"audio"}
    assert changed(talk, asked, frames=13) == {"image"}
    assert changed(talk, asked, width=64) == {"image"}
    other = ("steps", 9), ("shift", 3.0), ("guidance_scale", 1.0), ("audio_scale", 1.0)
    assert all(changed(talk, asked, **{name: value}) == set() for name, value in other)
    copy = tmp_path / "same.wav"
    copy.write_bytes(voices[15].read_bytes())
    assert changed(talk, asked, audio=copy) == set()


def test_a_changed_voice_under_the_same_name_is_a_miss(talk, asked, tmp_path):
    path = frames_long(15, tmp_path / "voice.wav")
    recipe = asked.but(audio=path)
    before = keys(talk, recipe)
    stat = path.stat()
    frames_long(15, path, pitch=200)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert {p for p, key in keys(talk, recipe).items() if key != before[p]} == {"audio"}


def test_a_second_voice_changes_the_first_only_if_it_is_longer(talk, asked, voices):
    recipe = asked.but(audio=voices[10])
    assert changed(talk, recipe, audio_2=voices[4]) == set()
    assert changed(talk, recipe, audio_2=voices[15]) == {"audio"}


def test_a_new_ending_keeps_the_segments_that_do_not_hear_it(talk, asked, tmp_path):
    old = hum(40 / 25)
    recipe = asked.but(audio=write_wav(tmp_path / "old.wav", old))

    def kept(voice: np.ndarray, **changes) -> int:
        new = recipe.but(audio=write_wav(tmp_path / "new.wav", voice), **changes)
        return talk.most_kept(recipe, new)

    def other_from(frame: float) -> np.ndarray:
        start = round(frame * RATE / 25)
        return np.concatenate([old[:start], hum(1.0, pitch=90) + 0.1])

    # After n segments there are 4 n + 5 frames, and the last of them hears two more.
    assert [kept(other_from(frame)) for frame in (10.9, 11, 14.9, 15, 19)] == [0, 1, 1, 2, 3]
    assert kept(old[: round(19 * RATE / 25)]) == 3
    assert kept(old * 0.5) == 0
    assert kept(old, audio_2=recipe.audio) == 0


def test_only_the_encoders_that_a_part_needs_are_loaded(folder, asked):
    pipeline = InfiniteTalk.open(folder, device="cpu")
    pipeline.load_encoders(["audio"])
    assert pipeline.loaded == {"audio_encoder"}
    pipeline.load_encoders(["image", "prompt"])
    assert pipeline.loaded == {
        "audio_encoder", "tokenizer", "text_encoder", "image_encoder", "vae",
    }  # fmt: skip
    pipeline.load_denoiser(asked)
    assert pipeline.loaded == {"transformer", "vae"}
    pipeline.load_encoders(["faces"])
    assert pipeline.loaded == {"transformer", "vae"}
    pipeline.load_encoders(["prompt"])
    assert "transformer" not in pipeline.loaded


def test_progress_counts_steps_and_can_end_the_segment(talk, asked, given):
    told = []
    talk.generate(asked, given, 0, None, seeded(1), told.append)
    assert [(step.step, step.steps) for step in told if step.step] == [(1, 2), (2, 2)]
    assert told[-1].preview().shape == (4, 6, 3)

    class Stop(Exception):
        pass

    def stop(step):
        raise Stop

    with pytest.raises(Stop):
        talk.generate(asked, given, 0, None, seeded(1), stop)


def refusal(pipeline, recipe) -> BadInput:
    with pytest.raises(BadInput) as error:
        pipeline.plan(recipe)
    return error.value


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("image", None, "picture"),
        ("audio", None, "voice"),
        ("frames", 10, "9 and 13"),
        ("frames", 1, "nearest: 5"),
        ("overlap", 4, "1 and 5"),
        ("overlap", 9, "nearest is 5"),
        ("overlap", 0, "nearest: 1"),
        ("width", 40, "32 and 48"),
        ("steps", 0, "least is 1"),
        ("color_correction", 2.0, "0 to 1"),
        ("audio_scale", -1.0, "positive"),
        ("faces", "1,1,20,20", "one voice"),
    ],
)
def test_what_cannot_be_run_is_refused_by_field(talk, asked, field, value, words):
    error = refusal(talk, asked.but(**{field: value}))
    assert error.field == field and words in error.fix


def test_files_that_are_no_voice_or_picture_are_refused(talk, asked, tmp_path):
    silent = write_wav(tmp_path / "silent.wav", np.zeros(RATE))
    assert refusal(talk, asked.but(audio_2=silent)).field == "audio_2"
    assert refusal(talk, asked.but(image=silent)).field == "image"


def test_a_size_that_stands_for_a_table_follows_the_picture(talk, asked):
    plan = talk.plan(asked.but(width=640, height=640))
    assert (plan.height, plan.width) == (512, 768)
    assert (talk.plan(asked).height, talk.plan(asked).width) == (32, 48)


def test_a_picture_that_lies_on_its_side_is_turned(talk, asked, face, tmp_path):
    turned = tmp_path / "turned.jpg"
    with Image.open(face) as image:
        exif = image.getexif()
        exif[0x0112] = 6
        image.save(turned, exif=exif)
    plan = talk.plan(asked.but(image=turned, width=640, height=640))
    assert (plan.height, plan.width) == (768, 512)


def test_a_boundary_that_does_not_fit_is_refused(talk, asked, given, whole):
    for boundary in (None, {}, {"latents": torch.zeros(1, 16, 1, 4, 6)}):
        with pytest.raises(BadInput, match="boundary"):
            talk.generate(asked, given, 1, boundary, seeded(1))
    with pytest.raises(BadInput, match="takes 3"):
        talk.generate(asked, given, 3, whole[2].boundary, seeded(1))


def test_speech_of_many_segments_needs_no_more_than_one_of_them(talk, asked, tmp_path):
    """Of a voice of 1500 frames, segment 300 is made by itself, from its boundary and windows."""
    recipe = asked.but(
        audio=frames_long(1500, tmp_path / "long.wav"), segments=1000, guidance_scale=1.0
    )
    plan = talk.plan(recipe)
    assert plan.chain.total == 1500 and plan.chain.segments == 374
    inputs = encode(talk, recipe)
    boundary = {"latents": torch.randn(1, 16, 2, 4, 6, generator=seeded(0))}
    assert len(talk.generate(recipe, inputs, 300, boundary, seeded(1)).frames) == 4
    assert len(talk.generate(recipe, inputs, 373, boundary, seeded(1)).frames) == 3


def test_the_published_weights_make_the_same_video(folder, asked, given, whole, tmp_path):
    published = InfiniteTalk.open(publish(folder, tmp_path / "published"), device="cpu")
    published.checkpoint.check()
    inputs = encode(published, asked)
    for name, tensor in given.items():
        assert torch.equal(inputs[name], tensor)
    ours, expected = published.generate(asked, inputs, 0, None, seeded(1)), whole[0]
    # Where in memory a weight begins differs, and with it how sums are taken.
    assert np.abs(ours.frames.astype(int) - expected.frames).max() <= 1
    torch.testing.assert_close(ours.boundary, expected.boundary, atol=1e-5, rtol=1e-5)
    hashes = resolve(published.segment_inputs(asked), FileHashes())
    assert len(hashes["transformer"]["base"]) == 2


def test_a_published_transformer_goes_when_it_is_freed(folder, asked, tmp_path):
    """Its groups point in circles, and it is loaded first of all."""
    settle.cache_clear()
    published = InfiniteTalk.open(publish(folder, tmp_path / "published"), device="cpu")
    published.load_denoiser(asked)
    transformer = weakref.ref(published.components["transformer"])
    offload_groups(transformer(), "cpu")
    published.free_denoiser()
    assert transformer() is None


def test_published_parts_that_are_not_here_are_named(tmp_path):
    (tmp_path / "model_index.json").write_text(
        '{"_class_name": "InfiniteTalkPipeline", "audio_weights": "a.safetensors", "base": "b"}'
    )
    with pytest.raises(BadInput, match="there is no b"):
        InfiniteTalk.open(tmp_path)
    (tmp_path / "model_index.json").write_text(
        '{"_class_name": "InfiniteTalkPipeline", "audio_weights": "a/b/c.safetensors",'
        ' "base": "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers", "audio_encoder": "a/c"}'
    )
    with pytest.raises(ModelMissing, match=r"hf download Wan-AI/Wan2.1-I2V-14B-480P-Diffusers"):
        InfiniteTalk.open(tmp_path)


def test_settings_to_start_from_fit_the_checkpoint(folder):
    tasks, defaults = InfiniteTalk.describe(folder)
    assert [str(task) for task in tasks] == ["S2V"]
    assert (defaults["frames"], defaults["overlap"], defaults["fps"]) == (81, 9, 25)


def test_a_lora_for_wan_changes_the_video_by_its_strength(talk, asked, given, whole, tmp_path):
    path = tmp_path / "distilled.safetensors"
    generator = seeded(0)
    weights = {}
    for layer in ("self_attn.q", "cross_attn.k", "ffn.0"):
        rows = 128 if layer == "ffn.0" else 64
        name = f"diffusion_model.blocks.0.{layer}"
        weights[f"{name}.lora_A.weight"] = torch.randn(4, 64, generator=generator)
        weights[f"{name}.lora_B.weight"] = torch.randn(rows, 4, generator=generator)
    save_file(weights, path)

    def made(strength: float):
        recipe = asked.but(loras=(Lora(str(path), strength),))
        talk.plan(recipe)
        return talk.generate(recipe, given, 0, None, seeded(1)).frames

    assert not np.array_equal(made(1.0), whole[0].frames)
    assert not np.array_equal(made(1.0), made(0.5))
    assert np.abs(made(0.0).astype(int) - whole[0].frames).max() <= 1
    plain = talk.generate(asked, given, 0, None, seeded(1))
    assert_same(plain, whole[0])
    fields = [talk.segment_inputs(asked.but(loras=(Lora(str(path), s),))) for s in (1.0, 0.5)]
    assert fields[0] != fields[1] != talk.segment_inputs(asked)


def test_a_lora_that_does_not_fit_is_refused_before_anything_is_loaded(talk, asked, tmp_path):
    path = tmp_path / "other.safetensors"
    name = "diffusion_model.blocks.7.self_attn.q"
    save_file(
        {f"{name}.lora_A.weight": torch.ones(4, 64), f"{name}.lora_B.weight": torch.ones(64, 4)},
        path,
    )
    assert refusal(talk, asked.but(loras=(Lora(str(path)),))).field == "loras"
    assert refusal(talk, asked.but(loras=(Lora("nothing"),))).field == "loras"


def test_every_way_of_holding_it_that_is_offered_can_be_chosen(talk, asked, monkeypatch):
    from pipelines import memory

    able = memory.Machine(*[80 * memory.GB] * 4, frozenset(memory.PACKAGES.values()))
    monkeypatch.setattr(memory, "this_machine", lambda device: able)
    offered = talk.offered(asked)
    assert ("fp8", "group") in offered and ("full", "sequential") not in offered
    assert {weights for weights, _ in offered} == {"full", "fp8"}
    for weights, offload in offered:
        choice = talk.holding(asked.but(weights=weights, offload=offload))
        assert (choice.weights, choice.offload) == (weights, offload)


@pytest.mark.parametrize(
    ("field", "value"), [("weights", "nf4"), ("offload", "sequential"), ("offload", "group")]
)
def test_ways_of_holding_it_that_cannot_be_are_refused(talk, asked, field, value):
    """Group offload only because there is no GPU here to keep free."""
    assert refusal(talk, asked.but(**{field: value})).field == field


def test_weights_in_fp8_make_another_video_and_another_key(talk, asked, given, whole):
    recipe = asked.but(weights="fp8")
    assert talk.segment_inputs(recipe) != talk.segment_inputs(asked)
    assert talk.encoder_inputs(recipe) == talk.encoder_inputs(asked)
    frames = talk.generate(recipe, given, 0, None, seeded(1)).frames
    assert not np.array_equal(frames, whole[0].frames)
    stored = talk.components["transformer"].blocks[0].audio_cross_attn.q_linear.weight
    assert stored.dtype == torch.float8_e4m3fn
    assert_same(talk.generate(asked, given, 0, None, seeded(1)), whole[0])


@pytest.mark.parametrize("offload", ["group", "model"])
def test_what_waits_in_main_memory_makes_the_same_video(talk, asked, given, whole, offload):
    """On the CPU as the device that blocks come to: what is tested is that they come and go."""
    talk.free_denoiser()
    talk.load_denoiser(asked)
    if offload == "group":
        offload_groups(talk.components["transformer"], "cpu")
    else:
        talk._held = (talk._held[0], "model", talk._held[2])
    assert_same(talk.generate(asked, given, 0, None, seeded(1)), whole[0])
    talk.free_denoiser()


def test_tiles_are_in_the_key_of_what_is_coded_in_them(talk, asked, whole):
    assert changed(talk, asked, tiling="on") == {"image"}
    assert talk.segment_inputs(asked.but(tiling="on")) != talk.segment_inputs(asked)
    tiled = asked.but(tiling="on")
    outputs = talk.generate(tiled, encode(talk, tiled), 0, None, seeded(1))
    assert talk.components["vae"].use_tiling and outputs.frames.shape == whole[0].frames.shape

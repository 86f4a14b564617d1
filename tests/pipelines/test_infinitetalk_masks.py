"""Masks tell two persons apart as boxes do, in any shape."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TalkRecipe, assert_same, encode, seeded
from PIL import Image

from pipelines.errors import BadInput
from pipelines.infinitetalk import InfiniteTalk
from pipelines.infinitetalk.masks import PAINTED
from reuse import FileHashes, digest, resolve
from tests.fixtures.films import write_film
from tests.fixtures.tiny_infinitetalk import build
from tests.fixtures.voices import hum, write_wav

BOXES = ((3, 2, 26, 31), (20, 5, 57, 38))
"""They overlap, and none begins where a latent does."""
FACES = ";".join(",".join(map(str, box)) for box in BOXES)


@pytest.fixture(scope="module")
def talk(tmp_path_factory, one_thread) -> InfiniteTalk:
    folder = build(tmp_path_factory.mktemp("checkpoints") / "tiny-infinitetalk")
    return InfiniteTalk.open(folder, device="cpu")


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> TalkRecipe:
    """Two persons in a picture of 60 x 40."""
    where = tmp_path_factory.mktemp("files")
    pixels = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)
    Image.fromarray(pixels).save(where / "faces.png")
    voices = [write_wav(where / f"{pitch}.wav", hum(9 / 25, pitch=pitch)) for pitch in (180, 300)]
    return TalkRecipe(
        image=where / "faces.png", audio=voices[0], audio_2=voices[1], segments=1, frames=9,
        overlap=5, width=48, height=32, fps=25, steps=1, guidance_scale=1.0, audio_scale=1.0,
    )  # fmt: skip


@pytest.fixture
def paint(tmp_path):
    """`paint("one.png", box)`: a mask of the size of the picture, white in the box."""

    def painted(name: str, box, size=(60, 40), **how) -> Path:
        x0, y0, x1, y1 = box
        pixels = np.zeros((size[1], size[0]), np.uint8)
        pixels[y0:y1, x0:x1] = 255
        Image.fromarray(pixels).save(tmp_path / name, **how)
        return tmp_path / name

    return painted


@pytest.fixture
def masks(paint) -> tuple[Path, Path]:
    """Of BOXES."""
    return paint("one.png", BOXES[0]), paint("two.png", BOXES[1])


def encoded(talk, recipe) -> torch.Tensor:
    return talk.encode(recipe, ["faces"])["faces"]["masks"]


def key(talk, recipe) -> str:
    return digest("inputs", resolve(talk.encoder_inputs(recipe), FileHashes())["faces"])


def refusal(talk, recipe) -> BadInput:
    with pytest.raises(BadInput) as refused:
        talk.plan(recipe)
        talk.encode(recipe, ["faces"])
    return refused.value


def test_the_mask_of_a_box_is_the_box_to_the_bit(talk, asked, masks):
    boxed, painted = asked.but(faces=FACES), asked.but(masks=masks)
    assert talk.plan(painted) == talk.plan(boxed)
    assert torch.equal(encoded(talk, painted), encoded(talk, boxed))
    assert not torch.equal(encoded(talk, painted), encoded(talk, asked))
    assert key(talk, painted) != key(talk, boxed)
    made = [
        talk.generate(recipe, encode(talk, recipe), 0, None, seeded(1))
        for recipe in (boxed, painted, asked)
    ]
    assert_same(made[0], made[1])
    assert not np.array_equal(made[0].frames, made[2].frames)


def test_where_persons_overlap_both_are_and_the_rest_is_background(talk, asked, masks):
    one, two, rest = encoded(talk, asked.but(masks=masks)).bool()
    assert (one & two).any() and rest.any()
    assert torch.equal(rest, ~(one | two))


def test_the_order_of_masks_is_that_of_the_voices(talk, asked, masks):
    ours = encoded(talk, asked.but(masks=masks))
    other = encoded(talk, asked.but(masks=masks[::-1]))
    assert torch.equal(ours[[1, 0, 2]], other) and not torch.equal(ours, other)
    assert key(talk, asked.but(masks=masks)) != key(talk, asked.but(masks=masks[::-1]))


def test_masks_of_another_size_are_scaled_to_the_picture(talk, asked, paint, masks):
    twice = [[2 * side for side in box] for box in BOXES]
    larger = tuple(paint(f"large{n}.png", box, (120, 80)) for n, box in enumerate(twice))
    ours = encoded(talk, asked.but(masks=larger))
    assert torch.equal(ours, encoded(talk, asked.but(masks=masks)))


@pytest.mark.parametrize("size", [(40, 60), (60, 42), (62, 40), (120, 83)])
def test_masks_of_other_proportions_are_refused(talk, asked, paint, masks, size):
    error = refusal(talk, asked.but(masks=(masks[0], paint("other.png", (0, 0, 9, 9), size))))
    assert (error.field, Path(error.value).name) == ("masks", "other.png")
    assert f"{size[0]} x {size[1]} pixels and the picture 60 x 40" in error.fix


def test_half_white_is_white_and_less_is_black(talk, asked, masks, tmp_path):
    grey = tmp_path / "grey.png"
    with Image.open(masks[0]) as image:
        image.point(lambda value: 128 if value else 127).save(grey)
    ours = encoded(talk, asked.but(masks=(grey, masks[1])))
    assert torch.equal(ours, encoded(talk, asked.but(masks=masks)))


@pytest.mark.parametrize(("value", "colour"), [(0, "black"), (127, "black"), (255, "white")])
def test_a_mask_of_one_colour_is_refused(talk, asked, masks, tmp_path, value, colour):
    plain = tmp_path / "plain.png"
    Image.new("L", (60, 40), value).save(plain)
    error = refusal(talk, asked.but(masks=(masks[0], plain)))
    assert (error.field, Path(error.value).name) == ("masks", "plain.png")
    assert f"{colour} all over" in error.fix


@pytest.mark.parametrize("how", ["1", "P", "LA", "RGBA", "I;16", "turned", "jpeg"])
def test_a_mask_may_be_kept_in_any_way(talk, asked, masks, tmp_path, how):
    """One bit, a palette, opaque, cut out, 16 bits, on its side, a little blurred."""
    path = tmp_path / f"kept.{'jpg' if how in ('turned', 'jpeg') else 'png'}"
    with Image.open(masks[0]) as image:
        if how == "I;16":
            Image.fromarray(np.asarray(image).astype(np.uint16) * 257).save(path)
        elif how == "turned":
            exif = image.getexif()
            exif[0x0112] = 6
            image.transpose(Image.Transpose.ROTATE_90).save(path, exif=exif, quality=100)
        elif how == "RGBA":
            cut_out = Image.new("RGBA", image.size, "white")
            cut_out.putalpha(image)
            cut_out.save(path)
        else:
            image.convert("L" if how == "jpeg" else how).save(path, quality=100)
    ours = encoded(talk, asked.but(masks=(path, masks[1])))
    assert torch.equal(ours, encoded(talk, asked.but(masks=masks)))


def test_masks_are_in_the_key_by_their_content(talk, asked, paint, masks, tmp_path):
    before = key(talk, asked.but(masks=masks))
    copy = tmp_path / "copy.png"
    copy.write_bytes(masks[0].read_bytes())
    assert key(talk, asked.but(masks=(copy, masks[1]))) == before
    paint("two.png", (30, 5, 57, 38))
    assert key(talk, asked.but(masks=masks)) != before
    assert "masks" not in talk.encoder_inputs(asked)["faces"]
    assert talk.encoder_inputs(asked.but(masks=masks))["faces"]["masks_painted"] == PAINTED


def test_a_mask_that_was_cut_short_is_refused(talk, asked, masks):
    cut = masks[0].with_name("cut.png")
    cut.write_bytes(masks[0].read_bytes()[:-40])
    with pytest.raises(BadInput, match="cannot be read") as refused:
        talk.plan(asked.but(masks=(cut, masks[1])))
    assert refused.value.field == "masks"


def test_masks_fit_the_frames_of_a_video(talk, asked, masks, tmp_path):
    with Image.open(asked.image) as image:
        film = write_film(tmp_path / "film.mkv", [np.asarray(image)] * 3)
    ours = encoded(talk, asked.but(masks=masks, image=film))
    assert torch.equal(ours, encoded(talk, asked.but(masks=masks)))


def test_masks_that_do_not_go_with_the_rest_are_refused(talk, asked, masks, tmp_path):
    for changes, field, words in (
        ({"faces": FACES}, "faces", "one or the other"),
        ({"audio_2": None}, "masks", "one voice leave them out"),
        ({"masks": masks[:1]}, "masks", "2 voices: give 2 masks"),
        ({"masks": (*masks, masks[0])}, "masks", "2 voices: give 2 masks"),
        ({"masks": (masks[0], asked.audio)}, "masks", "not a picture"),
        ({"masks": (tmp_path / "gone.png", masks[0])}, "masks", "no such file"),
    ):
        error = refusal(talk, asked.but(**{"masks": masks, **changes}))
        assert error.field == field and words in error.fix, changes


def test_a_person_without_a_place_in_the_video_is_refused(talk, asked, paint, masks):
    error = refusal(talk, asked.but(masks=(masks[0], paint("small.png", (9, 9, 10, 10)))))
    assert error.field == "masks" and "The white of mask 2 is too small" in error.fix
    cut_off = asked.but(masks=(masks[1], paint("edge.png", (0, 0, 5, 40))), width=32)
    assert "outside of what is cut out" in refusal(talk, cut_off).fix

"""What encoding depends on, and what pictures become."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Recipe
from PIL import Image

from pipelines.base import OF_SOME_MODELS
from pipelines.errors import BadInput
from pipelines.images import read_image


@pytest.mark.parametrize(
    "changes",
    [
        {"segments": 5},
        {"steps": 9},
        {"guidance_scale": 1.0},
        {"shift": 2.0},
        {"fps": 16},
        {"frames": 21},
        {"overlap": 9},
        {"width": 64},
        {"height": 64},
        {"condition_noise": 20},
    ],
    ids=str,
)
def test_encoding_a_prompt_does_not_depend_on(pipeline, recipe, changes):
    assert pipeline.encoder_inputs(recipe) == pipeline.encoder_inputs(recipe.but(**changes))


@pytest.mark.parametrize("changes", [{"prompt": "a dog"}, {"negative_prompt": ""}], ids=str)
def test_encoding_depends_on(pipeline, recipe, changes):
    assert pipeline.encoder_inputs(recipe) != pipeline.encoder_inputs(recipe.but(**changes))


def test_encoding_a_picture_depends_on_its_file_and_on_the_size_of_the_video(
    pipeline, recipe, picture
):
    parts = pipeline.encoder_inputs(recipe.but(image=picture))
    assert parts["image"]["image"] == picture
    assert parts["image"]["vae"] == pipeline.checkpoint.folder / "vae"
    assert "image" not in pipeline.encoder_inputs(recipe)
    wider = pipeline.encoder_inputs(recipe.but(image=picture, width=64))
    assert parts["image"] != wider["image"] and parts["prompt"] == wider["prompt"]


def test_each_prompt_is_a_part_of_its_own_and_equal_words_are_one(pipeline, recipe):
    parts = pipeline.encoder_inputs(recipe)
    changed = pipeline.encoder_inputs(recipe.but(prompt="a dog"))
    assert parts["negative_prompt"] == changed["negative_prompt"]
    assert parts["prompt"] != changed["prompt"]
    same = pipeline.encoder_inputs(recipe.but(negative_prompt=recipe.prompt))
    assert same["prompt"] == same["negative_prompt"]


def test_every_field_that_a_segment_reads_is_among_its_inputs(pipeline, recipe):
    fields = pipeline.segment_inputs(recipe)
    outside = {"prompt", "negative_prompt", "image", "segments"}
    for name in set(Recipe.__dataclass_fields__) - outside - OF_SOME_MODELS:
        assert fields[name] == getattr(recipe, name)


def test_inputs_are_json_but_for_paths_that_exist(pipeline, recipe, picture):
    recipe = recipe.but(image=picture)
    for fields in (*pipeline.encoder_inputs(recipe).values(), pipeline.segment_inputs(recipe)):
        paths = {name: value for name, value in fields.items() if isinstance(value, Path)}
        assert all(path.exists() for path in paths.values())
        json.dumps({name: value for name, value in fields.items() if name not in paths})


def test_white_space_and_entities_do_not_make_another_prompt(pipeline, recipe):
    plain = pipeline.encoder_inputs(recipe.but(prompt="cats & dogs"))
    assert plain == pipeline.encoder_inputs(recipe.but(prompt=" cats  &amp;\n dogs "))


def save(image: Image.Image, path: Path, **options) -> Path:
    image.save(path, **options)
    return path


def test_a_picture_covers_the_video_and_is_cropped_in_the_middle(tmp_path):
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, 20:40] = (255, 0, 0)
    path = save(Image.fromarray(wide), tmp_path / "wide.bmp")
    picture = np.asarray(read_image(path, 20, 20))
    assert picture.shape == (20, 20, 3)
    assert (picture == (255, 0, 0)).all()


def test_a_photo_is_turned_upright(tmp_path):
    pixels = np.zeros((40, 20, 3), np.uint8)
    pixels[:20] = 255  # the top half, once it is turned by a quarter: the right half
    exif = Image.Exif()
    exif[0x0112] = 6
    path = save(Image.fromarray(pixels), tmp_path / "photo.jpg", exif=exif, quality=100)
    picture = np.asarray(read_image(path, 40, 20))
    assert picture[:, 25:].mean() > 240 and picture[:, :15].mean() < 15


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_becomes_white(tmp_path, mode):
    image = Image.new("RGBA", (32, 32), (0, 0, 0, 0)).convert(mode)
    options = {"transparency": 0} if mode == "P" else {}
    picture = read_image(save(image, tmp_path / "clear.png", **options), 32, 32)
    assert np.asarray(picture).min() == 255


@pytest.mark.parametrize(("mode", "grey"), [("L", 128), ("1", 255), ("CMYK", 128)])
def test_other_colour_modes_are_read(tmp_path, mode, grey):
    image = Image.new("RGB", (32, 32), (grey,) * 3).convert(mode)
    picture = np.asarray(read_image(save(image, tmp_path / "x.tiff"), 32, 32))
    assert abs(picture.astype(int) - grey).max() <= 1


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path):
    image = Image.fromarray(np.full((32, 32), 32768, np.uint16))
    picture = np.asarray(read_image(save(image, tmp_path / "deep.png"), 32, 32))
    assert (picture == 128).all()


def broken(kind: str) -> bytes:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(buffer, "PNG")
    return {
        "empty": b"",
        "text": b"not a picture",
        "cut": buffer.getvalue()[:5000],
        "head": buffer.getvalue()[:20],
    }[kind]


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "head"])
def test_a_file_that_is_no_picture_is_refused(tmp_path, kind):
    path = tmp_path / "x.png"
    path.write_bytes(broken(kind))
    with pytest.raises(BadInput) as refusal:
        read_image(path, 32, 32)
    assert refusal.value.field == "image"


def test_a_missing_a_tiny_and_a_huge_picture_are_refused_in_the_plan(pipeline, recipe, tmp_path):
    tiny = save(Image.new("L", (4, 400)), tmp_path / "tiny.png")
    huge = save(Image.new("1", (20_000, 10_000)), tmp_path / "huge.png")
    for path, words in (
        (tmp_path / "nowhere.png", "no such file"),
        (tmp_path, "no such file"),
        (tiny, "too small"),
        (huge, "too large"),
    ):
        with pytest.raises(BadInput, match=words) as refusal:
            pipeline.plan(recipe.but(image=path))
        assert refusal.value.field == "image"

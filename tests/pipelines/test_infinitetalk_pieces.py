"""Masks, sizes, colours, guidance and timesteps are those of the published code."""

from __future__ import annotations

import pytest
import torch
from conftest import TalkRecipe
from PIL import Image

from pipelines.errors import BadInput
from pipelines.infinitetalk.colours import match_colours
from pipelines.infinitetalk.denoise import timesteps_of
from pipelines.infinitetalk.guidance import Guidance, branches, projected
from pipelines.infinitetalk.persons import boxed, check_tokens, halves, parse_faces, person_masks
from pipelines.infinitetalk.sizes import bucket, fit_picture
from tests.fixtures.infinitetalk_golden import cases, close, golden

PICTURE, TARGET = (100, 180), (64, 96)
BOXES = {
    "halves": halves(PICTURE),
    "bbox_xy": ((18, 15, 75, 80), (90, 30, 167, 97)),
    "bbox_xy_overlap": ((18, 15, 75, 80), (54, 10, 144, 70)),
}


@pytest.mark.parametrize("name", BOXES)
def test_masks_of_persons_equal_the_published_ones(name):
    masks = person_masks(boxed(BOXES[name], PICTURE), TARGET, 8)
    assert torch.equal(masks, golden("masks")[f"{name}.latent"])
    tokens = torch.nn.functional.interpolate(masks[None].float(), size=(4, 6), mode="nearest")
    assert torch.equal(tokens[0].to(torch.uint8), golden("masks")[f"{name}.token"])


def test_boxes_are_x_then_y_as_a_person_would_say_them():
    assert parse_faces("18,15,75,80; 90, 30,167.0,97", PICTURE, 2) == BOXES["bbox_xy"]
    assert parse_faces("  ", PICTURE, 2) == ()
    masks = person_masks(boxed(BOXES["bbox_xy"], PICTURE), TARGET, 8)
    published_rows_first = golden("masks")["bbox_official_literal.latent"]
    assert not torch.equal(masks, published_rows_first)


@pytest.mark.parametrize(
    ("faces", "persons", "words"),
    [
        ("1,2,3", 2, "x0,y0,x1,y1"),
        ("1,2,3,4;a,b,c,d", 2, "semicolon"),
        ("1,2,3,inf;1,2,3,4", 2, "semicolon"),
        ("10,10,20,20", 2, "2 boxes"),
        ("10,10,20,20;30,30,200,40", 2, "180 x 100"),
        ("20,10,10,20;30,30,40,40", 2, "no box"),
        ("10,10,20,20", 1, "one voice"),
    ],
)
def test_boxes_that_are_none_are_refused_in_words(faces, persons, words):
    with pytest.raises(BadInput, match=words) as error:
        parse_faces(faces, PICTURE, persons)
    assert error.value.field == "faces"


def test_a_box_that_is_cropped_away_is_refused():
    recipe = TalkRecipe(faces="0,0,4,100;90,30,167,97")
    boxes = parse_faces(recipe.faces, PICTURE, 2)
    with pytest.raises(BadInput, match="Box 1"):
        check_tokens(person_masks(boxed(boxes, PICTURE), TARGET, 8), recipe)
    check_tokens(person_masks(boxed(BOXES["bbox_xy"], PICTURE), TARGET, 8), recipe)


@pytest.mark.parametrize("table", ["ASPECT_RATIO_627", "ASPECT_RATIO_960"])
def test_a_picture_gets_the_size_of_the_nearest_proportions(table):
    asked = {"ASPECT_RATIO_627": (640, 640), "ASPECT_RATIO_960": (960, 960)}[table]
    for picture, expected in cases()["buckets"][table].items():
        height, width = map(int, picture.split("x"))
        assert bucket(asked, (height, width)) == tuple(expected)
    assert bucket((448, 896), (1000, 100)) == (448, 896)


def test_a_picture_is_scaled_and_cropped_as_published():
    given = golden("masks")
    picture = Image.fromarray(given["resize.src_u8"].numpy())
    ours = fit_picture(picture, TARGET).permute(2, 0, 1)
    assert torch.equal(ours, given["resize.out_u8"])


@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_colours_are_matched_as_published(strength):
    given = golden("pieces")
    ours = match_colours(given["color.in.video"], given["color.in.reference"], strength)
    close(ours, given[f"color.out.strength{strength}"], atol=2e-4)


def test_no_colour_matching_leaves_every_bit():
    video = golden("pieces")["color.in.video"]
    assert match_colours(video, golden("pieces")["color.in.reference"], 0.0) is video


def test_a_flat_frame_takes_the_mean_colour_of_the_reference():
    gray = torch.zeros(1, 3, 1, 8, 12)
    matched = match_colours(gray, golden("pieces")["color.in.reference"], 1.0)
    assert matched.std(dim=(3, 4)).max() < 1e-6


@pytest.mark.parametrize("shift", [5, 7, 11])
@pytest.mark.parametrize("steps", [4, 8, 40])
def test_timesteps_equal_the_published_ones(steps, shift):
    close(
        timesteps_of(steps, float(shift)),
        golden("pieces")[f"timesteps.steps{steps}.shift{shift}"],
        atol=1e-3,
        rtol=1e-6,
    )


@pytest.mark.parametrize("limit", [0, 3, 55])
def test_projected_guidance_equals_the_published_one(limit):
    given = golden("pieces")
    total = torch.zeros(())
    for i in range(3):
        total = given[f"apg.in.diff{i}"] - 0.75 * total
        ours = projected(total, given[f"apg.in.cond{i}"], limit)
        close(ours, given[f"apg.out.thr{limit}.{i}"], atol=1e-5, rtol=1e-5)


def test_projected_guidance_keeps_its_sums_per_difference():
    given = golden("pieces")
    guidance = Guidance(text_scale=1.0, audio_scale=2.0, apg_limit=3.0)
    for i in range(3):
        cond = given[f"apg.in.cond{i}"]
        ours = guidance.combined({"cond": cond, "drop_audio": cond - given[f"apg.in.diff{i}"]})
        close(ours - cond, given[f"apg.out.thr3.{i}"], atol=1e-5, rtol=1e-5)


def test_a_step_takes_the_forwards_that_its_scales_need():
    assert branches(5.0, 4.0) == ("cond", "drop_text", "uncond")
    assert branches(1.0, 2.0) == ("cond", "drop_audio")
    assert branches(5.0, 1.0) == ("cond", "drop_text")
    assert branches(1.0, 1.0) == ("cond",)


@pytest.mark.parametrize("scales", [(5.0, 4.0), (5.0, 1.0), (1.0, 2.0), (1.0, 1.0)])
def test_guidance_is_the_published_formula(scales):
    text, audio = scales
    generator = torch.Generator().manual_seed(0)
    c, t, a, u = (torch.randn(1, 2, 3, generator=generator) for _ in range(4))
    expected = a + audio * (c - a) if text == 1 else u + text * (c - t) + audio * (t - u)
    given = {"cond": c, "drop_text": t, "drop_audio": a, "uncond": u}
    ours = Guidance(text, audio).combined({name: given[name] for name in branches(text, audio)})
    close(ours, expected, atol=1e-5)

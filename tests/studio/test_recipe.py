"""A recipe is complete, frozen, and says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from studio.actions import session_name
from studio.errors import BadInput
from studio.recipe import MAX_PROMPT, MAX_SEED, Recipe
from studio.seeds import generator, spread


def test_what_is_left_out_comes_from_the_model():
    recipe = Recipe.make("starter", prompt="a boat")
    assert (recipe.width, recipe.height, recipe.frames, recipe.overlap) == (96, 64, 33, 9)
    assert Recipe.make("starter", prompt="a boat", steps=None).steps == recipe.steps


def test_a_recipe_cannot_be_changed_in_place_and_refuses_unknown_fields():
    recipe = Recipe.make("starter", prompt="a boat")
    with pytest.raises(ValidationError):
        recipe.steps = 3
    with pytest.raises(BadInput, match=r"stepz.*fields are"):
        Recipe.make("starter", prompt="a boat", stepz=3)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prompt", "   "),
        ("prompt", "x" * (MAX_PROMPT + 1)),
        ("segments", 0),
        ("segments", 1.5),
        ("steps", 10**9),
        ("guidance_scale", float("nan")),
        ("guidance_scale", float("inf")),
        ("shift", 0),
        ("width", "wide"),
    ],
)
def test_a_bad_value_is_named_with_its_field(field, value):
    with pytest.raises(BadInput) as refusal:
        Recipe.make("starter", **{"prompt": "a boat", field: value})
    assert refusal.value.field == field
    assert len(str(refusal.value)) < 600


def test_seeds_spread_over_segments():
    assert spread([7], 3) == [7, 7, 7]
    assert spread([7, 8], 2) == [7, 8]
    assert len(set(spread(None, 4))) == 1
    for bad in ([1, 2], [-1], [MAX_SEED + 1]):
        with pytest.raises(BadInput, match="seed"):
            spread(bad, 3)


def test_noise_depends_on_seed_and_index_alone():
    import torch

    def draw(seed, index):
        return torch.randn(4, generator=generator(seed, index))

    torch.manual_seed(0)
    first = draw(1, 2)
    torch.manual_seed(99)
    assert torch.equal(first, draw(1, 2))
    assert not torch.equal(first, draw(1, 3)) and not torch.equal(first, draw(2, 2))
    assert generator(MAX_SEED, 999).initial_seed() >= 0


def test_a_session_is_named_after_the_prompt_unless_it_has_a_name():
    assert session_name(None, "A red Boat, drifting left over the SEA!") == (
        "a-red-boat-drifting-left-over"
    )
    assert session_name(None, "🪁") == "untitled"
    assert session_name("  My   sea ", "x") == "My sea"
    with pytest.raises(BadInput, match="session"):
        session_name("x" * 81, "x")


def test_a_file_is_taken_away_by_none_and_another_field_is_left_as_it_was(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    recipe = Recipe.make("starter", prompt="a boat", image=tmp_path / "a.png", steps=3)
    assert recipe.changed({"image": None, "steps": None}) == recipe.model_copy(
        update={"image": None}
    )
    assert recipe.changed({"steps": 4}).image == recipe.image


def test_files_of_every_kind_are_found_and_replaced(tmp_path):
    names = ("a.png", "b.png", "c.png", "style.safetensors")
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    first, last, other, lora = (tmp_path / name for name in names)
    on_hub = {"file": "someone/styles/ink.safetensors", "strength": 0.5}
    recipe = Recipe.make(
        "starter",
        prompt="a boat",
        image=first,
        last_image=last,
        references=[other, first],
        masks=[last, other],
        loras=[{"file": str(lora)}, on_hub],
    )
    assert recipe.files() == [
        ("image", first), ("last_image", last), ("references", other), ("references", first),
        ("masks", last), ("masks", other), ("loras", lora),
    ]  # fmt: skip
    moved = recipe.with_files(lambda name, path: None if path == first else path.with_name(name))
    assert (moved.image, moved.references) == (None, (tmp_path / "references",))
    assert [lora.file for lora in moved.loras] == [str(tmp_path / "loras"), on_hub["file"]]
    with pytest.raises(BadInput, match=r"references.*no such file"):
        Recipe.make("starter", prompt="a boat", references=[tmp_path / "gone.png"])
    without = recipe.changed({"references": None, "masks": None, "loras": None})
    assert without.files() == recipe.files()[:2]


def test_recipes_of_earlier_versions_mean_what_they_meant():
    old = {
        "model": "starter", "prompt": "a boat", "segments": 1, "width": 96, "height": 64, "fps": 12,
        "frames": 33, "overlap": 9, "steps": 4, "guidance_scale": 3.0, "shift": 3.0,
    }  # fmt: skip
    recipe = Recipe.model_validate(old)
    assert recipe == Recipe.make(**{**old, "causal_block": 1})


def test_masks_on_the_command_line_are_given_one_by_one():
    from studio.cli.parser import build

    words = ["generate", "--prompt", "x", "--mask", "left.png", "--mask", "right.png"]
    assert build().parse_args(words).masks == [Path("left.png"), Path("right.png")]


def test_a_lora_on_the_command_line_has_its_strength_and_part_behind_it():
    from studio.cli.parser import build

    words = ["a.safetensors", "b:c.safetensors:0.5", "d.safetensors:high", "e.safetensors:-1:low"]
    options = build().parse_args(
        ["generate", "--prompt", "x", *(word for lora in words for word in ("--lora", lora))]
    )
    assert options.loras == [
        {"file": "a.safetensors"},
        {"file": "b:c.safetensors", "strength": 0.5},
        {"file": "d.safetensors", "part": "high"},
        {"file": "e.safetensors", "strength": -1.0, "part": "low"},
    ]
    told = Recipe.make("starter", prompt="x", loras=[{"file": "a/b/c.safetensors"}])
    assert told.model_dump()["loras"] == ({"file": "a/b/c.safetensors", "strength": 1.0},)

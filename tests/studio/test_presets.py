"""Presets are recipe fields under a name, and hold nothing that a recipe could not."""

from __future__ import annotations

import pytest

from studio.errors import BadInput
from studio.presets import MOST


def test_a_preset_is_saved_replaced_and_deleted(library):
    presets = library.presets
    assert presets.all() == []
    presets.save("Sunset ☀ <b>", {"prompt": "${x} 船", "steps": 20, "guidance_scale": 3.5})
    presets.save("another", {"model": "starter", "width": 256, "prompt": "", "image": None})
    told = [(preset.name, preset.recipe) for preset in presets.all()]
    assert told == [
        ("another", {"model": "starter", "width": 256}),
        ("Sunset ☀ <b>", {"prompt": "${x} 船", "steps": 20, "guidance_scale": 3.5}),
    ]
    presets.save(" another ", {"steps": 4})
    assert presets.all()[0].recipe == {"steps": 4}
    presets.delete("another")
    assert [preset.name for preset in presets.all()] == ["Sunset ☀ <b>"]
    with pytest.raises(BadInput, match="no such preset"):
        presets.delete("another")


@pytest.mark.parametrize("name", ["", "   ", "x" * 61, "line\nbreak\0", "\ud83c", "\u202eodd"])
def test_a_name_is_short_and_printable(library, name):
    with pytest.raises(BadInput, match="name"):
        library.presets.save(name, {"steps": 4})
    assert library.presets.all() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("steps", 0),
        ("steps", "many"),
        ("width", 10**9),
        ("guidance_scale", float("nan")),
        ("prompt", "x" * 20_001),
        ("prompt", "\ud83c"),
        ("nothing", 1),
        ("session", "sea"),
        ("image", "/etc/passwd"),
        ("audio", "inputs/../../voice.wav"),
        ("image", "relative.png"),
    ],
)
def test_only_fields_of_a_recipe_with_values_that_it_takes(library, field, value):
    with pytest.raises(BadInput) as refused:
        library.presets.save("odd", {"steps": 4, field: value})
    assert refused.value.field == field
    assert library.presets.all() == []


def test_a_picture_is_one_of_the_library_and_moves_with_it(library, tmp_path):
    folder = library.folder / "inputs" / "key"
    folder.mkdir(parents=True)
    (folder / "image.png").write_bytes(b"picture")
    library.presets.save("with a picture", {"image": str(folder / "image.png")})
    assert library.presets.all()[0].recipe == {"image": str(folder / "image.png")}
    stored = library.database.rows("SELECT recipe FROM presets")[0][0]
    assert str(tmp_path) not in stored
    with pytest.raises(BadInput, match="image"):
        library.presets.save("outside", {"image": f"{folder}/../../history.sqlite"})


def test_there_is_room_for_two_hundred(library):
    for number in range(MOST):
        library.presets.save(f"preset {number}", {"steps": 4})
    with pytest.raises(BadInput, match="delete one"):
        library.presets.save("one more", {"steps": 4})
    library.presets.save("preset 7", {"steps": 5})
    library.presets.delete("preset 8")
    library.presets.save("one more", {"steps": 4})
    assert len(library.presets.all()) == MOST

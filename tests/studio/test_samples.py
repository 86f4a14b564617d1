"""What a model comes with to be tried at once."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from pipelines import catalogue
from pipelines.errors import BadInput
from studio.library import Library
from studio.samples import samples_of, take_sample

TALKING = Path("assets/talking").resolve()


@pytest.fixture
def library(tmp_path) -> Library:
    return Library(tmp_path / "library")


@pytest.fixture
def folder_with(tmp_path):
    """A model whose folder lists the given samples."""

    def make(samples) -> catalogue.Model:
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(TALKING / "face.png", folder / "face.png")
        (tmp_path / "secret.png").write_bytes(b"not for everybody")
        (folder / "samples.json").write_text(json.dumps(samples))
        return dataclasses.replace(catalogue.find("talking"), source=folder)

    return make


def test_each_sample_of_the_models_that_ship_can_be_taken(library):
    for id in ("starter", "talking"):
        model = catalogue.find(id)
        known = samples_of(model)
        assert known
        for number, sample in enumerate(known):
            told = take_sample(library, model, number)
            assert told["recipe"]["prompt"] == sample.written["prompt"]
            assert set(told["recipe"]) == {*sample.written, *sample.files}
            for field, name in sample.files.items():
                path = Path(told["recipe"][field])
                assert path.read_bytes() == (TALKING / name).read_bytes()
                assert told["files"][str(path)] == name


@pytest.mark.parametrize("number", [-1, 2])
def test_a_sample_that_is_not_there_is_refused(library, number):
    with pytest.raises(BadInput, match="2 samples"):
        take_sample(library, catalogue.find("talking"), number)


@pytest.mark.parametrize(
    "listed",
    [
        {"label": "x"},
        "a prompt",
        [7],
        [{"label": "", "prompt": ""}],
        [{"label": "x", "prompt": 7}],
        [{"label": "x", "image": "../secret.png"}],
        [{"label": "x", "image": "/etc/hostname"}],
        [{"label": "x", "image": "gone.png"}],
        [{"label": "x", "loras": "face.png"}],
    ],
)
def test_what_is_no_sample_is_left_out(folder_with, listed):
    assert samples_of(folder_with(listed)) == []


def test_a_model_that_is_not_here_has_none():
    assert samples_of(catalogue.find("qwen-image")) == []


def test_a_file_that_is_no_picture_is_refused_by_field(library, folder_with):
    model = folder_with([{"label": "x", "image": "samples.json"}])
    with pytest.raises(BadInput) as refused:
        take_sample(library, model, 0)
    assert refused.value.field == "image"

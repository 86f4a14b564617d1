"""The catalogue: names, folders and hub ids become models, without network and without torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import catalogue
from pipelines.base import OF_SOME_MODELS
from pipelines.errors import BadInput, ModelMissing

ROOT = Path(catalogue.__file__).parent.parent
HUB_ID = "Skywork/SkyReels-V2-DF-1.3B-540P-Diffusers"


@pytest.fixture
def hub(tiny, tmp_path, monkeypatch):
    """Puts a snapshot of the tiny checkpoint into an otherwise empty hub cache."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))

    def add(repo_id: str) -> Path:
        repository = tmp_path / f"models--{repo_id.replace('/', '--')}"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text("abc123")
        return shutil.copytree(tiny, repository / "snapshots" / "abc123")

    return add


def test_importing_it_brings_nothing_heavy():
    script = """
import sys
import pipelines.catalogue
pipelines.catalogue.models()[0].capabilities
print(sorted({"torch", "diffusers", "transformers", "numpy", "huggingface_hub"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_every_entry_says_what_it_is():
    ids = [model.id for model in catalogue.models()]
    assert ids[0] == "starter" and len(set(ids)) == len(ids)
    for model in catalogue.models():
        assert model.licence and model.licence_url.startswith("https://")
        assert set(model.defaults) >= {
            "width", "height", "fps", "frames", "overlap", "segments", "steps", "guidance_scale",
        }  # fmt: skip
        assert not set(model.capabilities.extras) - OF_SOME_MODELS
        assert catalogue.find(model.id) is model


def test_a_folder_is_a_model_with_settings_from_its_configs(tiny, recipe):
    model = catalogue.find(str(tiny))
    assert model.family == "skyreels_v2" and model.present()
    assert model.defaults["width"] == model.defaults["height"] == 512  # 32 positions of 16 pixels
    assert model.defaults["shift"] == 8.0
    pipeline = catalogue.open_pipeline(model, device="cpu")
    plan = pipeline.plan(recipe.but(**model.defaults))
    assert plan.chain.total == model.defaults["frames"] == 97
    assert pipeline.loaded == frozenset()


def test_a_folder_trained_in_blocks_gets_defaults_that_fill_them(tiny, recipe, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "blocks für später")
    config = folder / "transformer" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_frame_per_block": 3}))
    model = catalogue.find(str(folder))
    assert model.capabilities.tasks == ("T2V",)
    assert catalogue.open_pipeline(model, device="cpu").capabilities.tasks == ("T2V",)
    assert (model.defaults["causal_block"], model.defaults["frames"]) == (3, 93)
    assert model.defaults["overlap"] == 9
    catalogue.open_pipeline(model, device="cpu").plan(recipe.but(**model.defaults))


def test_a_folder_may_bring_its_own_defaults(tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "own")
    index = folder / "model_index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"defaults": {"width": 96}}))
    assert catalogue.find(str(folder)).defaults["width"] == 96


def test_a_hub_model_is_found_in_the_cache(hub):
    with pytest.raises(ModelMissing, match=f"hf download {HUB_ID}"):
        catalogue.check(catalogue.find(HUB_ID))
    assert not catalogue.find(HUB_ID).present()
    snapshot = hub(HUB_ID)
    model = catalogue.find(HUB_ID)
    assert model.id == "skyreels-v2-df-1.3b-540p"
    assert model.folder() == snapshot and model.present()
    assert catalogue.open_pipeline(model, device="cpu").checkpoint.folder == snapshot


def test_any_hub_id_works_once_it_is_downloaded(hub):
    with pytest.raises(ModelMissing, match="hf download someone/finetune"):
        catalogue.find("someone/finetune")
    hub("someone/finetune")
    model = catalogue.find("someone/finetune")
    assert (model.id, model.source, model.licence) == (*["someone/finetune"] * 2, "unknown")


def test_a_download_that_did_not_finish_is_to_be_taken_up_again(hub):
    snapshot = hub(HUB_ID)
    (snapshot / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    model = catalogue.find(HUB_ID)
    assert not model.present()
    with pytest.raises(ModelMissing, match=f"not whole: vae has no weights.*hf download {HUB_ID}"):
        catalogue.open_pipeline(model)


def test_an_unknown_name_is_answered_with_close_ones():
    with pytest.raises(BadInput, match=r"Did you mean starter\?"):
        catalogue.find("startr")
    with pytest.raises(BadInput, match="Known: starter, talking, skyreels"):
        catalogue.find("zzz")


@pytest.mark.parametrize("name", ["/nowhere/at/all", "./nowhere", "~/nowhere-at-all", ".."])
def test_a_folder_that_is_not_there_is_refused(name):
    with pytest.raises(BadInput, match=r"There is no such folder|model_index\.json is missing"):
        catalogue.find(name)


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"model_index\.json is missing"):
        catalogue.find(str(tmp_path))


def test_the_talking_starter_begins_as_its_own_folder_says():
    model = catalogue.find("talking")
    tasks, defaults = catalogue.pipeline_class(model.family).describe(model.folder())
    assert model.tasks == tasks and model.present()
    assert {name: defaults[name] for name in model.defaults} == dict(model.defaults)

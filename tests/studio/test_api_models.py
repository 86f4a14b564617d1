"""The models panel over HTTP: what each model can do, folders and hub ids that a person adds."""

from __future__ import annotations

import json
import shutil
import time
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from pipelines import catalogue
from studio import download
from studio.api import create_app
from studio.library import Library
from studio.models import Models
from studio.recipe import Recipe
from tests.studio.test_download import (  # noqa: F401
    REPO,
    checkpoint,
    ended,
    hub,
)


@pytest.fixture(scope="module")
def library(served_library: Library) -> Library:
    return served_library


def rows(client: TestClient) -> dict[str, dict]:
    return {row["id"]: row for row in client.get("/api/models").json()}


def test_the_matrix_says_what_each_model_can_do_and_what_fits_it(client):
    told = rows(client)
    starter = told["starter"]
    assert starter["present"] and starter["problem"] is None and starter["size_on_disk"] > 1e6
    assert starter["tasks"] == ["T2V"] and starter["encoder_reuse"] and starter["segment_reuse"]
    assert starter["sizes"] == [[96, 64]] and starter["multiple"] == {"width": 16, "height": 16}
    assert not starter["takes_image"] and not starter["takes_audio"]
    assert not starter["single_frame"]
    large = told["skyreels-v2-df-14b-720p"]
    assert large["takes_image"] and large["sizes"][0] == [1280, 720] and large["needs"]
    assert large["hub"].startswith("Skywork/") and large["download_bytes"] > 4e10


def test_the_usual_size_of_every_model_is_one_of_its_sizes_and_makes_a_recipe(client):
    for row in rows(client).values():
        defaults = row["defaults"]
        assert row["sizes"][0] == [defaults["width"], defaults["height"]]
        Recipe.make(row["id"], prompt="a boat")


def test_a_folder_is_added_stays_and_is_forgotten(client, library, tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "my models" / "тест & 100 %")
    added = client.post("/api/models/folder", json={"folder": f'  "{folder}" '}).json()
    assert added["id"] == str(folder) and added["present"] and added["added"]
    assert added["sizes"] == [[512, 512]] and added["multiple"] == {"width": 16, "height": 16}
    assert Models(library.folder).added()[0].id == str(folder)
    client.post("/api/models/folder", json={"folder": str(folder)})
    assert list(rows(client)).count(str(folder)) == 1
    shutil.rmtree(folder / "vae")
    assert "vae" in rows(client)[str(folder)]["problem"]
    shutil.rmtree(folder)
    gone = rows(client)[str(folder)]
    assert not gone["present"] and "There is no such folder" in gone["problem"]
    assert client.delete(f"/api/models/{quote(str(folder), safe='')}").status_code == 200
    assert str(folder) not in rows(client)
    assert client.delete("/api/models/starter").status_code == 422


@pytest.mark.parametrize(
    ("folder", "told"),
    [
        ("", "whole path"),
        ("models/mine", "whole path"),
        ("/nowhere/at/all", "no such folder"),
        ("~/nowhere-at-all", "no such folder"),
        ("{tmp}", "model_index.json is missing"),
        ("{tmp}\0x", "whole path"),
        ("<img src=x>", "whole path"),
    ],
)
def test_a_folder_that_cannot_be_run_is_refused_at_its_field(client, tmp_path, folder, told):
    answer = client.post("/api/models/folder", json={"folder": folder.format(tmp=tmp_path)})
    assert answer.status_code == 422
    assert answer.json()["field"] == "folder" and told in answer.json()["error"]
    assert len(rows(client)) == len(catalogue.models())


def test_the_shipped_folder_is_the_starter_and_is_not_listed_twice(client):
    added = client.post("/api/models/folder", json={"folder": str(catalogue.STARTER)}).json()
    assert added["id"] == "starter" and len(rows(client)) == len(catalogue.models())


def test_a_damaged_list_of_added_models_hides_them_and_no_more(client, library):
    (library.folder / "models.json").write_text('{"format": 9')
    assert set(rows(client)) == {model.id for model in catalogue.models()}
    (library.folder / "models.json").unlink()


def test_a_hub_model_is_downloaded_listed_and_forgotten(client, library, hub):  # noqa: F811
    offer = client.post("/api/models/look", json={"id": REPO}).json()
    assert offer["repo"] == REPO and offer["total"] > 8_000_000
    hub.seconds_a_piece = 0.02
    assert client.post("/api/models/download", json={"id": REPO}).json() == {"id": REPO}
    waiting = rows(client)[REPO]
    assert not waiting["present"] and waiting["added"] and waiting["hub"] == REPO
    again = client.post("/api/models/download", json={"id": REPO})
    assert again.status_code == 422 and "already" in again.json()["error"]
    while client.get("/api/models/downloads").json()[0]["state"] in ("asking", "running"):
        time.sleep(0.05)
    (done,) = client.get("/api/models/downloads").json()
    assert (done["id"], done["state"], done["bytes"]) == (REPO, "done", done["total"])
    here = rows(client)[REPO]
    assert here["present"] and here["size_on_disk"] > 8_000_000
    assert (here["licence"], here["licence_url"]) == ("mit", f"https://huggingface.co/{REPO}")
    again = client.post("/api/models/download", json={"id": REPO})
    assert again.status_code == 422 and "on this machine already" in again.json()["error"]
    client.delete(f"/api/models/{quote(REPO, safe='')}")
    assert REPO not in rows(client) and client.get("/api/models/downloads").json() == []
    assert catalogue.find(REPO).present()


def test_a_catalogue_model_goes_by_its_own_id(client, hub):  # noqa: F811
    repo = "Skywork/SkyReels-V2-DF-1.3B-540P-Diffusers"
    assert client.post("/api/models/download", json={"id": repo}).json() == {
        "id": "skyreels-v2-df-1.3b-540p"
    }
    assert len(rows(client)) == len(catalogue.models())
    while (one := client.get("/api/models/downloads").json()[-1])["state"] == "asking":
        time.sleep(0.05)
    assert one["state"] == "failed" and f"no model {repo}" in one["told"]
    assert client.post("/api/models/download/cancel", json={"id": repo}).status_code == 422
    assert client.post("/api/models/download", json={"id": "starter"}).status_code == 422


def test_a_model_out_of_several_repositories_is_asked_for_by_its_own_id(client, hub):  # noqa: F811
    row = rows(client)["infinitetalk-14b"]
    assert not row["present"] and row["hub"].count(" + ") == 2
    assert "MeiGen-AI/InfiniteTalk single/infinitetalk.safetensors" in row["problem"]
    answer = client.post("/api/models/look", json={"id": "infinitetalk-14b"})
    assert answer.status_code == 422
    assert "no model Wan-AI/Wan2.1-I2V-14B-480P-Diffusers on the hub" in answer.json()["error"]
    assert client.post("/api/models/look", json={"id": "talking"}).status_code == 422


def test_nothing_in_the_answers_is_a_token(client, hub, monkeypatch):  # noqa: F811
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecretsecretsecret")
    hub.gated.add(REPO)
    told = [client.post("/api/models/look", json={"id": REPO}).json(), rows(client)]
    assert "secret" not in json.dumps(told)


def test_downloads_end_with_the_server(library, hub, monkeypatch):  # noqa: F811
    hub.seconds_a_piece = 0.3
    started = []

    def start(*words: str):
        started.append(start_for_real(*words))
        return started[-1]

    start_for_real = download._started
    monkeypatch.setattr(download, "_started", start)
    with TestClient(create_app(library, "127.0.0.1"), base_url="http://127.0.0.1") as page:
        page.post("/api/models/download", json={"id": REPO})
        (process,) = started
        assert process.poll() is None
    assert process.poll() is not None
    Models(library.folder).forget(REPO)

"""Downloads by hub id, from a hub on loopback that speaks as the real one does."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pipelines import catalogue
from pipelines.errors import BadInput
from studio.download import Download, Downloads, State, checked
from studio.hub_files import needed
from tests.fixtures.fake_hub import Hub, serve
from tests.studio.conftest import ROOT

REPO = "someone/finetune"
WEIGHTS = "text_encoder/model.safetensors"
PATIENCE = 60


@pytest.fixture(scope="module")
def checkpoint(tiny, tmp_path_factory) -> Path:
    """The tiny checkpoint as a repository: with 8 MB in one file, and files that nobody needs."""
    folder = shutil.copytree(tiny, tmp_path_factory.mktemp("hub") / "repository")
    tensors = load_file(folder / WEIGHTS)
    tensors["padding"] = np.random.default_rng(0).bytes(8_000_000)
    tensors["padding"] = np.frombuffer(tensors["padding"], np.uint8)
    save_file(tensors, folder / WEIGHTS)
    (folder / "README.md").write_text("about it")
    (folder / "transformer" / "diffusion_pytorch_model.fp16.safetensors").write_bytes(b"x" * 99)
    (folder / "transformer" / "pytorch_model.bin").write_bytes(b"x" * 99)
    (folder / "samples").mkdir()
    (folder / "samples" / "clip.mp4").write_bytes(b"x" * 99)
    return folder


@pytest.fixture
def hub(checkpoint, tmp_path, monkeypatch) -> Iterator[Hub]:
    """The hub, with an empty cache on this machine."""
    with serve() as hub:
        hub.folders[REPO] = checkpoint
        use(monkeypatch, hub.address, tmp_path / "cache")
        yield hub


def use(monkeypatch, address: str, cache: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))


@pytest.fixture
def downloads() -> Iterator[Downloads]:
    made = Downloads()
    yield made
    made.stop()


def wait(downloads: Downloads, until, id: str = REPO) -> Download:
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        one = next((one for one in downloads.all() if one.id == id), None)
        if one and until(one):
            return one
        time.sleep(0.02)
    raise AssertionError(f"waited too long: {downloads.all()}")


def ended(one: Download) -> bool:
    return one.state not in (State.ASKING, State.RUNNING)


def test_a_model_is_downloaded_with_progress_and_can_be_opened(hub, downloads):
    hub.seconds_a_piece = 0.03
    licences = []
    downloads.start(REPO, REPO, licences.append)
    half_way = wait(downloads, lambda one: 1_000_000 < one.bytes < one.total)
    assert half_way.state == State.RUNNING and half_way.total > 8_000_000
    done = wait(downloads, ended)
    assert (done.state, done.bytes) == (State.DONE, done.total)
    model = catalogue.find(REPO)
    assert model.present() and licences == ["mit"]
    assert catalogue.open_pipeline(model, device="cpu").checkpoint.folder == model.folder()


def test_only_what_a_pipeline_reads_is_brought(hub, downloads):
    downloads.start(REPO, REPO)
    assert wait(downloads, ended).state == State.DONE
    folder = catalogue.find(REPO).folder()
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"README.md", "model_index.json", WEIGHTS} <= names
    assert not [name for name in names if name.endswith((".bin", ".mp4")) or ".fp16." in name]


def test_weights_in_other_precisions_are_left_out_and_shards_are_not():
    names = [
        "transformer/config.json",
        "transformer/diffusion_pytorch_model-00001-of-00002.safetensors",
        "transformer/diffusion_pytorch_model.safetensors.index.json",
        "transformer/diffusion_pytorch_model.bf16-00001-of-00002.safetensors",
        "text_encoder/model.fp16.safetensors",
        "text_encoder/model.safetensors",
        "tokenizer/spiece.model",
        "unrelated/model.safetensors",
        "transformer/deep/down.json",
        "consolidated.safetensors",
    ]
    kept = needed(names, ["transformer", "text_encoder", "tokenizer"])
    assert [names.index(name) for name in kept] == [0, 1, 2, 5, 6]


def test_cancel_is_immediate_and_the_next_try_goes_on_where_it_stopped(hub, downloads):
    hub.seconds_a_piece = 0.1
    downloads.start(REPO, REPO)
    wait(downloads, lambda one: one.bytes > 3_000_000)
    begun = time.monotonic()
    downloads.cancel(REPO)
    assert wait(downloads, ended).state == State.CANCELLED
    assert time.monotonic() - begun < 1.5
    with pytest.raises(BadInput):
        catalogue.find(REPO)
    hub.seconds_a_piece = 0.0
    downloads.start(REPO, REPO)
    assert wait(downloads, ended).state == State.DONE
    first, second = hub.begins(WEIGHTS)
    assert first == 0 and second >= 2_000_000
    folder = catalogue.find(REPO).folder()
    assert (folder / WEIGHTS).read_bytes() == (hub.folders[REPO] / WEIGHTS).read_bytes()


def test_a_part_that_was_damaged_meanwhile_is_brought_anew(hub, downloads, tmp_path):
    hub.seconds_a_piece = 0.1
    downloads.start(REPO, REPO)
    wait(downloads, lambda one: one.bytes > 3_000_000)
    downloads.cancel(REPO)
    (part,) = [p for p in (tmp_path / "cache").rglob("*.part.incomplete") if p.stat().st_size > 1e6]
    with part.open("r+b") as file:
        file.write(b"damage")
    hub.seconds_a_piece = 0.0
    downloads.start(REPO, REPO)
    assert wait(downloads, ended).state == State.DONE
    assert hub.begins(WEIGHTS)[-1] == 0
    folder = catalogue.find(REPO).folder()
    assert (folder / WEIGHTS).read_bytes() == (hub.folders[REPO] / WEIGHTS).read_bytes()


def test_what_it_comes_to_is_told_before_anything_is_brought(hub, downloads):
    offer = downloads.look(f"https://huggingface.co/{REPO}/")
    assert offer.repo == REPO and offer.licence == "mit"
    assert 8_000_000 < offer.total < 20_000_000 and offer.free > 0
    assert not [path for _, path, _ in hub.asked if path.endswith(".safetensors")]


def test_a_download_ends_with_the_studio_that_started_it(hub):
    hub.seconds_a_piece = 0.2
    words = [sys.executable, "-m", "studio.fetch", REPO]
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert json.loads(process.stdout.readline())["state"] == "found"
    process.stdin.close()
    assert process.wait(5) == 1


def test_one_download_of_a_model_at_a_time(hub, downloads):
    hub.seconds_a_piece = 0.1
    downloads.start(REPO, REPO)
    with pytest.raises(BadInput, match="already"):
        downloads.start(REPO, REPO)
    downloads.cancel(REPO)
    with pytest.raises(BadInput, match="not being downloaded"):
        downloads.cancel(REPO)


def test_what_does_not_fit_the_disk_is_refused_before_it_starts(hub, downloads):
    hub.sizes[WEIGHTS] = 10**15
    downloads.start(REPO, REPO)
    failed = wait(downloads, ended)
    assert failed.state == State.FAILED
    assert "1000000.0 GB are still to come" in failed.told and "HF_HOME" in failed.told
    assert hub.begins(WEIGHTS) == []


def test_an_id_that_the_hub_does_not_know_is_told(hub, downloads):
    downloads.start("nobody/nothing", "nobody/nothing")
    failed = wait(downloads, ended, "nobody/nothing")
    assert "There is no model nobody/nothing on the hub" in failed.told
    with pytest.raises(BadInput, match="There is no model nobody/nothing"):
        downloads.look("nobody/nothing")


def test_a_model_behind_terms_says_how_to_accept_them(hub, downloads):
    hub.gated.add(REPO)
    downloads.start(REPO, REPO)
    assert "accepted" in wait(downloads, ended).told


def test_a_repository_that_is_no_model_of_ours_is_refused_before_it_is_brought(hub, downloads):
    folder = hub.folders["someone/other"] = hub.folders[REPO] / "samples"
    with pytest.raises(BadInput, match=r"model_index\.json"):
        downloads.look("someone/other")
    assert folder.is_dir()


def test_without_a_network_it_says_so(downloads, tmp_path, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    use(monkeypatch, address, tmp_path)
    with pytest.raises(BadInput, match="The hub cannot be reached"):
        downloads.look(REPO)
    with pytest.raises(BadInput, match="that are here: starter, talking"):
        downloads.look(REPO)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadInput, match="HF_HUB_OFFLINE is set"):
        downloads.look(REPO)


@pytest.mark.parametrize("id", ["", "name", "../../etc", "a/b/c", "-x/y", "a/b --look", "a/b\n"])
def test_what_cannot_be_an_id_never_reaches_a_process(id):
    if id.strip() == "a/b":
        assert checked(id) == "a/b"
        return
    with pytest.raises(BadInput, match="org/name"):
        checked(id)


def test_a_licence_that_cannot_be_noted_ends_the_download_in_words(hub, downloads):
    def found(licence: str) -> None:
        raise OSError("models.json cannot be written")

    hub.seconds_a_piece = 0.1
    downloads.start(REPO, REPO, found)
    failed = wait(downloads, ended)
    assert failed.state == State.FAILED and "models.json cannot be written" in failed.told
    hub.seconds_a_piece = 0.0
    downloads.start(REPO, REPO)
    assert wait(downloads, ended).state == State.DONE

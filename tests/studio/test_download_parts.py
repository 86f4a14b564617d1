"""A model out of three repositories is one download: what is here stays, the rest comes once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pipelines import catalogue
from pipelines.errors import ModelMissing
from studio import doctor
from studio.download import State
from tests.fixtures import tiny_infinitetalk
from tests.fixtures.fake_hub import Hub, serve
from tests.fixtures.once import once
from tests.studio.test_download import downloads, ended, use, wait  # noqa: F401

MODEL = "infinitetalk-14b"
BASE, VOICES, AUDIO = (part.id for part in catalogue.find(MODEL).repositories)
SINGLE = "single/infinitetalk.safetensors"


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> dict[str, Path]:
    """The three repositories, small, with files that nobody needs."""
    plain = once(tmp_path_factory, "infinitetalk", tiny_infinitetalk.build)
    folder = tmp_path_factory.mktemp("parts")
    tiny_infinitetalk.publish(plain, folder / "all")
    base = folder / "all" / "base"
    tensors = load_file(base / "text_encoder" / "model.safetensors")
    tensors["padding"] = np.frombuffer(np.random.default_rng(0).bytes(8_000_000), np.uint8)
    save_file(tensors, base / "text_encoder" / "model.safetensors")
    _as_on_the_hub(base)
    voices = folder / "voices"
    for kind in ("single", "multi"):
        (voices / kind).mkdir(parents=True)
        shutil.copy(folder / "all" / "infinitetalk.safetensors", voices / kind)
    (voices / "comfyui").mkdir()
    (voices / "comfyui" / "infinitetalk_single.safetensors").write_bytes(b"x" * 99)
    audio = shutil.copytree(folder / "all" / "wav2vec2", folder / "audio")
    (audio / "preprocessor_config.json").write_text(json.dumps({"do_normalize": True}))
    (audio / "chinese-wav2vec2-base-fairseq-ckpt.pt").write_bytes(b"x" * 99)
    return {BASE: base, VOICES: voices, AUDIO: audio}


def _as_on_the_hub(base: Path) -> None:
    """Its transformer in the diffusers layout, and a scheduler."""
    from diffusers import UniPCMultistepScheduler

    from pipelines.infinitetalk.names import from_published
    from tests.fixtures.infinitetalk_golden import golden, sizes

    tensors = {from_published(name): t.numpy() for name, t in golden("weights_base").items()}
    save_file(tensors, base / "transformer" / "diffusion_pytorch_model.safetensors")
    (base / "transformer" / "config.json").write_text(json.dumps(sizes(512)))
    UniPCMultistepScheduler(flow_shift=3.0).save_pretrained(base / "scheduler")
    index = json.loads((base / "model_index.json").read_text())
    index["scheduler"] = ["diffusers", "UniPCMultistepScheduler"]
    (base / "model_index.json").write_text(json.dumps(index))


@pytest.fixture
def hub(published, tmp_path, monkeypatch) -> Iterator[Hub]:
    """The hub, with an empty cache on this machine."""
    with serve() as hub:
        hub.folders.update(published)
        use(monkeypatch, hub.address, tmp_path / "cache")
        yield hub


def names_of(repo: str) -> set[str]:
    snapshot = catalogue.hub_snapshot(repo)
    return {str(path.relative_to(snapshot)) for path in snapshot.rglob("*") if path.is_file()}


def asked_for(hub: Hub, repo: str) -> list[str]:
    return [path for method, path, _ in hub.asked if method == "GET" and f"{repo}/resolve" in path]


def test_one_download_brings_what_three_repositories_have_and_no_more(hub, downloads):  # noqa: F811
    offer = downloads.look(MODEL)
    assert offer.id == MODEL and offer.repo == f"{BASE} + {VOICES} + {AUDIO}"
    assert offer.total > 4_000_000 and offer.licence == "mit"
    licences = []
    downloads.start(MODEL, MODEL, licences.append)
    done = wait(downloads, ended, MODEL)
    assert (done.state, done.bytes) == (State.DONE, done.total) and done.total == offer.total
    assert names_of(VOICES) == {SINGLE}
    assert names_of(AUDIO) == {"config.json", "preprocessor_config.json", "pytorch_model.bin"}
    model = catalogue.find(MODEL)
    assert model.present()
    pipeline = catalogue.open_pipeline(model, device="cpu")
    pipeline.load_encoders(["audio"])
    assert "audio_encoder" in pipeline.loaded
    multi = catalogue.find("infinitetalk-14b-multi")
    with pytest.raises(ModelMissing, match=r"multi/infinitetalk\.safetensors") as refusal:
        catalogue.check(multi)
    assert BASE not in refusal.value.fix and AUDIO not in refusal.value.fix
    before = len(hub.asked)
    downloads.start("infinitetalk-14b-multi", "infinitetalk-14b-multi")
    assert wait(downloads, ended, "infinitetalk-14b-multi").state == State.DONE
    assert multi.present() and model.present()
    assert all(VOICES in path for _, path, _ in hub.asked[before:])


def test_a_base_that_is_here_counts_as_here(hub, downloads):  # noqa: F811
    base = catalogue.find(BASE)
    downloads.start(base.id, BASE)
    assert wait(downloads, ended, base.id).state == State.DONE
    before = len(hub.asked)
    offer = downloads.look(MODEL)
    assert BASE not in offer.repo and offer.bytes == 0 and offer.total < 4_000_000
    downloads.start(MODEL, MODEL)
    assert wait(downloads, ended, MODEL).state == State.DONE
    assert catalogue.find(MODEL).present()
    assert not [path for _, path, _ in hub.asked[before:] if BASE in path]


def test_a_cancel_stops_it_and_the_next_try_goes_on(hub, downloads, library):  # noqa: F811
    hub.seconds_a_piece = 0.1
    downloads.start(MODEL, MODEL)
    # More than all other files together: some of this one is on disk.
    wait(downloads, lambda one: one.bytes > 5_500_000, MODEL)
    downloads.cancel(MODEL)
    assert wait(downloads, ended, MODEL).state == State.CANCELLED
    told = next(check.told for check in doctor.checks(library) if check.name == "models")
    assert f"{MODEL} is partly here: Not on this machine: {BASE}, {VOICES}, {AUDIO}" in told
    hub.seconds_a_piece = 0.0
    downloads.start(MODEL, MODEL)
    assert wait(downloads, ended, MODEL).state == State.DONE
    first, second = hub.begins("text_encoder/model.safetensors")
    assert first == 0 and second > 0
    assert len(asked_for(hub, VOICES)) == 1


def test_a_file_that_a_repository_lacks_is_named(hub, downloads, published, tmp_path):  # noqa: F811
    hub.folders[VOICES] = tmp_path / "empty"
    (tmp_path / "empty").mkdir()
    downloads.start(MODEL, MODEL)
    failed = wait(downloads, ended, MODEL)
    assert failed.state == State.FAILED and failed.told == f"{VOICES} has no {SINGLE}."


def test_the_catalogue_names_what_the_folder_points_to():
    for id in (MODEL, "infinitetalk-14b-multi"):
        model = catalogue.find(id)
        index = json.loads((model.source / "model_index.json").read_text())
        base, voices, audio = model.repositories
        assert (base.id, audio.id) == (index["base"], index["audio_encoder"])
        assert f"{voices.id}/{voices.files[0]}" == index["audio_weights"]

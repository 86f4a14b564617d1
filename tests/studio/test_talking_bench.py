"""The benchmark of reuse on a model that takes a picture and a voice: its own sample, or yours."""

from __future__ import annotations

import json

import pytest

from pipelines.errors import BadInput
from studio import bench
from studio.bench_inputs import fields_for
from studio.engine import Engine
from tests.fixtures.voices import write_wav
from tests.studio.talking import TALKING, sample_voice

QUICK = {"steps": 1, "rounds": 1, "joins": False}


def test_a_talking_model_is_measured_with_its_own_sample_where_none_is_given(tmp_path):
    pipeline = Engine().pipeline("talking")
    own = {"prompt": "a person talks", "image": TALKING / "face.png"}
    own["audio"] = TALKING / "voice.wav"
    assert fields_for("talking", pipeline, tmp_path, {"steps": 1}) == {**own, "steps": 1}
    mine = tmp_path / "mine.wav"
    assert fields_for("talking", pipeline, tmp_path, {"audio": mine}) == {**own, "audio": mine}
    assert list(tmp_path.iterdir()) == [] and pipeline.loaded == frozenset()


def test_each_retake_stands_beside_what_it_should_cost_and_each_encoder_is_told(tmp_path):
    voice = write_wav(tmp_path / "mine.wav", sample_voice(11))
    given = {"audio": voice, "image": None, "frames": 9, "overlap": 5}
    told = bench.reuse("talking", given=given, **QUICK)
    assert json.loads(json.dumps(told)) == told
    assert (told["segments"], told["frames"], told["fps"]) == (2, 11, 25)
    rows = {row["what"]: row for row in told["takes"]}
    names = ["full take", "encoder reuse (keep 0)", "retake, keep 1", "repeat"]
    assert list(rows) == names
    assert [rows[name]["ideal"] for name in names] == [1, 1, 0.5, 0]
    by_frames = [rows[name]["ideal_by_frames"] for name in names]
    assert by_frames == [1, 1, round(2 / 11, 4), 0]
    assert rows["full take"]["ratio"] == 1 and rows["repeat"]["ratio"] < 0.2
    parts = {one["part"]: one for one in told["encoders"]}
    assert list(parts) == ["prompt", "negative_prompt", "image", "audio"]
    assert all(one["encode"] > 0 for one in parts.values())
    assert (
        parts["audio"]["loaded"] == ["audio_encoder"] and parts["negative_prompt"]["loaded"] == []
    )
    first, second = told["fresh"]
    assert first["encode"] > 0 and second["encode"] == 0
    assert set(second["loaded"]) == {"transformer", "vae"} < set(first["loaded"])
    assert "encoder of audio: load" in bench.table(told)


def test_a_voice_for_a_model_that_hears_none_is_refused():
    with pytest.raises(BadInput, match="audio"):
        bench.reuse("starter", given={"audio": TALKING / "voice.wav"}, **QUICK)

from __future__ import annotations

import pickle
import random
from enum import StrEnum
from pathlib import Path

import pytest

from reuse import (
    ABSENT,
    Difference,
    FileHashes,
    MissingInput,
    NotCompatible,
    differences,
    digest,
    resolve,
    segment_id,
)

FIELDS = {"prompt": "ein Boot — 舟", "steps": 20, "flowcache": {"epsilon": 0.1, "on": True}}


def test_keys_made_today_are_the_keys_made_tomorrow():
    assert digest("encoder", FIELDS) == "c1d53a121fc1b2b136cb6b8e0a714620eece13fc"
    assert segment_id(FIELDS, 0, 7, None) == "4448e3315f40e5dce532d5a2ba6708c66a5fba97"


def test_the_order_of_fields_does_not_matter():
    assert digest("encoder", FIELDS) == digest("encoder", dict(reversed(FIELDS.items())))


def test_the_same_fields_make_another_key_for_another_kind():
    assert digest("encoder", FIELDS) != digest("segment", FIELDS)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (0, -0.0), (10**20, 1e20), (0.3, 0.30), ([1, 2], (1, 2)), ({}, {})],
)
def test_equal_values_make_one_key(one, other):
    assert digest("k", {"x": one}) == digest("k", {"x": other})
    assert differences({"x": one}, {"x": other}) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (0, False),
        (1, "1"),
        (0.1 + 0.2, 0.3),
        (2**63, 2**63 + 1),
        (None, 0),
        ("", None),
        ([], {}),
        ([1, 2], [2, 1, 2]),
        ("e\u0301", "\u00e9"),
        ({"a": None}, {}),
    ],
)
def test_different_values_make_two_keys(one, other):
    assert digest("k", {"x": one}) != digest("k", {"x": other})
    assert len(differences({"x": one}, {"x": other})) == 1


def test_an_enum_of_strings_counts_as_its_string():
    class Task(StrEnum):
        T2V = "T2V"

    assert digest("k", {"task": Task.T2V}) == digest("k", {"task": "T2V"})


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, b"bytes", object(), Path("a.png"), "\udcff", {1: "one"}],
)
def test_what_is_not_json_is_refused_by_the_name_of_its_field(value):
    with pytest.raises(TypeError, match=r"^loras\.1\.scale"):
        digest("k", {"loras": [{}, {"scale": value}]})


def test_a_seed_changes_its_segment_and_all_that_follow():
    def chain(seeds):
        ids = [None]
        for i, seed in enumerate(seeds):
            ids.append(segment_id(FIELDS, i, seed, ids[-1]))
        return ids[1:]

    one, other = chain([5, 5, 5, 5]), chain([5, 5, 6, 5])
    assert one[:2] == other[:2]
    assert not set(one[2:]) & set(other[2:])
    assert len(set(one)) == 4


def test_a_segment_follows_the_one_before_it_and_nothing_else():
    for index, previous in [(0, "abc"), (1, None), (-1, None)]:
        with pytest.raises(ValueError, match="cannot follow"):
            segment_id(FIELDS, index, 1, previous)


def test_paths_are_replaced_by_what_the_files_hold(tmp_path):
    (tmp_path / "a.png").write_bytes(b"picture")
    (tmp_path / "b.png").write_bytes(b"picture")
    hashes = FileHashes()
    one = resolve({"prompt": "p", "inputs": [{"image": tmp_path / "a.png"}]}, hashes)
    assert one["inputs"][0]["image"]["bytes"] == 7
    assert one == resolve({"prompt": "p", "inputs": [{"image": tmp_path / "b.png"}]}, hashes)
    (tmp_path / "a.png").write_bytes(b"PICTURE")
    edited = resolve({"prompt": "p", "inputs": [{"image": tmp_path / "a.png"}]}, hashes)
    assert digest("encoder", one) != digest("encoder", edited)


def test_a_missing_file_is_named_with_its_field(tmp_path):
    with pytest.raises(MissingInput, match=r"^inputs\.0\.image: .*nothing\.png"):
        resolve({"inputs": [{"image": tmp_path / "nothing.png"}]}, FileHashes())


def test_differences_name_each_field_with_both_values():
    kept = {"steps": 20, "size": [96, 64], "flowcache": {"epsilon": 0.1, "mode": "exact"}}
    asked = {"steps": 25, "size": [96, 80], "flowcache": {"epsilon": 0.1}, "shift": 3}
    assert differences(kept, asked) == [
        Difference("flowcache.mode", "exact", ABSENT),
        Difference("shift", ABSENT, 3),
        Difference("size.1", 64, 80),
        Difference("steps", 20, 25),
    ]
    message = str(NotCompatible(differences(kept, asked)))
    assert "steps: kept 20, asked 25" in message
    assert 'flowcache.mode: kept "exact", asked (absent)' in message


def test_a_changed_file_is_one_difference():
    kept, asked = ({"image": {"sha256": c * 64, "bytes": 9}} for c in "ab")
    (difference,) = differences(kept, asked)
    assert str(difference) == (
        "image: kept file aaaaaaaaaaaa (9 bytes), asked file bbbbbbbbbbbb (9 bytes)"
    )
    (difference,) = differences({"image": None}, asked)
    assert str(difference) == "image: kept null, asked file bbbbbbbbbbbb (9 bytes)"


def test_long_values_are_shortened_to_where_they_part():
    scene = "a red boat on a calm sea under a wide evening sky with a few clouds, drifting "
    (difference,) = differences({"prompt": scene + "left"}, {"prompt": scene + "right"})
    assert "drifting left" in str(difference)
    assert "drifting right" in str(difference)
    assert len(str(difference)) < 160


def test_there_are_differences_exactly_when_the_keys_differ():
    rng = random.Random(0)

    def value(depth):
        kinds = [0, 1, 1.0, 0.5, True, False, None, "", "x", [], {}]
        if depth and rng.random() < 0.5:
            if rng.random() < 0.5:
                return {rng.choice("abc"): value(depth - 1) for _ in range(rng.randrange(3))}
            return [value(depth - 1) for _ in range(rng.randrange(3))]
        return rng.choice(kinds)

    same = 0
    for _ in range(1000):
        one, other = {"f": value(2)}, {"f": value(2)}
        equal = digest("k", one) == digest("k", other)
        assert equal == (differences(one, other) == []), (one, other)
        same += equal
    assert same > 15


def test_errors_cross_processes_with_their_message():
    error = NotCompatible([Difference("steps", 20, 25)])
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.differences) == (str(error), error.differences)
    missing = MissingInput("image", Path("a.png"))
    assert str(pickle.loads(pickle.dumps(missing))) == str(missing)

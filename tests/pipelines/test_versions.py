"""The versions that go into keys."""

from __future__ import annotations

import importlib.metadata

from pipelines.versions import image_backend, versions


def test_a_package_that_is_replaced_meanwhile_counts_as_the_one_that_is_in_use(monkeypatch):
    before = versions("cuda:0", "torch", "numpy"), image_backend()
    assert before[0] == {
        "device": "cuda",
        **{name: importlib.metadata.version(name) for name in ("torch", "numpy")},
    }
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99")
    assert (versions("cuda:0", "torch", "numpy"), image_backend()) == before

"""Which software a result was computed with, as far as its numbers depend on it."""

from __future__ import annotations

import functools

from pipelines.base import Fields


def versions(device: str, *packages: str) -> Fields:
    """Another library or kind of device may round otherwise; results are promised to the bit."""
    return {"device": device.split(":")[0], **{name: _version(name) for name in packages}}


def image_backend() -> str:
    """Which of its two the image processors of transformers use: they resize differently, and each
    as its version does. That of Pillow is in the keys anyway."""
    from importlib.util import find_spec

    return f"torchvision {_version('torchvision')}" if find_spec("torchvision") else "pil"


@functools.cache
def _version(package: str) -> str:
    """Read once: a package that is replaced while this process runs is still in use as it was, and
    keys are made often, for every segment that is published."""
    from importlib.metadata import version

    return version(package)

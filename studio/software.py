"""Versions of what made a result, for its manifest and for `doctor`."""

from __future__ import annotations

import functools
import importlib.metadata
import platform

from studio import __version__

PACKAGES = ("torch", "diffusers", "transformers", "safetensors", "gradio", "moviepy")


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = {"retake": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "missing"
    return tuple(found.items())


def versions() -> dict[str, str]:
    """Package name -> installed version, or "missing"."""
    return dict(_versions())

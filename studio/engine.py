"""The engine runs a render: in this process, on pipelines that stay open between renders."""

from __future__ import annotations

import threading

from pipelines import catalogue
from pipelines.base import Pipeline


class Engine:
    """Keeps one open pipeline a model, so that a second take finds its weights in memory."""

    def __init__(self) -> None:
        self._open: dict[str, Pipeline] = {}
        self._lock = threading.Lock()

    def pipeline(self, model: str) -> Pipeline:
        """The pipeline of a catalogue id, hub id or folder. Raises BadInput, ModelMissing."""
        with self._lock:
            if model not in self._open:
                self._open[model] = catalogue.open_pipeline(catalogue.find(model))
            return self._open[model]

    def turn_to(self, model: str) -> Pipeline:
        """The same, to render with: what other models hold in memory is given back first. Raises
        BadInput, ModelMissing."""
        chosen = self.pipeline(model)
        with self._lock:
            others = [other for other in self._open.values() if other is not chosen]
        for other in others:
            if other.loaded:
                other.free_encoders()
                other.free_denoiser()
        return chosen

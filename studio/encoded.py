"""The encoder outputs of one render: from disk if they are there; only else are encoders loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pipelines.base import Pipeline, Tensors, joined
from reuse import Entry
from studio.chapter import Chapter
from studio.clock import Clock
from studio.events import Stage
from studio.keys import Keys
from studio.library import Library
from studio.ranks import Ranks
from studio.recipe import Recipe

ENCODED = ""
"""Stem of the tensors of an entry under inputs/."""


class EncoderOutputs:
    """Looks for a part when a segment that has to be generated needs it, and not before.

    `tell` reports a stage. `refuse_changed_files` is called before anything is published.
    """

    def __init__(
        self,
        library: Library,
        pipeline: Pipeline,
        chapters: Sequence[Chapter],
        keys: Keys,
        clock: Clock,
        ranks: Ranks,
        tell: Callable[[Stage], None],
        refuse_changed_files: Callable[[], None],
    ) -> None:
        self.library, self.pipeline, self.keys, self.clock = library, pipeline, keys, clock
        self.ranks, self.tell, self.refuse_changed_files = ranks, tell, refuse_changed_files
        self.sources = dict.fromkeys(keys.encoder, "reused")
        """Name of a part -> "computed" or "reused"."""
        self._origins = origins(chapters, keys)
        self._entries: dict[str, Entry] = {}
        self._loaded: tuple[int, Tensors] | None = None

    def of(self, segment: int) -> Tensors:
        """What segment `segment` is generated from. What the segments after it will need is
        encoded with it, so that encoders are loaded once."""
        own = self.keys.of_segment(segment)
        if self._loaded is None or self._loaded[0] != own.first:
            needed = list(own.parts.values()) + self._needed_later(segment)
            self._find(name for name in needed if name not in self._entries)
            parts = {part: self._entries[name] for part, name in own.parts.items()}
            tensors = joined({p: self.ranks.tensors(entry, ENCODED) for p, entry in parts.items()})
            self._loaded = own.first, tensors
        return self._loaded[1]

    def _needed_later(self, segment: int) -> list[str]:
        """Parts of the chapters in which another segment is still to be generated."""
        store, keys = self.library.store, self.keys
        names: dict[str, None] = {}
        for i in range(segment + 1, len(keys.segments)):
            if not self.ranks.agree(store.folder("segments", keys.segments[i]).is_dir()):
                names |= dict.fromkeys(keys.of_segment(i).parts.values())
        return list(names)

    def _find(self, names: Iterable[str]) -> None:
        missing: dict[str, str] = {}
        for name in dict.fromkeys(names):
            entry = self.ranks.find(self.library.store, "inputs", self.keys.encoder[name])
            if entry is None:
                missing[name] = self.keys.encoder[name]
            else:
                self._entries[name] = entry
        if missing:
            self._encode(missing)

    def _encode(self, missing: Mapping[str, str]) -> None:
        """Encodes the parts that no disk entry holds, each once, and publishes them."""
        by_key: dict[str, str] = {}
        for name, key in missing.items():
            by_key.setdefault(key, name)
        try:
            self.tell(Stage.LOAD)
            with self.clock.measure("load"):
                self.pipeline.load_encoders({self._origins[name][1] for name in by_key.values()})
            self.tell(Stage.ENCODE)
            with self.clock.measure("encode"):
                encoded = encode(self.pipeline, self._origins, by_key.values())
        finally:
            self.pipeline.free_encoders()
        published: dict[str, Entry] = {}
        for key, name in by_key.items():
            store, fields = self.library.store, {"fields": self.keys.encoder_fields[name]}
            with self.clock.measure("write"), self.ranks.stage(store) as staging:
                staging.write_tensors(ENCODED, encoded[name], self.ranks.rank)
                self.refuse_changed_files()
                published[key] = self.ranks.publish(staging, store, "inputs", key, fields)
        for name, key in missing.items():
            self._entries[name], self.sources[name] = published[key], "computed"


def origins(chapters: Sequence[Chapter], keys: Keys) -> dict[str, tuple[Recipe, str]]:
    """Name of a part in `keys.encoder` -> the recipe that it is encoded from, and what the model
    calls it."""
    found: dict[str, tuple[Recipe, str]] = {}
    for chapter, own in zip(chapters, keys.chapters, strict=True):
        for part, name in own.parts.items():
            found.setdefault(name, (chapter.recipe, part))
    return found


def encode(
    pipeline: Pipeline, origins: Mapping[str, tuple[Recipe, str]], names: Iterable[str]
) -> dict[str, Tensors]:
    """Encoder outputs of the parts of these names, computed now."""
    encoded: dict[str, Tensors] = {}
    for name in names:
        recipe, part = origins[name]
        encoded[name] = pipeline.encode(recipe, [part])[part]
    return encoded

"""What a model takes of the hub: the files of its repositories, and what of them is here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines import catalogue
from pipelines.catalogue import Repository
from pipelines.errors import BadInput

HUB_SECONDS = 15
"""So long an answer of the hub may take."""

_VARIANT = re.compile(r"(?:model|diffusion_pytorch_model)\.(?!safetensors)[\w-]+?[.-]")
_SUFFIXES = (".json", ".safetensors", ".model", ".txt", ".jinja")
_AT_ROOT = re.compile(r"model_index\.json|(?:README|LICEN[SC]E|NOTICE)[\w.-]*", re.IGNORECASE)


@dataclass(frozen=True)
class File:
    """One file of a repository."""

    name: str
    bytes: int
    tag: str
    """Names its content: SHA-256 of a large file, git's SHA-1 of a small one."""


@dataclass(frozen=True)
class Found:
    """What a download comes to in one repository."""

    repo: str
    commit: str
    files: tuple[File, ...]
    licence: str

    @property
    def folder(self) -> Path:
        return catalogue.hub_repository(self.repo)

    @property
    def total(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def bytes(self) -> int:
        """What of it is on disk."""
        return sum(self.here(file) for file in self.files)

    def blob(self, file: File) -> Path:
        return self.folder / "blobs" / file.tag

    def part(self, file: File) -> Path:
        return self.folder / "blobs" / f"{file.tag}.part.incomplete"

    def here(self, file: File) -> int:
        """Bytes of a file that are on disk."""
        for path in (self.blob(file), self.part(file)):
            with suppress(OSError):
                return min(path.stat().st_size, file.bytes)
        return 0


def needed(names: Iterable[str], components: Iterable[str]) -> list[str]:
    """The files of a repository in the diffusers layout that a pipeline reads: configs, tokenizer
    and safetensors of its components, and what is said about it. Weights in other formats and
    other precisions (`model.fp16.safetensors`) are left out."""
    wanted = set(components)
    return [
        name
        for name in names
        if (_AT_ROOT.fullmatch(name))
        or (
            name.count("/") == 1
            and name.partition("/")[0] in wanted
            and name.endswith(_SUFFIXES)
            and not _VARIANT.match(name.partition("/")[2])
        )
    ]


def asked(id: str) -> list[Repository]:
    """The repositories of a model of the catalogue, or the one of this id."""
    model = next((model for model in catalogue.models() if model.id == id), None)
    return list(model.repositories) if model else [Repository(id)]


def is_whole(part: Repository) -> bool:
    """Whether all of it is on this machine."""
    if part.files:
        return part.here() is not None
    try:
        return catalogue.find(part.id).present()
    except BadInput:
        return False


def find(part: Repository) -> Found:
    """Asks the hub. Raises BadInput for a repository that is no model this studio can run or that
    lacks a file, and whatever huggingface_hub raises."""
    from huggingface_hub import HfApi

    info = HfApi().model_info(part.id, revision="main", files_metadata=True, timeout=HUB_SECONDS)
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    names = _named(part, siblings) if part.files else _components(part.id, info.sha, siblings)
    files = []
    for name in names:
        sibling = siblings[name]
        tag = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
        files.append(File(name, sibling.size or 0, tag or ""))
    licence = getattr(info.card_data, "license", None)
    return Found(part.id, info.sha, tuple(files), licence if isinstance(licence, str) else "")


def _named(part: Repository, there: Iterable[str]) -> list[str]:
    """Of each file that is named, the name under which the repository has it."""
    found = []
    for names in part.files:
        choice = (names,) if isinstance(names, str) else names
        name = next((name for name in choice if name in there), None)
        if name is None:
            raise BadInput("model", part.id, f"{part.id} has no {' and no '.join(choice)}.")
        found.append(name)
    return found


def _components(repo: str, commit: str, there: Iterable[str]) -> list[str]:
    """What a pipeline reads of a model in the diffusers layout."""
    from huggingface_hub import hf_hub_download

    if "model_index.json" not in there:
        fix = "It is not a model in the diffusers layout: it has no model_index.json."
        raise BadInput("model", repo, fix)
    index = Path(hf_hub_download(repo, "model_index.json", revision=commit))
    catalogue.family_of(index.parent)
    named: Mapping[str, Any] = json.loads(index.read_text(encoding="utf-8"))
    return needed(
        there, [name for name, entry in named.items() if isinstance(entry, list) and all(entry)]
    )

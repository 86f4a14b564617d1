"""What a model comes with to be tried at once: prompts, and pictures and voices that lie in its
folder. A samples.json there lists them, each a label and, as text, some of the recipe fields of
WRITTEN and FILES; what is anything else is no sample:

    {"label": "One person", "prompt": "a person talks", "image": "face.png", "audio": "voice.wav"}
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import BadInput
from pipelines.model import Model
from studio import inputs
from studio.library import Library
from studio.recipe import INPUT_FILES, SEVERAL_FILES

NAME = "samples.json"
WRITTEN = ("prompt", "negative_prompt", "faces")
FILES = frozenset(INPUT_FILES) - SEVERAL_FILES
MOST = 8


@dataclass(frozen=True)
class Sample:
    """Recipe fields to begin with: what is written, and names of files in the model's folder."""

    label: str
    written: dict[str, str]
    files: dict[str, str]


def samples_of(model: Model) -> list[Sample]:
    """Those of a model that is here, whatever its index says otherwise; at most MOST."""
    folder = model.folder()
    try:
        listed = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return []
    found = (_sample(folder, one) for one in listed[:MOST]) if isinstance(listed, list) else ()
    return [sample for sample in found if sample]


def take_sample(library: Library, model: Model, number: int) -> dict[str, Any]:
    """Recipe fields of a sample, counted from 0, its files copied into the library, and the names
    of those by path. Raises BadInput if the model has no such sample, or a file is not what its
    field holds."""
    known = samples_of(model)
    if not 0 <= number < len(known):
        raise BadInput("number", number, f"{model.name} has {len(known)} samples.")
    sample, folder = known[number], model.folder()
    recipe, names = dict(sample.written), {}
    for field, name in sample.files.items():
        with library.store.stage() as staging:
            path = staging.file("sample")
            shutil.copyfile(folder / name, path)
            recipe[field] = str(inputs.adopt(library, field, path, name))
        names[recipe[field]] = name
    return {"recipe": recipe, "files": names}


def _sample(folder: Path, told: Any) -> Sample | None:
    """None where it is not a sample: names have to be those of files that lie in the folder."""
    if not isinstance(told, dict) or not all(isinstance(value, str) for value in told.values()):
        return None
    files = {field: told[field] for field in FILES if field in told}
    if not all(Path(name).name == name and (folder / name).is_file() for name in files.values()):
        return None
    written = {field: told[field] for field in WRITTEN if field in told}
    label = told.get("label") or written.get("prompt", "")
    return Sample(label[:60], written, files) if label and (written or files) else None

"""What works on this machine and what does not, with its fix; and clearing what nobody uses."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipelines import catalogue
from pipelines.errors import BadInput
from studio import media, software
from studio.library import Library
from studio.models import Models
from studio.report import models_report

DAY = 86_400.0
LOW_DISK = 2 * 1024**3


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    told: str


def checks(library: Library) -> list[Check]:
    """Looks at everything a render needs."""
    looks: list[tuple[str, Callable[[], tuple[bool, str]]]] = [
        ("software", _software),
        ("device", _device),
        ("ffmpeg", _ffmpeg),
        ("library", lambda: _library(library)),
        ("disk", lambda: _disk(library)),
        ("starter model", _starter),
        ("models", lambda: _models(library)),
    ]
    found = []
    for name, look in looks:
        try:
            ok, told = look()
        except Exception as error:
            ok, told = False, f"{type(error).__name__}: {error}"
        found.append(Check(name, ok, told))
    return found


def _software() -> tuple[bool, str]:
    versions = software.versions()
    missing = [name for name, version in versions.items() if version == "missing"]
    if missing:
        return False, f"{', '.join(missing)} not installed; run pip install -r requirements.txt"
    return True, ", ".join(f"{name} {version}" for name, version in versions.items())


def _device() -> tuple[bool, str]:
    import torch

    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        name = torch.cuda.get_device_name()
        return True, f"{name}, {free / 1e9:.1f} of {total / 1e9:.1f} GB free"
    return (
        True,
        f"no GPU: the CPU is used ({os.cpu_count()} cores); the starter model is made for it",
    )


def _ffmpeg() -> tuple[bool, str]:
    return True, media.ffmpeg.version()


def _library(library: Library) -> tuple[bool, str]:
    with library.store.stage() as staging:
        staging.file("probe").write_bytes(b"probe")
    used = sum(library.store.usage().values())
    takes = len(library.history.take_ids())
    return True, f"{library.folder} can be written; {takes} takes, {used / 1e6:.1f} MB"


def _disk(library: Library) -> tuple[bool, str]:
    free = shutil.disk_usage(library.folder).free
    told = f"{free / 1e9:.1f} GB free"
    return free >= LOW_DISK, told if free >= LOW_DISK else f"{told}: too little; make room"


def _starter() -> tuple[bool, str]:
    pipeline = catalogue.open_pipeline(catalogue.find("starter"))
    pipeline.load_denoiser()
    return True, f"loads ({', '.join(sorted(pipeline.loaded))})"


def _models(library: Library) -> tuple[bool, str]:
    """A download that is not whole is named; nothing is wrong with what works without it."""
    rows = models_report(Models(library.folder).added())
    here = ", ".join(row["id"] for row in rows if row["present"])
    partly = [row for row in rows if row["size_on_disk"] and not row["present"]]
    told = [f"{row['id']} is partly here: {row['problem']}" for row in partly]
    return True, "; ".join([f"here: {here}", *told])


def _named_inputs(library: Library) -> set[str]:
    """Keys of the pictures and voices that presets and drafts name; a draft is whatever JSON the
    page saved."""
    rows = library.database.rows(
        "SELECT recipe FROM presets UNION ALL SELECT draft FROM sessions WHERE draft IS NOT NULL"
    )
    return {key for (text,) in rows for key in re.findall(r"inputs[/\\]+([0-9a-f]{16,64})", text)}


def clean(library: Library, older_than_days: float) -> dict[str, Any]:
    """Removes encoder outputs and segments that no take uses and that are older than given. A take
    in the trash uses its own until the trash is emptied; pictures and voices that a preset or the
    draft of a session names stay too.

    Returns how many entries and bytes went. Raises BadInput while jobs wait or run, or while a
    take cannot be read: what they need would go too.
    """
    if not older_than_days >= 0:
        raise BadInput("older_than", older_than_days, "Give a number of days from 0.")
    if queue := library.jobs.queue():
        fix = "Jobs wait or run; let them finish, or cancel them first."
        raise BadInput("clean", f"{len(queue)} jobs", fix)
    takes = [*library.takes(), *library.trash.takes()]
    on_disk = sum(1 for _ in library.store.keys("takes")) + len(library.trash.ids())
    if len(takes) < on_disk:
        fix = "Some takes cannot be read; `verify` names them. Mend or remove them first."
        raise BadInput("clean", f"{on_disk - len(takes)} takes", fix)
    keep_inputs = _named_inputs(library)
    keep_segments: set[str] = set()
    for take in takes:
        keep_inputs.update(take.encoder_keys.values())
        keep_segments.update(part.id for part in take.segments)
        for chapter in take.chapters:
            keep_inputs.update(path.parent.name for _, path in chapter.recipe.files())
    keep = {"inputs": keep_inputs, "segments": keep_segments}
    removed = library.store.collect(keep, older_than_s=older_than_days * DAY)
    return {"entries": removed.entries, "bytes": removed.bytes}

"""What is told of takes and models, as plain values: the JSON of the commands and of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipelines import catalogue
from pipelines.base import Capabilities, Task
from pipelines.catalogue import Model, Repository
from pipelines.errors import BadInput
from pipelines.flowcache import PRESETS_FROM, presets_of
from studio import flowcache
from studio.library import Library
from studio.models import Added, hub_page, size_of, size_on_disk
from studio.render import Rendered
from studio.samples import samples_of
from studio.take import Take


def render_report(library: Library, rendered: Rendered) -> dict[str, Any]:
    """A take and what it cost to make it this time."""
    take = rendered.take
    return {
        "take": take.id,
        "parent": rendered.parent,
        "session": take.session,
        "model": take.recipe.model,
        "result": str(library.result(take)),
        "seeds": take.seeds,
        "segments": [
            {
                "index": segment.index,
                "id": segment.id,
                "seed": segment.seed,
                "source": source,
                "frames": list(segment.frames),
                "seconds": seconds,
            }
            for segment, source, seconds in zip(
                take.segments, rendered.sources, rendered.segment_seconds, strict=True
            )
        ],
        "encoder": {
            "source": rendered.encoder_source,
            "seconds": rendered.timings["encode"],
            "parts": rendered.encoders,
        },
        "timings": rendered.timings,
        "forwards": rendered.forwards,
    }


def take_report(library: Library, take: Take) -> dict[str, Any]:
    """All that is known of a take: its manifest, and what only history knows."""
    row = library.history.row(take.id)
    told = take.model_dump(mode="json")
    segments = told.pop("segments")
    told["chapters"] = [{"first": 0, "recipe": told["recipe"]}, *told.pop("later")]
    return {
        "take": told.pop("id"),
        **told,
        "result": str(library.result(take)),
        "seconds": row.seconds,
        "baseline": row.baseline,
        "stars": row.stars,
        "note": row.note,
        "flowcache": flowcache.told(library, take),
        "segments": segments,
    }


def models_report(added: Iterable[Added] = ()) -> list[dict[str, Any]]:
    """The support matrix, generated from what the models declare: the catalogue, then what the
    person added. `problem` says why a model cannot be used now; null if it can."""
    known = catalogue.models()
    rows = [model_report(model) for model in known]
    ids = {model.id for model in known}
    for entry in added:
        model = entry.open()
        if isinstance(model, BadInput):
            rows.append(_unopened(entry, model))
        elif model.id not in ids:
            rows.append(model_report(model, added=True))
    return rows


def model_report(model: Model, added: bool = False) -> dict[str, Any]:
    """One model: what it is, what it can do, what it takes, and whether it is here."""
    problem = None
    try:
        catalogue.check(model)
    except BadInput as error:
        problem = error.fix
    capabilities = asdict(model.capabilities)
    return {
        "id": model.id,
        "name": model.name,
        "family": model.family,
        "present": problem is None,
        "problem": problem,
        "licence": model.licence,
        "licence_url": model.licence_url,
        "hub": " + ".join(part.id for part in model.repositories) or None,
        "download_bytes": model.download_bytes,
        "size_on_disk": size_on_disk(model),
        **{k: list(v) if isinstance(v, tuple) else v for k, v in capabilities.items()},
        "takes_image": bool({Task.I2V, Task.I2I, Task.S2V} & set(model.tasks)),
        "takes_audio": Task.S2V in model.tasks,
        "single_frame": set(model.tasks) <= {Task.T2I, Task.I2I},
        "note": model.note,
        "needs": model.needs,
        "flowcache_presets": presets_of(model.family),
        "flowcache_presets_from": PRESETS_FROM,
        "defaults": dict(model.defaults),
        "sizes": [list(size) for size in model.sizes],
        "multiple": catalogue.size_multiple(model),
        "samples": [{"label": one.label, **one.written} for one in samples_of(model)],
        "added": added,
    }


def _unopened(entry: Added, error: BadInput) -> dict[str, Any]:
    """An added model of which nothing is known but its name: it is not here now."""
    return {
        "id": entry.id,
        "name": entry.id,
        "family": "",
        "present": False,
        "problem": error.fix,
        "licence": entry.licence or "unknown",
        "licence_url": hub_page(entry.id) if entry.is_hub else "",
        "hub": entry.id if entry.is_hub else None,
        "download_bytes": 0,
        "size_on_disk": size_of(Repository(entry.id)) if entry.is_hub else 0,
        **{k: list(v) if isinstance(v, tuple) else v for k, v in asdict(Capabilities(())).items()},
        "takes_image": False,
        "takes_audio": False,
        "single_frame": False,
        "note": "",
        "needs": "",
        "defaults": {},
        "sizes": [],
        "multiple": None,
        "samples": [],
        "added": True,
    }


def support_matrix(rows: Sequence[Mapping[str, Any]] | None = None) -> list[list[str]]:
    """A table of `models_report`, its head first; of the catalogue alone without `rows`: the README
    shows that one and a test compares."""
    head = ["model", "tasks", "encoder reuse", "segment reuse", "FlowCache", "licence", "download"]
    return [head] + [
        [
            row["id"],
            ", ".join(row["tasks"]),
            "yes" if row["encoder_reuse"] else "no",
            "yes" if row["segment_reuse"] else "no",
            ", ".join(row["flowcache_modes"]) or "no",
            row["licence"],
            f"{row['download_bytes'] / 1e9:.0f} GB" if row["download_bytes"] else "ships",
        ]
        for row in (models_report() if rows is None else rows)
    ]

"""What is told of takes and models, as plain values: the JSON of the commands and of the API."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pipelines import catalogue
from studio.library import Library
from studio.render import Rendered
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
    return {
        "take": told.pop("id"),
        **told,
        "result": str(library.result(take)),
        "seconds": row.seconds,
        "baseline": row.baseline,
        "stars": row.stars,
        "note": row.note,
        "segments": segments,
    }


def models_report() -> list[dict[str, Any]]:
    """The support matrix, generated from what the models declare."""
    return [
        {
            "id": model.id,
            "name": model.name,
            "family": model.family,
            "present": model.present(),
            "licence": model.licence,
            "download_bytes": model.download_bytes,
            **{
                k: list(v) if isinstance(v, tuple) else v
                for k, v in asdict(model.capabilities).items()
            },
        }
        for model in catalogue.models()
    ]


def support_matrix() -> list[list[str]]:
    """The same as rows of a table, its head first; the README shows it and a test compares."""
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
        for row in models_report()
    ]

"""Puts a run of the FlowCache benchmark into the README.

    python app.py bench flowcache --json > flowcache.json
    python app.py bench flowcache --growth --json > growth.json
    python assets/readme/flowcache.py flowcache.json --growth growth.json

Keeps the run as flowcache.json beside this file, draws flowcache.png of it, and writes its table
between the markers of the README.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
README = ROOT / "README.md"
FIGURES, PLOT = HERE / "flowcache.json", HERE / "flowcache.png"
START, END = "<!-- flowcache -->", "<!-- /flowcache -->"
WIDTH = 100
RIVALS = ("fewer steps", "teacache")
SPEED = 3.0
"""Times fewer FLOPs at which the modes are told beside each other."""
HEAD = (
    *("setting", "fewer FLOPs", "CPU time", "PSNR, dB", "SSIM", "judge", "KV, kB"),
    *("dB over fewer steps", "dB over teacache"),
)


def section(told: dict[str, Any]) -> str:
    """What stands between the markers, from the benchmark's own JSON."""
    rows = [HEAD, ("---",) * len(HEAD), *map(_cells, told["rows"])]
    words = (
        f"`python app.py bench flowcache` on the {told['model']}: {told['prompts']} clips of "
        f"{told['chunks']} chunks, {told['steps']} steps, each chunk {told['recipe']['ar_step']} "
        "steps behind the one before. FLOPs and CPU time are against plain; PSNR and SSIM against "
        "exact; the judge's score is the share of what the prompt asks for that is in the picture. "
        "In turn is one chunk after another, so that there are finished ones to compress."
    )
    plot = f"![Quality against speed-up, a line for each mode]({PLOT.relative_to(ROOT)})"
    table = ["| " + " | ".join(cells) + " |" for cells in rows]
    found = textwrap.wrap(finding(told["rows"]), WIDTH)
    lines = [*textwrap.wrap(words, WIDTH), "", plot, "", *found, "", *table]
    if "growth" in told:
        lines += ["", *_growth(told["growth"])]
    return "\n".join(lines)


def _growth(told: dict[str, Any]) -> list[str]:
    """How work and memory grow with the number of chunks."""
    words = (
        f"`python app.py bench flowcache --growth` on random weights ({told['shape']}, "
        f"{told['layers']} layers, {told['tokens_of_a_chunk']} tokens a chunk, {told['steps']} "
        f"steps, one chunk after another; compressed to {told['kv_budget']} chunks):"
    )
    head = (
        *("chunks", "plain, GFLOPs", "exact, GFLOPs", "compressed, GFLOPs"),
        *("exact KV, MB", "compressed KV, MB"),
    )
    rows = [
        (
            str(row["chunks"]),
            *(f"{row[name] / 1e9:.0f}" for name in ("plain_flops", "flops", "flops_compressed")),
            *(f"{row[name] / 1e6:.1f}" for name in ("kv_bytes", "kv_bytes_compressed")),
        )
        for row in told["rows"]
    ]
    table = ["| " + " | ".join(cells) + " |" for cells in (head, ("---",) * len(head), *rows)]
    return [*textwrap.wrap(words, WIDTH), "", *table]


def finding(rows: list[dict[str, Any]]) -> str:
    """What the plot shows, in words: the lines at one speed, and how far `flow` is ahead."""
    at_speed = f"At {SPEED:g} times fewer FLOPs: {_beside(rows, 'speedup', SPEED)}."
    in_time = f"In half the CPU time: {_beside(rows, 'cpu_ratio', 0.5)}."
    return f"On the lines of the plot. {at_speed} {_ahead(rows)} {in_time}"


def _ahead(rows: list[dict[str, Any]]) -> str:
    measured = [row for row in rows if row["kind"] == "flow"]
    behind = [row for row in measured if any(dB < 0 for dB in row["over"].values())]
    if not behind:
        return "Flow is ahead of teacache and of fewer steps wherever they can be compared."
    first = min(behind, key=lambda row: row["speedup"])
    last = max(row["speedup"] for row in measured if row["speedup"] < first["speedup"])
    worst = min(RIVALS, key=lambda rival: first["over"].get(rival, 0.0))
    return (
        f"Flow is ahead of fewer steps and teacache up to {last:.2f} times; at "
        f"{first['speedup']:.2f} times {worst} is ahead of it by {-first['over'][worst]:.1f} dB."
    )


def _beside(rows: list[dict[str, Any]], measure: str, at: float) -> str:
    """PSNR of each mode where `measure` is `at`, on the line through its rows."""
    from studio.bench_flowcache import at_speed

    told = []
    for kind in ("flow", *RIVALS, "as published"):
        line = sorted((row[measure], row["psnr"]) for row in rows if row["kind"] == kind)
        if (dB := at_speed(line, at)) is not None:
            told.append(f"{kind} {dB:.1f} dB")
    return ", ".join(told)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    over = [row["over"].get(rival) for rival in RIVALS]
    return (
        row["what"],
        f"{row['speedup']:.2f}×",
        f"{row['cpu_ratio']:.2f}",
        f"{row['psnr']:.2f}",
        f"{row['ssim']:.4f}",
        "" if row["judge"] is None else f"{row['judge']:.2f}",
        f"{row['kv_bytes'] / 1e3:.0f}" if row["kv_bytes"] else "",
        *("" if dB is None else f"{dB:+.2f}" for dB in over),
    )


def shown(readme: str) -> str:
    """What stands between the markers now."""
    return readme.partition(START)[2].partition(END)[0].strip("\n")


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from studio import bench_plot

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, help="what `bench flowcache --json` printed")
    parser.add_argument("--growth", type=Path, help="what `bench flowcache --growth --json` did")
    given = parser.parse_args()
    told = json.loads(given.run.read_text())
    if given.growth:
        told["growth"] = json.loads(given.growth.read_text())
    FIGURES.write_text(json.dumps(told, indent=1) + "\n")
    bench_plot.draw(told, PLOT)
    readme = README.read_text()
    before, _, rest = readme.partition(START)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{START}\n{section(told)}\n{END}{after}")


if __name__ == "__main__":
    main()

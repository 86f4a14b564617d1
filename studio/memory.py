"""How much memory is in use, in bytes, on the machine and on its GPU if one is in use."""

from __future__ import annotations

import os
import resource
import sys


def reading() -> dict[str, int | None]:
    """`used` by this process, `total` of the machine; `gpu_used` and `gpu_total` are None while no
    model has used a GPU. Never loads torch."""
    told: dict[str, int | None] = {"used": _resident(), "total": _total()}
    told |= {"gpu_used": None, "gpu_total": None}
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        free, total = cuda.mem_get_info()
        told |= {"gpu_used": total - free, "gpu_total": total}
    return told


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        # Where there is no /proc, the most that was ever used; kibibytes, on macOS bytes.
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def _total() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None

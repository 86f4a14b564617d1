"""What the routes work with: one library, one engine, one worker."""

from __future__ import annotations

from dataclasses import dataclass

from studio.engine import Engine
from studio.library import Library
from studio.worker import Worker


@dataclass
class Studio:
    """One running studio. The worker is there from start to end of the server."""

    library: Library
    engine: Engine
    worker: Worker | None = None

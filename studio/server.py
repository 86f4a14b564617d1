"""The server: our own routes and the Gradio page on one FastAPI app, on this machine only."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from pipelines.errors import BadInput

SHUTDOWN_SECONDS = 1


def serve(host: str, port: int, library_folder: Path | None) -> int:
    """Serves the studio until SIGINT or SIGTERM. Raises BadInput for a port that is taken."""
    if not 1 <= port <= 65535:
        raise BadInput("port", port, "Choose a number from 1 to 65535.")
    _refuse_taken(host, port)
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

    import uvicorn

    from studio.api import create_app
    from studio.library import Library

    with Library(library_folder) as library:
        app = create_app(library, host)
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_level="warning",
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        server = uvicorn.Server(config)
        shown = f"[{host}]" if ":" in host else host
        print(f"Retake is at http://{shown}:{port}  (library: {library.folder})", file=sys.stderr)
        with suppress(KeyboardInterrupt):
            server.run()
    return 0


def _refuse_taken(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.getaddrinfo(host, port)
    except OSError:
        raise BadInput("host", host, "Give an address of this machine, like 127.0.0.1.") from None
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        fix = f"{error.strerror}; choose another with --port."
        raise BadInput("port", port, fix) from None

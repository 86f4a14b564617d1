"""The routes of the studio: what the page asks for, as JSON and as files.

One file an area, each with `routes(studio)`. They check what comes in and call the functions that
the commands call; nothing is decided here.
"""

from studio.api.app import create_app

__all__ = ["create_app"]

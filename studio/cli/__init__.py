"""The commands. They parse words, call `studio.actions`, and say how it went; no more.

Exit codes: 0 done, 2 bad input, 3 not compatible, 130 cancelled, 1 anything else.
"""

from studio.cli.main import main

__all__ = ["main"]

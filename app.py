"""Retake. `python app.py` opens the studio; `python app.py --help` lists the commands."""

from __future__ import annotations

import sys

from studio.cli import main

if __name__ == "__main__":
    sys.exit(main())

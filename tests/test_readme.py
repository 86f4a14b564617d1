"""What the README says is what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from studio.cli.parser import build
from studio.report import support_matrix

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_support_matrix_is_the_one_the_models_declare():
    shown = README.partition("<!-- models -->")[2].partition("<!-- /models -->")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in shown.split("\n")]
    rows = [row for row in rows if len(row) > 1 and not set("".join(row)) <= {"-"}]
    assert rows == support_matrix()


def test_every_command_that_is_shown_can_be_parsed():
    lines = re.findall(r"^python app\.py (.+)$", README, re.MULTILINE)
    assert len(lines) >= 8
    import shlex

    for line in lines:
        build().parse_args(shlex.split(line))


def test_ci_runs_the_command_that_the_readme_gives():
    command = next(line for line in README.split("\n") if "requirements-dev.txt &&" in line)
    assert command in (ROOT / ".ci" / "run").read_text()


def test_every_file_that_is_named_is_there():
    for name in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / name).exists(), name

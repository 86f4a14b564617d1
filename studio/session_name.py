"""How sessions are called: by the person, after the prompt, or after another session."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

from pipelines.errors import BadInput
from studio.library import Library

MAX_SESSION = 80


def session_name(name: str | None, prompt: str) -> str:
    """The session that was named; else one called after the first words of the prompt.

    Raises BadInput.
    """
    if name is None:
        words = re.findall(r"\w+", unicodedata.normalize("NFKC", prompt).lower())
        return "-".join(words[:6])[:MAX_SESSION] or "untitled"
    tidy = " ".join(unicodedata.normalize("NFC", name).split())
    if not tidy or len(tidy) > MAX_SESSION or not tidy.isprintable():
        fix = f"Use 1 to {MAX_SESSION} printable characters."
        raise BadInput("session", name, fix)
    return tidy


def free_session(library: Library, prompt: str) -> str:
    """A name after the prompt that no session has, nor any order in the queue."""
    name, taken = session_name(None, prompt), taken_names(library)
    return name if name not in taken else next_name(name, taken)


def next_name(name: str, taken: Container[str]) -> str:
    """`name 2` after `name`, `name 3` after `name 2`: the first that is not taken."""
    counted = re.fullmatch(r"(.+) (\d{1,6})", name)
    base, number = (counted[1], int(counted[2])) if counted else (name, 1)
    while True:
        number += 1
        ending = f" {number}"
        found = base[: MAX_SESSION - len(ending)].rstrip() + ending
        if found not in taken:
            return found


def taken_names(library: Library) -> set[str]:
    """The sessions there are, and those that the queue will make."""
    there = {name for name, _ in library.history.sessions()}
    return there | {job.order.session for job in library.jobs.queue()}

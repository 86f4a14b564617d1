"""Downloads of models: started, followed and stopped here, done by processes of their own.

No tab owns them: they go on while the page is reloaded or closed, and end with the studio.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from pipelines import catalogue
from pipelines.catalogue import HUB_ID
from pipelines.errors import BadInput
from reuse import ReuseError

ROOT = Path(__file__).resolve().parent.parent
LOOK_SECONDS = 60
STOP_SECONDS = 2


class State(StrEnum):
    """How a download stands."""

    ASKING = "asking"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN = (State.ASKING, State.RUNNING)


@dataclass(frozen=True)
class Download:
    """One download as the page shows it."""

    id: str
    """The id under which the model is listed."""
    repo: str
    """What is asked for: a hub id, or the id of a model that comes out of several repositories."""
    bytes: int = 0
    """On disk, what earlier tries brought included."""
    total: int = 0
    """0 until the hub has answered."""
    state: State = State.ASKING
    told: str = "Asking the hub"


@dataclass(frozen=True)
class Offer:
    """What a download would come to."""

    id: str
    """What to ask for."""
    repo: str
    """The repositories that something is still to come from."""
    files: int
    bytes: int
    """Of them on disk already."""
    total: int
    free: int
    """Bytes of room where models are kept."""
    licence: str


class Downloads:
    """All downloads of one studio. Any number of threads may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Download] = {}
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def all(self) -> list[Download]:
        """Those that run, and those that ended since the studio started."""
        with self._lock:
            return list(self._known.values())

    def look(self, repo: str) -> Offer:
        """Asks the hub what a download would come to. Raises BadInput, whose field is `id`, if the
        hub has no such model, it cannot be run here, or there is no network."""
        id = repo if _is_of_several(repo) else checked(repo)
        with _started(id, "--look") as process:
            patience = threading.Timer(LOOK_SECONDS, process.kill)
            patience.start()
            told = next(filter(None, map(_read, process.stdout)), {})
            patience.cancel()
        if told.pop("state", None) != "found":
            raise BadInput("id", id, told.get("told") or "The hub did not answer; try again.")
        return Offer(id, **told)

    def start(
        self, id: str, repo: str, found: Callable[[str], None] = lambda licence: None
    ) -> None:
        """Starts a download, or goes on with one that was stopped. `found` is told the licence when
        the hub has answered. Raises BadInput while the same one runs."""
        with self._lock:
            known = self._known.get(id)
            if known and known.state in OPEN:
                raise BadInput("id", id, "It is being downloaded already.")
            process = _started(repo if _is_of_several(repo) else checked(repo))
            self._known[id] = Download(id, repo)
            self._processes[id] = process
        follower = threading.Thread(target=self._follow, args=(id, process, found), daemon=True)
        follower.start()

    def cancel(self, id: str) -> None:
        """Stops a download at once; what has come so far stays. Raises BadInput if none runs."""
        with self._lock:
            known, process = self._known.get(id), self._processes.get(id)
            if known is None or process is None or known.state not in OPEN:
                raise BadInput("id", id, "It is not being downloaded.")
            told = "Stopped. The next try goes on from here."
            self._change(id, state=State.CANCELLED, told=told)
        _stop(process)

    def forget(self, id: str) -> None:
        """Takes a download off the list; one that runs is stopped."""
        with self._lock:
            self._known.pop(id, None)
            process = self._processes.pop(id, None)
        if process is not None:
            _stop(process)

    def stop(self) -> None:
        """Stops all of them."""
        with self._lock:
            processes = list(self._processes.values())
        for process in processes:
            _stop(process)

    def _follow(
        self, id: str, process: subprocess.Popen[str], found: Callable[[str], None]
    ) -> None:
        told: dict[str, Any] = {}
        try:
            for told in filter(None, map(_read, process.stdout)):
                if told.get("state") == "found" and self._processes.get(id) is process:
                    found(told["licence"])
                with self._lock:
                    if self._processes.get(id) is process and self._known[id].state in OPEN:
                        self._take_in(id, told)
        except (OSError, ReuseError) as error:
            # The list of models cannot be written.
            told = {"told": f"The download was stopped: {error}"}
            _stop(process)
        process.wait()
        with suppress(OSError):
            process.stdin.close()
        process.stdout.close()
        with self._lock:
            if self._processes.get(id) is not process:
                return
            del self._processes[id]
            if self._known[id].state in OPEN:
                said = told.get("told") or "The download was ended from outside."
                self._change(id, state=State.FAILED, told=said)

    def _take_in(self, id: str, told: dict[str, Any]) -> None:
        sizes = {name: told[name] for name in ("bytes", "total") if name in told}
        if told.get("state") == State.DONE:
            self._change(id, state=State.DONE, told="It is here.", **sizes)
        elif sizes:
            self._change(id, state=State.RUNNING, told="Downloading", **sizes)

    def _change(self, id: str, **values: Any) -> None:
        self._known[id] = replace(self._known[id], **values)


def _is_of_several(id: str) -> bool:
    """Whether it is the id of a model that comes out of several repositories."""
    return any(model.id == id for model in catalogue.models() if model.parts)


def checked(repo: str) -> str:
    """A hub id, as it can be handed on. Raises BadInput, whose field is `id`."""
    found = re.sub(r"^https?://(www\.)?(huggingface\.co|hf\.co)/", "", repo.strip()).rstrip("/")
    if not HUB_ID.fullmatch(found) or len(found) > 96 or ".." in found or "--" in found:
        raise BadInput("id", repo, "Write it as org/name, as the hub does.")
    return found


def _started(repo: str, *words: str) -> subprocess.Popen[str]:
    # Its standard input stays open for as long as the studio lives, and no longer: so it knows.
    return subprocess.Popen(
        [sys.executable, "-m", "studio.fetch", repo, *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # Ctrl-C in a terminal goes to all of its processes; when to stop is ours to say.
        start_new_session=True,
    )


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _read(line: str) -> dict[str, Any] | None:
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None

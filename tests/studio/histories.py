"""Takes for tests of the index, made without a model; and ten thousand of them at once."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from studio import words
from studio.database import Database
from studio.history import History
from studio.library import Library
from studio.recipe import Recipe
from studio.take import SegmentRef, Take

WORDS = """boat sea red blue hills balloon sunset harbour lantern forest snow river mountain bird
night street rain window garden tower bridge train desert storm island horse market castle field"""


@contextmanager
def opened(folder: Path) -> Iterator[History]:
    database = Database(folder / "history.sqlite")
    try:
        yield History(database)
    finally:
        database.close()


def make_take(
    number: int,
    session: str = "sea",
    parent: str | None = None,
    prompt: str | None = None,
    later: str | None = None,
) -> Take:
    """A take of two segments, made `number` seconds into a year; `later` is the prompt of its
    second segment."""
    recipe = Recipe.make("starter", prompt=prompt or f"prompt {number}", segments=2)
    second = {"first": 1, "recipe": recipe.model_copy(update={"prompt": later})}
    return Take(
        id=f"{number:040x}"[::-1],
        session=session,
        parent=parent,
        keep=0,
        created=f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000000+00:00",
        recipe=recipe,
        later=(second,) if later else (),
        encoder_keys={"prompt": "e"},
        segments=(
            SegmentRef(index=0, id=f"s{number}", seed=number, frames=(0, 33)),
            SegmentRef(index=1, id=f"t{number}", seed=number, frames=(33, 57)),
        ),
        result="result.mp4",
        timings={"total": 1.5},
    )


def publish(library: Library, take: Take) -> Take:
    """Puts a take into the library as a render would, with a result that no model made."""
    with library.store.stage() as staging:
        staging.file("result.mp4").write_bytes(b"video" * 100)
        staging.publish("takes", take.id, {"take": take.model_dump(mode="json")})
    library.record(take)
    return take


def fill(database: Database, takes: int = 10_000, sessions: int = 300) -> None:
    """Rows as `record` would write them, with prompts of a dozen words, quickly."""
    rng, known = random.Random(1), WORDS.split()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows, texts, segments, marks = [], [], [], []
    for number in range(1, takes + 1):
        take = hashlib.sha256(str(number).encode()).hexdigest()[:40]
        created = (start + timedelta(minutes=number)).isoformat(timespec="microseconds")
        prompt = " ".join(rng.choices(known, k=12)) + f" take{number}"
        chapters = json.dumps([{"first": 0, "prompt": prompt}])
        model, session = rng.choice(("starter", "other/model")), f"session {number % sessions}"
        made = ("[1, 1, 1, 1]", 8.0, 60.0, 12, 256, 160, "result.mp4")
        frames = "[[0, 33], [33, 57], [57, 81], [81, 105]]"
        asked = (model, prompt, 4)
        rows.append((take, session, None, 0, created, *asked, *made, frames, chapters, number))
        note = rng.choice(known) if number % 5 == 0 else ""
        texts.append((number, words.tokens(prompt), note))
        segments += [(take, i, f"{take[:30]}{i}", 1) for i in range(4)]
        if note:
            marks.append((take, number % 6, note))
    names = [(f"session {n}", rows[0][4], rows[n][0], rows[n][4]) for n in range(sessions)]
    insert = database._connection.executemany
    with database.writing():
        insert("INSERT INTO sessions (id, created, baseline, used) VALUES (?, ?, ?, ?)", names)
        insert(f"INSERT INTO takes VALUES ({', '.join('?' * 18)})", rows)
        insert("INSERT INTO take_segments VALUES (?, ?, ?, ?)", segments)
        insert("INSERT INTO texts (rowid, prompts, note) VALUES (?, ?, ?)", texts)
        insert("INSERT INTO marks VALUES (?, ?, ?)", marks)

"""From segment k on the prompt may be another one; what the boundary carries may not."""

from __future__ import annotations

import json
import shutil

import pytest

from studio import actions, media, verify
from studio.engine import Engine
from studio.errors import BadInput, NotCompatible
from studio.events import Stage
from studio.keys import Keys
from studio.library import Library
from studio.order import Order
from studio.take import Take
from tests.studio.conftest import PROMPT, segment_state

KITE = "a blue kite over a desert at noon"
BIRD = "a white bird over green hills at night"


@pytest.fixture
def library(begun_library: Library) -> Library:
    return begun_library


@pytest.fixture
def parent(library: Library) -> Take:
    return library.take("latest")


def firsts(take: Take | Order) -> list[tuple[int, str]]:
    return [(chapter.first, chapter.recipe.prompt) for chapter in take.chapters]


def test_a_new_prompt_from_segment_k_on_keeps_what_is_before(library, parent, retake):
    rendered = retake(parent, 2, [1], prompt=KITE)
    child = rendered.take
    assert rendered.sources == ["reused", "reused", "generated"]
    assert firsts(child) == [(0, PROMPT), (2, KITE)]
    assert [child.recipe_of(i).prompt for i in range(4)] == [PROMPT, PROMPT, KITE, KITE]
    # The seed is the old one: only the prompt makes it another segment.
    assert child.segments[:2] == parent.segments[:2]
    assert segment_state(library, child, 2) != segment_state(library, parent, 2)
    assert library.read_take(child.id) == child


def test_only_the_part_that_differs_is_encoded(parent, retake):
    rendered = retake(parent, 1, [1], prompt=KITE)
    assert rendered.encoders == {
        "prompt": "reused",
        "negative_prompt": "reused",
        "prompt@1": "computed",
    }
    assert set(rendered.take.encoder_keys) == set(rendered.encoders)
    back = retake(rendered.take, 2, [5], prompt=PROMPT)
    assert set(back.encoders.values()) == {"reused"}
    assert set(back.take.encoder_keys) == {"prompt", "negative_prompt", "prompt@1"}


def test_sampling_may_change_too_and_loads_no_encoder(library, parent):
    engine = Engine()
    changes = {"steps": 2, "guidance_scale": 1.0, "shift": 2.0, "condition_noise": 10}
    rendered = actions.retake(library, engine, parent.id, 2, [1], changes)
    assert rendered.sources == ["reused", "reused", "generated"]
    assert rendered.forwards["computed"] == 2
    assert "text_encoder" not in engine.pipeline("starter").loaded
    assert len(rendered.take.chapters) == 2


def test_a_take_of_two_recipes_comes_out_again_the_same(library, engine, parent, retake):
    take = retake(parent, 1, [1], prompt=KITE, steps=2).take
    shutil.rmtree(library.store.folder("inputs", take.encoder_keys["prompt@1"]))
    found = verify.recompute(library, engine, take)
    assert [part.index for part in found] == [0, 1, 2]
    assert not any(part.differs for part in found)
    missing = list(verify.missing(library))
    assert [fault.key for fault in missing] == [take.encoder_keys["prompt@1"]]


def test_the_old_prompt_with_the_old_seeds_gives_the_parent_back(parent, retake):
    child = retake(parent, 1, [1], prompt=KITE).take
    again = retake(child, 1, [1], prompt=PROMPT)
    assert again.take == parent and again.sources == ["reused"] * 3


def test_without_changes_the_recipe_changes_where_it_did(library, engine, parent, retake):
    child = retake(parent, 1, [1], prompt=KITE).take
    for keep in (0, 1, 2):
        order = actions.order_retake(library, engine, child.id, keep, [7])
        assert firsts(order) == [(0, PROMPT), (1, KITE)]
    fresh = Engine()
    rendered = actions.retake(library, fresh, child.id, 0, [7])
    assert rendered.sources == ["generated"] * 3
    assert "text_encoder" not in fresh.pipeline("starter").loaded


def test_a_change_counts_to_the_end_and_equal_neighbours_are_one(library, engine, parent, retake):
    child = retake(parent, 2, [1], prompt=KITE).take

    def order(keep, **changes):
        return firsts(actions.order_retake(library, engine, child.id, keep, [7], changes))

    assert order(1, prompt=BIRD) == [(0, PROMPT), (1, BIRD)]
    assert order(2, prompt=BIRD) == [(0, PROMPT), (2, BIRD)]
    assert order(2, prompt=PROMPT) == [(0, PROMPT)]
    assert order(1, prompt=PROMPT) == [(0, PROMPT)]
    assert order(0, prompt=BIRD) == [(0, BIRD)]


def test_a_longer_take_goes_on_with_the_last_recipe_or_another(library, engine, parent, retake):
    child = retake(parent, 2, [1], prompt=KITE).take

    def order(keep, **changes):
        made = actions.order_retake(library, engine, child.id, keep, [7], changes)
        assert {chapter.recipe.segments for chapter in made.chapters} == {len(made.seeds)}
        return firsts(made)

    assert order(3, segments=5) == [(0, PROMPT), (2, KITE)]
    assert order(3, segments=5, prompt=BIRD) == [(0, PROMPT), (2, KITE), (3, BIRD)]
    assert order(1, segments=2) == [(0, PROMPT)]
    assert order(0, segments=4) == [(0, PROMPT), (2, KITE)]


@pytest.mark.parametrize(
    ("field", "value"),
    [("width", 112), ("height", 48), ("fps", 24), ("frames", 41), ("overlap", 17)],
)
def test_what_the_boundary_carries_is_refused_by_name(library, parent, field, value):
    engine = Engine()
    with pytest.raises(NotCompatible) as refusal:
        changes = {field: value, "prompt": KITE}
        actions.order_retake(library, engine, parent.id, 1, [2], changes)
    [difference] = refusal.value.differences
    assert (difference.name, difference.kept, difference.asked) == (
        field,
        getattr(parent.recipe, field),
        value,
    )
    assert engine.pipeline("starter").loaded == frozenset()


def test_another_model_is_refused_by_name(library, engine, parent, tiny):
    with pytest.raises(NotCompatible) as refusal:
        actions.order_retake(library, engine, parent.id, 1, [2], {"model": str(tiny)})
    named = {difference.name: difference for difference in refusal.value.differences}
    assert named["model"].kept == "starter" and named["model"].asked == str(tiny)


def test_an_order_that_was_made_by_hand_is_refused_all_the_same(library, engine, parent):
    order = actions.order_retake(library, engine, parent.id, 1, [2], {"prompt": KITE})
    [later] = order.later
    wrong = later.model_copy(update={"recipe": later.recipe.model_copy(update={"fps": 24})})
    with pytest.raises(NotCompatible, match="fps: kept 12, asked 24"):
        actions.fulfil(library, engine, order.model_copy(update={"later": (wrong,)}))
    told = json.loads(order.model_dump_json())
    for first in (0, 3, 9):
        told["later"][0]["first"] = first
        with pytest.raises(ValueError, match="no chapters of 3 segments"):
            Order.model_validate(told)


def test_causal_blocks_may_change_where_the_overlap_fills_them(library, engine, tiny):
    """The boundary is clean latents, whatever the order in which they were denoised."""
    size = {"width": 32, "height": 32, "frames": 13, "overlap": 5, "segments": 2, "steps": 2}
    one = actions.generate(library, engine, str(tiny), {"prompt": PROMPT, **size}, [1]).take
    changes = {"causal_block": 2, "ar_step": 1}
    both = actions.retake(library, engine, one.id, 1, [1], changes)
    assert both.sources == ["reused", "generated"]
    assert not any(part.differs for part in verify.recompute(library, engine, both.take))
    with pytest.raises(BadInput, match="overlap"):
        actions.order_retake(library, engine, one.id, 1, [1], {"causal_block": 4})


def test_encoders_are_loaded_once_and_only_for_what_has_to_be_made(library, engine, parent, retake):
    child = retake(parent, 1, [1], prompt=KITE).take
    for key in set(child.encoder_keys.values()):
        shutil.rmtree(library.store.folder("inputs", key))
    stages = []

    def watch(event):
        stages.append(event.stage)

    actions.retake(library, engine, child.id, 1, [5], on_event=watch)
    assert stages.count(Stage.ENCODE) == 1
    # The first prompt belongs to what is kept: nobody needs it.
    here = set(library.store.keys("inputs"))
    assert child.encoder_keys["prompt"] not in here and child.encoder_keys["prompt@1"] in here
    shutil.rmtree(library.store.folder("inputs", child.encoder_keys["prompt@1"]))
    stages.clear()
    again = actions.retake(library, engine, child.id, 0, [5], on_event=watch)
    assert stages.count(Stage.ENCODE) == 1
    assert again.encoders["prompt"] == again.encoders["prompt@1"] == "computed"


def test_a_result_file_tells_its_chapters(library, parent, retake):
    child = retake(parent, 2, [4], prompt=KITE).take
    told = media.read_metadata(library.result(child))
    assert [(c["first"], c["recipe"]["prompt"]) for c in told["chapters"]] == firsts(child)
    assert told["recipe"] == told["chapters"][0]["recipe"]
    assert media.read_metadata(library.result(parent))["chapters"] == [
        {"first": 0, "recipe": parent.recipe.model_dump(mode="json")}
    ]


def test_watchers_are_told_which_segments_are_there_the_kept_ones_first(library, engine, parent):
    seen = []

    def watch(event):
        seen.append((event.stage, event.id))

    child = actions.retake(library, engine, parent.id, 2, [4], {"prompt": KITE}, watch).take
    told = [(stage, id) for stage, id in seen if id is not None]
    stages = [Stage.REUSED, Stage.REUSED, Stage.GENERATED]
    assert told == list(zip(stages, [part.id for part in child.segments], strict=True))
    assert seen[:2] == told[:2]


def test_manifests_and_orders_of_before_are_read(library, engine, parent):
    told = parent.model_dump(mode="json")
    assert told.pop("later") == []
    assert Take.model_validate(told).chapters == parent.chapters
    order = actions.order_retake(library, engine, parent.id, 1, [2])
    told = json.loads(order.model_dump_json())
    assert told.pop("later") == []
    assert Order.model_validate_json(json.dumps(told)) == order


def test_a_take_of_one_recipe_goes_by_the_ids_it_always_had(library, engine, parent):
    from reuse import digest, resolve, segment_id

    pipeline, recipe = engine.pipeline("starter"), parent.recipe
    encoder = resolve(pipeline.encoder_inputs(recipe), library.hashes)
    own = resolve(pipeline.segment_inputs(recipe), library.hashes)
    fields = {"encoder": encoder, "coding": media.CODING, **own}
    ids: list[str] = []
    for i in range(3):
        ids.append(segment_id(fields, i, 1, ids[-1] if ids else None))
    take = {"session": parent.session, "segments": ids, "audio": None, "fps": recipe.fps}
    assert [part.id for part in parent.segments] == ids
    assert parent.id == digest("take", take)
    assert parent.encoder_keys == {part: digest("inputs", own) for part, own in encoder.items()}
    keys = Keys.of(pipeline, parent.chapters, parent.seeds, parent.session, library.hashes)
    assert keys.segments == tuple(ids)

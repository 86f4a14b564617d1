"""The headless commands: what they print, and how they end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from studio import media
from studio.cli import main
from studio.cli.commands import _given
from studio.cli.parser import build
from studio.models import Models
from tests.studio.conftest import PROMPT, ROOT, STEPS, answer, environment


def run(capsys, library, *words: object) -> tuple[int, dict | list, str]:
    """Exit code, JSON and stderr of a command in this process."""
    code = main([*map(str, words), "--library", str(library.folder), "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out), captured.err


def test_help_imports_nothing_heavy():
    script = (
        "import sys\nfrom studio.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'diffusers', 'transformers', 'gradio', 'numpy', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.strip() == "[]"
    assert "generate" in done.stdout and "retake" in done.stdout


def test_generate_then_retake_tell_all_that_the_contract_names(library, app):
    words = ["--model", "starter", "--prompt", PROMPT, "--segments", 2, "--steps", STEPS]
    told = answer(app("generate", *words, "--seeds", "3,4"))
    assert told["parent"] is None and told["model"] == "starter" and told["seeds"] == [3, 4]
    assert [part["frames"] for part in told["segments"]] == [[0, 33], [33, 57]]
    assert {"index", "id", "seed", "source", "frames", "seconds"} == set(told["segments"][0])
    assert told["encoder"]["source"] == "computed"
    stages = {"load", "encode", "denoise", "decode", "write", "join", "total"}
    assert set(told["timings"]) == stages
    assert told["forwards"] == {"computed": 2 * 2 * STEPS, "skipped": 0}
    assert media.probe(told["result"]).frames == 57
    assert media.read_metadata(told["result"])["seeds"] == [3, 4]

    again = answer(app("retake", "latest", "--keep", 1, "--seed", 9))
    assert again["parent"] == told["take"] and again["session"] == told["session"]
    assert again["seeds"] == [3, 9]


def test_words_go_to_stdout_and_progress_to_stderr(app):
    done = app("generate", "--prompt", PROMPT, "--segments", 1, "--steps", 2, json_out=False)
    assert done.returncode == 0
    assert done.stdout.startswith("take ") and "result.mp4" in done.stdout
    assert "segment 1/1 new" in done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["generate", "--prompt", ""], "prompt"),
        (["generate", "--prompt", "x", "--segments", "0"], "segments"),
        (["generate", "--prompt", "x", "--segments", "two"], "segments"),
        (["generate", "--prompt", "x", "--steps", "-1"], "steps"),
        (["generate", "--prompt", "x", "--seed", "-5"], "seed"),
        (["generate", "--prompt", "x", "--seeds", "1,2,3", "--segments", "2"], "seeds"),
        (["generate", "--prompt", "x", "--width", "97"], "width"),
        (["generate", "--prompt", "x", "--frames", "32"], "frames"),
        (["generate", "--prompt", "x", "--overlap", "33"], "overlap"),
        (["generate", "--prompt", "x", "--model", "startr"], "model"),
        (["generate", "--prompt", "x", "--image", "/no/such.png"], "image"),
        (["generate", "--prompt", "x", "--audio", "/no/such.wav"], "audio"),
        (["generate", "--prompt", "x", "--session", "a\nb\x00"], "session"),
        (["retake", "abc", "--keep", "1"], "take"),
        (["retake", "latest", "--keep", "0"], "take"),
        (["show", "nothing"], "take"),
        (["accept", ""], "take"),
        (["generate"], "--prompt"),
        (["nonsense"], "nonsense"),
    ],
)
def test_bad_input_ends_with_2_and_names_the_field(library, capsys, words, named):
    code = main([*words, "--library", str(library.folder)])
    captured = capsys.readouterr()
    assert code == 2
    assert named in captured.err and captured.err.count("\n") == 1
    assert "Traceback" not in captured.err and captured.out == ""


def test_a_refused_reuse_ends_with_3_and_names_each_field(library, generate, capsys):
    take = generate([1]).take
    code, told, said = run(
        capsys, library, "retake", take.id, "--keep", 1, "--prompt", "a kite", "--fps", 24
    )
    assert code == 3
    assert told["differences"] == [{"field": "fps", "kept": 12, "asked": 24}]
    assert "fps: kept 12, asked 24" in said


def test_retake_with_another_prompt_tells_where_the_recipe_changes(library, generate, capsys):
    take = generate([1], segments=2, steps=1).take
    words = ["--keep", 1, "--seed", 2, "--prompt", "a blue kite at noon", "--steps", 2]
    code, told, _ = run(capsys, library, "retake", take.id, *words)
    assert code == 0
    _, shown, _ = run(capsys, library, "show", told["take"])
    assert [chapter["first"] for chapter in shown["chapters"]] == [0, 1]
    assert shown["chapters"][0]["recipe"] == shown["recipe"]
    assert shown["chapters"][1]["recipe"]["prompt"] == "a blue kite at noon"
    main(["show", told["take"], "--library", str(library.folder)])
    lines = capsys.readouterr().out.split("\n")
    assert [line.split(None, 3)[2:] for line in lines if line.startswith("from segment")] == [
        ["2", "prompt a blue kite at noon"],
        ["2", "steps 2"],
    ]


def test_json_may_be_asked_for_before_or_after_the_command(library, capsys):
    where = ["--library", str(library.folder)]
    for words in (["--json", "takes", *where], [*where, "takes", "--json"]):
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out) == []
    assert main(["--json", "show", "nothing", *where]) == 2
    assert json.loads(capsys.readouterr().out)["field"] == "take"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    "words",
    [
        ["takes"],
        ["show", "latest"],
        ["accept", "latest"],
        ["retake", "latest", "--keep", "1"],
        ["export", "latest", "--to", "x.mp4"],
        ["verify"],
    ],
)
def test_a_folder_without_a_library_is_refused_and_not_made_one(tmp_path, capsys, words, there):
    folder = tmp_path / "elsewhere"
    if there:
        folder.mkdir()
    assert main([*words, "--library", str(folder), "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["field"] == "library" and "There is no library here" in told["fix"]
    assert list(folder.iterdir()) == [] if there else not folder.exists()


def test_a_number_that_is_none_is_named_with_its_field(library, capsys):
    for word, value in (("--segments", "two"), ("--seeds", "1,x"), ("--guidance-scale", "hot")):
        code, told, _ = run(capsys, library, "generate", "--prompt", "x", word, value)
        assert code == 2
        assert told["field"] == word.strip("-").replace("-", "_") and told["value"] == value


def test_a_model_in_a_folder_is_known_by_its_full_path(library, tiny, capsys, monkeypatch):
    monkeypatch.chdir(tiny.parent)
    size = ["--width", 32, "--height", 32, "--frames", 9, "--overlap", 5, "--steps", 1]
    code, told, _ = run(
        capsys, library, "generate", "--prompt", "x", "--model", f"./{tiny.name}", *size
    )
    assert code == 0 and told["model"] == str(tiny.resolve())


def test_a_prompt_that_is_no_unicode_is_refused_and_not_a_traceback(library):
    command = [sys.executable, "app.py", "generate", "--prompt", b"caf\xe9", "--json"]
    command += ["--library", str(library.folder)]
    strict = {**environment(), "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, env=strict)
    assert done.returncode == 2, done.stderr
    assert b"Traceback" not in done.stderr and json.loads(done.stdout)["field"] == "prompt"


def test_takes_show_accept_and_baseline(library, generate, retake, capsys):
    parent = generate([1]).take
    child = retake(parent, 2, [2]).take
    _, rows, _ = run(capsys, library, "takes")
    assert [row["id"] for row in rows] == [child.id, parent.id]
    assert [row["baseline"] for row in rows] == [False, True]
    code, told, _ = run(capsys, library, "accept", child.id[:12])
    assert code == 0 and told["before"] == parent.id
    _, shown, _ = run(capsys, library, "show", "latest")
    assert shown["take"] == child.id and shown["baseline"] is True and shown["keep"] == 2
    assert shown["recipe"]["prompt"] == PROMPT
    assert [part["seed"] for part in shown["segments"]] == [1, 1, 2]


def test_export_writes_a_file_and_refuses_to_overwrite(library, generate, retake, capsys, tmp_path):
    parent = generate([1], segments=1).take
    child = retake(parent, 0, [2]).take
    one, both = tmp_path / "one take.mp4", tmp_path / "two.mp4"
    assert run(capsys, library, "export", parent.id, "--to", one)[0] == 0
    assert one.read_bytes() == library.result(parent).read_bytes()
    assert run(capsys, library, "export", parent.id, child.id, "--to", both, "--scale", 2)[0] == 0
    assert media.probe(both).width >= 2 * 2 * 96
    code, told, _ = run(capsys, library, "export", parent.id, "--to", one)
    assert code == 2 and told["field"] == "to"
    for name in ("x.txt", "x.png", "no/such/folder.mp4"):
        code, told, _ = run(capsys, library, "export", parent.id, "--to", tmp_path / name)
        assert code == 2 and told["field"] == "to"
    code, told, _ = run(
        capsys, library, "export", parent.id, "--to", tmp_path / "big.mp4", "--scale", 500
    )
    assert code == 2 and told["field"] == "scale"


def test_verify_names_a_damaged_file_and_ends_with_1(library, generate, capsys):
    take = generate([1], segments=1).take
    assert run(capsys, library, "verify")[:2] == (0, {"faults": []})
    poster = library.store.folder("segments", take.segments[0].id) / "poster.webp"
    poster.write_bytes(b"x")
    code, told, _ = run(capsys, library, "verify")
    assert code == 1 and told["faults"][0]["file"] == "poster.webp"
    code, told, _ = run(capsys, library, "verify", "--recompute", take.id)
    assert code == 1 and told["segments"][0]["differs"] == ["file"]
    library.result(take).write_bytes(b"x")
    code, told, _ = run(capsys, library, "verify", "--recompute", take.id)
    assert code == 1 and [fault["file"] for fault in told["faults"]] == ["result.mp4"]
    shutil.rmtree(poster.parent)
    code, told, _ = run(capsys, library, "verify")
    assert code == 1 and any("missing" in fault["what"] for fault in told["faults"])


def test_verify_rebuild_makes_history_again(library, generate, retake, capsys):
    parent = generate([1]).take
    child = retake(parent, 1, [2]).take
    library.close()
    for path in library.folder.glob("history.sqlite*"):
        path.unlink()
    code, told, _ = run(capsys, library, "verify", "--rebuild")
    assert code == 0 and told["rebuilt"] == 2
    _, rows, _ = run(capsys, library, "takes")
    assert [row["id"] for row in rows] == [child.id, parent.id]
    assert rows[0]["parent"] == parent.id
    assert [row["baseline"] for row in rows] == [False, True]


def test_a_session_that_is_not_there_and_a_limit_of_none_are_bad_input(library, capsys):
    assert run(capsys, library, "takes", "--session", "nope")[1]["field"] == "session"
    assert run(capsys, library, "takes", "--limit", 0)[1]["field"] == "limit"


def test_models_are_listed_with_what_they_can_do(library, capsys):
    _, rows, _ = run(capsys, library, "models")
    starter = next(row for row in rows if row["id"] == "starter")
    assert starter["present"] and starter["encoder_reuse"] and starter["segment_reuse"]
    assert all(row["licence"] for row in rows)


def test_doctor_finds_nothing_wrong_and_cleans_what_no_take_uses(library, generate, capsys):
    take = generate([1], segments=2).take
    used = {part.id for part in take.segments}
    code, told, _ = run(capsys, library, "doctor")
    assert code == 0, told
    orphan = generate([2], segments=1).take
    shutil.rmtree(library.store.folder("takes", orphan.id))
    library.rebuild()
    code, told, _ = run(capsys, library, "doctor", "--clean", "--older-than", 0)
    assert code == 0 and told["removed"]["entries"] == 1
    assert set(library.store.keys("segments")) == used
    assert list(library.store.verify()) == []


def test_unicode_and_markup_go_through_unchanged(library, capsys):
    prompt = "бумажный 🪁 <b>${1+1}</b> 'quoted' \"double\" ; rm -rf \\ \t over the sea"
    code, told, _ = run(
        capsys, library, "generate", "--prompt", prompt, "--segments", 1, "--steps", 1
    )
    assert code == 0
    _, shown, _ = run(capsys, library, "show", told["take"])
    assert shown["recipe"]["prompt"] == prompt
    assert media.read_metadata(told["result"])["recipe"]["prompt"] == prompt


def test_models_lists_added_folders_and_makes_no_library(library, tiny, capsys, tmp_path):
    Models(library.folder).add_folder(str(tiny))
    _, rows, _ = run(capsys, library, "models")
    assert [row["id"] for row in rows if row["added"]] == [str(tiny)]
    assert main(["models", "--library", str(tmp_path / "none")]) == 0
    assert "starter" in capsys.readouterr().out and not (tmp_path / "none").exists()
    assert main(["models", "--library", str(library.folder)]) == 0
    assert str(tiny) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "option"),
    [("flowcache", ["--image", "a.png"]), ("flowcache", ["--segments", 2]), ("reuse", ["--full"])],
)
def test_an_option_of_the_other_benchmark_is_refused(library, capsys, what, option):
    assert run(capsys, library, "bench", what, *option)[0] == 2


def test_boxes_take_the_place_of_masks_and_masks_that_of_boxes():
    def given(*words: str) -> dict:
        return _given(build().parse_args(["retake", "latest", "--keep", "0", *words]))

    assert given("--faces", "0,0,1,1;1,0,2,1")["masks"] == ()
    assert given("--mask", "a.png", "--mask", "b.png")["faces"] == ""
    assert given() == {}
    both = given("--mask", "a.png", "--faces", "0,0,1,1")
    assert both["masks"] and both["faces"]

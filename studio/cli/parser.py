"""The command line: which commands there are and what words they take. Imports nothing heavy."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pipelines.errors import BadInput

DEFAULT_PORT = 7860


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are BadInput, so that they end like any other bad input."""

    def error(self, message: str) -> NoReturn:
        raise BadCommand(message, f"See `python {self.prog} --help`.")


class BadCommand(BadInput):
    """The words of a command do not make sense."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__("command", message, fix)
        self.args = (f"{message}. {fix}",)


def _seed_list(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise BadInput(
            "seeds", text, "Give whole numbers with commas between, like 7,8,9."
        ) from None


def _number(field: str, kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            return kind(text)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise BadInput(field, text, f"Give {what}.") from None

    return parse


def _lora(text: str) -> dict[str, str | float]:
    """`FILE` or `FILE:STRENGTH`, with `:high` or `:low` behind it for one of two transformers; a
    colon may be part of the name too."""
    found: dict[str, str | float] = {}
    for part in ("high", "low"):
        if text.endswith(f":{part}"):
            text, found["part"] = text.removesuffix(f":{part}"), part
    file, colon, strength = text.rpartition(":")
    with suppress(ValueError):
        if colon and file:
            return {"file": file, "strength": float(strength), **found}
    return {"file": text, **found}


def build() -> Parser:
    parser = Parser(
        prog="app.py",
        description="Retake: render a long video as a chain of segments, keep the good ones, and "
        "retake from the first bad one. Without a command it opens the studio in the browser.",
    )
    parser.add_argument("--port", type=_number("port", int), default=DEFAULT_PORT)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    _common(parser, of_command=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for add in (
        _generate,
        _retake,
        _takes,
        _show,
        _accept,
        _export,
        _verify,
        _models,
        _doctor,
        _bench,
    ):
        add(commands)
    return parser


def _common(parser: argparse.ArgumentParser, of_command: bool = True) -> None:
    where = "folder that holds everything (default: $RETAKE_LIBRARY, or your data folder)"
    # SUPPRESS lets both stand before or after the command.
    parser.add_argument(
        "--library", type=Path, metavar="DIR", default=argparse.SUPPRESS, help=where
    )
    parser.add_argument(
        "--json",
        action="store_true",
        default=argparse.SUPPRESS if of_command else False,
        help="print one JSON object",
    )


def _recipe_fields(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--negative-prompt", metavar="TEXT", help="what to avoid")
    add(
        "--image",
        type=Path,
        metavar="FILE",
        help="reference picture, for models that take one; for those that take a voice, or a video",
    )
    add("--last-image", type=Path, metavar="FILE", help="picture that the video ends with")
    add(
        "--reference",
        dest="references",
        type=Path,
        action="append",
        metavar="FILE",
        help="further picture, for models that take several; may be repeated",
    )
    add("--audio", type=Path, metavar="FILE", help="voice, for models that take one")
    add("--audio-2", type=Path, metavar="FILE", help="voice of a second person")
    add("--faces", metavar="X0,Y0,X1,Y1;..", help="where the two persons are in the picture")
    add(
        "--mask",
        dest="masks",
        type=Path,
        action="append",
        metavar="FILE",
        help="in place of --faces: a picture that is white where a person is; one for each voice",
    )
    add("--segments", type=_number("segments", int), metavar="S", help="segments in the video")
    add("--steps", type=_number("steps", int), metavar="K", help="denoising steps")
    add("--guidance-scale", type=_number("guidance_scale", float), metavar="G")
    add(
        "--guidance-scale-2",
        type=_number("guidance_scale_2", float),
        metavar="G",
        help="of the second transformer, for models with two",
    )
    add("--audio-scale", type=_number("audio_scale", float), metavar="G", help="of the voice")
    add("--color-correction", type=_number("color_correction", float), metavar="0..1")
    add("--apg", type=_number("apg", float), metavar="LIMIT", help="projected guidance; 0: off")
    add("--shift", type=_number("shift", float), metavar="X", help="shift of the noise schedule")
    add("--width", type=_number("width", int), metavar="PX")
    add("--height", type=_number("height", int), metavar="PX")
    add("--fps", type=_number("fps", int), metavar="N")
    add("--frames", type=_number("frames", int), metavar="F", help="frames of one segment")
    add("--overlap", type=_number("overlap", int), metavar="M", help="frames a segment repeats")
    add("--ar-step", type=_number("ar_step", int), metavar="N", help="steps a chunk lags behind")
    add("--causal-block", type=_number("causal_block", int), metavar="N", help="frames of a chunk")
    add("--condition-noise", type=_number("condition_noise", int), metavar="N")
    add(
        "--lora",
        dest="loras",
        type=_lora,
        action="append",
        metavar="FILE[:STRENGTH][:high|:low]",
        help="path or org/name/file.safetensors of a LoRA; may be repeated",
    )
    add("--weights", metavar="HOW", help="auto, full, fp8, int8, nf4 or gguf")
    add("--offload", metavar="HOW", help="auto, none, model, group or sequential")
    add("--tiling", metavar="HOW", help="auto, on or off: code large pictures in tiles")
    add(
        "--flowcache",
        metavar="MODE",
        help="off, exact, flow or teacache; slow and fast are flow with the paper's settings",
    )
    add("--flowcache-threshold", type=_number("flowcache_threshold", float), metavar="X")
    add("--flowcache-warmup", type=_number("flowcache_warmup", int), metavar="N")
    add("--flowcache-attention", metavar="HOW", help="auto, causal or bidirectional")
    add("--kv-budget", type=_number("kv_budget", int), metavar="CHUNKS", help="0 for all")


def _seeds(parser: argparse.ArgumentParser, of_what: str) -> None:
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--seed", type=_number("seed", int), metavar="X", help=f"one seed for {of_what}"
    )
    group.add_argument("--seeds", type=_seed_list, metavar="X,Y,..", help="one seed a segment")


def _generate(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("generate", help="make a new take")
    parser.add_argument("--model", default="starter", metavar="ID", help="see `models`")
    parser.add_argument("--prompt", required=True, metavar="TEXT")
    parser.add_argument("--session", metavar="NAME", help="default: the first words of the prompt")
    _recipe_fields(parser)
    _seeds(parser, "all segments")
    _common(parser)


def _retake(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "retake",
        help="keep the first N segments of a take, make the rest anew",
        description="Keeps the first N segments of a take and makes the rest anew. Recipe options "
        "count from the first new segment on; with N > 0 the model, the size, the rate, the frames "
        "of a segment and the picture have to stay.",
    )
    parser.add_argument("take", metavar="TAKE", help="id, beginning of one, or `latest`")
    parser.add_argument("--keep", type=_number("keep", int), required=True, metavar="N")
    parser.add_argument(
        "--prompt", metavar="TEXT", help="another prompt, from the first new segment on"
    )
    _recipe_fields(parser)
    _seeds(parser, "the new segments")
    _common(parser)


def _takes(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("takes", help="list takes, the newest first")
    parser.add_argument("--session", metavar="NAME")
    parser.add_argument("--limit", type=_number("limit", int), default=50, metavar="N")
    _common(parser)


def _show(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("show", help="all that is known of a take")
    parser.add_argument("take", metavar="TAKE")
    parser.add_argument(
        "--speedup",
        type=_number("speedup", float),
        metavar="X",
        help="which FlowCache threshold would compute X times less than the plain pipeline",
    )
    _common(parser)


def _accept(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("accept", help="make a take the baseline of its session")
    parser.add_argument("take", metavar="TAKE")
    _common(parser)


def _export(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("export", help="write a take to a file, or several side by side")
    parser.add_argument("takes", nargs="+", metavar="TAKE")
    parser.add_argument(
        "--to", type=Path, required=True, metavar="FILE", help=".mp4, .webm or .gif"
    )
    parser.add_argument(
        "--scale", type=_number("scale", int), default=1, metavar="N", help="times larger"
    )
    parser.add_argument("--overwrite", action="store_true")
    _common(parser)


def _verify(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "verify", help="check every file of the library against its checksum"
    )
    parser.add_argument("--recompute", metavar="TAKE", help="generate a take anew and compare")
    parser.add_argument("--rebuild", action="store_true", help="build history.sqlite anew")
    _common(parser)


def _models(commands: argparse._SubParsersAction) -> None:
    _common(
        commands.add_parser("models", help="models, what they can do, and whether they are here")
    )


def _doctor(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("doctor", help="what works on this machine, and what does not")
    parser.add_argument("--clean", action="store_true", help="remove what no take uses")
    parser.add_argument(
        "--older-than",
        type=_number("older_than", float),
        default=7.0,
        metavar="DAYS",
        help="with --clean: only what is older (default 7)",
    )
    _common(parser)


def _bench(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("bench", help="measure what reuse and FlowCache save")
    parser.add_argument("what", choices=["reuse", "flowcache"])
    parser.add_argument("--model", default="starter", metavar="ID")
    parser.add_argument("--steps", type=_number("steps", int), metavar="K")
    reuse = parser.add_argument_group("reuse")
    reuse.add_argument("--segments", type=_number("segments", int), metavar="S")
    sample = "for models that take one; default: the model's own sample"
    reuse.add_argument("--image", type=Path, metavar="FILE", help=f"picture, {sample}")
    reuse.add_argument("--audio", type=Path, metavar="FILE", help=f"voice, {sample}")
    flowcache = parser.add_argument_group("flowcache")
    flowcache.add_argument(
        "--prompts", type=_number("prompts", int), default=12, metavar="N", help="clips to measure"
    )
    flowcache.add_argument("--plot", type=Path, metavar="FILE", help="draw the table as a PNG")
    flowcache.add_argument(
        "--growth",
        action="store_true",
        help="work and memory at 4 to 64 chunks instead, on a model of SkyReels-V2-1.3B's shape "
        "with random weights and a sixth of its width",
    )
    flowcache.add_argument(
        "--full",
        action="store_true",
        help="with --growth: the whole width and 960 x 544 pixels, 4 to 16 chunks, for a GPU",
    )
    _common(parser)

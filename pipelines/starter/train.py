"""Makes the starter's weights again, from nothing: `python -m pipelines.starter.train --help`."""

from __future__ import annotations

import argparse
from pathlib import Path

from .steps import Steps, add_run_options, join_team, run_settings, say

STEPS = """\
The weights are made in five steps; each can be stopped and run again, and --work holds all that
is written on the way:

  1. codec        draw scenes and train the frame-stack autoencoder on them
  2. data         draw captioned clips and encode them to latents (start it several times with
                  different --seed to use several cores; training picks new clips up)
  3. text         train tokenizer and text encoder to read the captions
  4. transformer  diffusion forcing: first `--stage pictures`, then `--stage films`
  5. export       write the checkpoint in the diffusers layout, fp16

  python -m pipelines.starter.train codec --work W --encoder --minutes 40
  python -m pipelines.starter.train codec --work W --resume --minutes 60
  python -m pipelines.starter.train data --work W --clips 1400 --frames 57
  python -m pipelines.starter.train data --work W --clips 3900 --frames 9
  python -m pipelines.starter.train text --work W
  python -m pipelines.starter.train transformer --work W --stage pictures --minutes 40
  python -m pipelines.starter.train transformer --work W --stage films --resume --minutes 60
  python -m pipelines.starter.train export --work W --out assets/starter
  python -m pipelines.starter.judge --clips 200 --segments 4

To improve a finished checkpoint, begin any step with `--from assets/starter` instead of nothing.
A CUDA device is used when there is one.
"""


def main(argv: list[str] | None = None) -> None:
    """Parse the command line and run one step."""
    arguments = _parser().parse_args(argv)
    arguments.run(arguments)


def _parser() -> argparse.ArgumentParser:
    steps = Steps("python -m pipelines.starter.train", STEPS)

    def step(name: str, run, text: str) -> argparse.ArgumentParser:
        sub = steps.add(name, run, text)
        sub.add_argument(
            "--from", dest="start", type=Path, metavar="DIR", help="a checkpoint to begin with"
        )
        sub.add_argument("--device", help="cuda or cpu; by default what there is")
        sub.add_argument("--threads", type=int, help="CPU threads; all cores by default")
        return sub

    codec = step("codec", train_codec, "train the codec's decoder, or both halves")
    codec.add_argument("--minutes", type=float, default=20, help="in all, resumed runs included")
    codec.add_argument("--encoder", action="store_true", help="train the encoder too")
    codec.add_argument("--resume", action="store_true")

    data = step("data", make_data, "draw captioned clips and encode them")
    data.add_argument("--clips", type=int, default=1400)
    data.add_argument("--frames", type=int, default=57, choices=(9, 57))
    data.add_argument("--seed", type=int, default=0)

    text = step("text", train_text, "train tokenizer and text encoder")
    text.add_argument("--steps", type=int, default=1000)

    transformer = step("transformer", train_transformer, "train the transformer")
    transformer.add_argument("--stage", choices=("pictures", "films"), default="films")
    add_run_options(transformer, finish=15, learning_rate=1.5e-3)

    export = step("export", export_weights, "write the checkpoint")
    export.add_argument("--out", type=Path, required=True)
    return steps.parser


def _torch(arguments: argparse.Namespace):
    import torch

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if not arguments.device:
        arguments.device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch


def load_codec(work: Path, start: Path | None):
    """The codec of this work, else of the checkpoint to begin with, else an untrained one."""
    from .codec import FrameStackCodec

    if (work / "vae").is_dir():
        return FrameStackCodec.from_pretrained(work / "vae")
    if start:
        return FrameStackCodec.from_pretrained(start / "vae")
    return FrameStackCodec(detail_width=256, motion_gain=1.0)


def load_text(work: Path, start: Path | None):
    """Tokenizer and text encoder of this work, else of the checkpoint to begin with."""
    import torch
    from transformers import AutoTokenizer, UMT5EncoderModel

    folder = work if (work / "tokenizer").is_dir() else start
    if folder is None:
        raise SystemExit("There is no text encoder yet: run the text step first, or give --from.")
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    # a shipped checkpoint is fp16; training needs fp32
    encoder = UMT5EncoderModel.from_pretrained(folder / "text_encoder", dtype=torch.float32)
    return tokenizer, encoder


def train_codec(arguments: argparse.Namespace) -> None:
    _torch(arguments)
    from .codec_training import CodecSettings, CodecTrainer, measure

    settings = CodecSettings(minutes=arguments.minutes, train_encoder=arguments.encoder)
    codec = load_codec(arguments.work, arguments.start)
    trainer = CodecTrainer(codec, settings, arguments.device)
    if arguments.resume:
        trainer.load(arguments.work / "codec_run")
    trainer.run(arguments.work / "codec_run", say)
    codec = measure(trainer.averaged().cpu(), keep_statistics=not arguments.encoder)
    codec.save_pretrained(arguments.work / "vae")


def make_data(arguments: argparse.Namespace) -> None:
    _torch(arguments)
    from .shards import write_shard

    codec = load_codec(arguments.work, arguments.start).eval()
    folder = arguments.work / "latents"
    folder.mkdir(parents=True, exist_ok=True)
    size = min(arguments.clips, 50 if arguments.frames > 9 else 150)
    for k in range((arguments.clips + size - 1) // size):
        seed = arguments.seed * 1000 + k
        path = folder / f"clips_{arguments.frames:03d}_{seed:06d}.safetensors"
        if not path.exists():
            write_shard(path, codec, size, arguments.frames, seed)
            say(f"wrote {path}")


def train_text(arguments: argparse.Namespace) -> None:
    _torch(arguments)
    from .text import train_text_encoder

    tokenizer, encoder, share = train_text_encoder(arguments.steps, log=say)
    tokenizer.save_pretrained(arguments.work / "tokenizer")
    encoder.save_pretrained(arguments.work / "text_encoder")
    say(f"{share:.1%} of the attributes of new captions are read")


def train_transformer(arguments: argparse.Namespace) -> None:
    torch = _torch(arguments)
    torch.manual_seed(0)
    from .trainer import Trainer, TrainSettings

    team = join_team(arguments)
    trainer = Trainer(
        load_transformer(arguments.start),
        *load_text(arguments.work, arguments.start),
        load_codec(arguments.work, arguments.start).config,
        TrainSettings(stage=arguments.stage, **run_settings(arguments)),
        arguments.device,
        team,
    )
    if arguments.resume:
        trainer.load(arguments.work / "transformer_run")
    trainer.run(arguments.work / "latents", arguments.work / "transformer_run", say)


def load_transformer(start: Path | None):
    """The transformer of a checkpoint, or a new one."""
    import torch
    from diffusers import SkyReelsV2Transformer3DModel

    from .export import new_transformer

    if start is None:
        return new_transformer()
    return SkyReelsV2Transformer3DModel.from_pretrained(
        start / "transformer", torch_dtype=torch.float32
    )


def export_weights(arguments: argparse.Namespace) -> None:
    from .export import export_checkpoint
    from .trainer import averaged_models

    tokenizer, text_encoder = load_text(arguments.work, arguments.start)
    transformer = load_transformer(arguments.start)
    averaged_models(arguments.work / "transformer_run", transformer, text_encoder)
    codec = load_codec(arguments.work, arguments.start)
    size = export_checkpoint(arguments.out, transformer, text_encoder, tokenizer, codec)
    say(f"{size / 1e6:.1f} MB of weights in {arguments.out}")


if __name__ == "__main__":
    main()

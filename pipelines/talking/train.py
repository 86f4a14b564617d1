"""Makes the weights in assets/talking/ again: `python -m pipelines.talking.train --help`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipelines.starter.steps import Steps, add_run_options, join_team, run_settings, say

STEPS = """\
The weights are made in six steps; each can be stopped and run again, and --work holds all that
is written on the way:

  1. codec        axes by principal components (a minute), then the decoder's network
  2. ear          a small wav2vec2 that hears loudness and formants
  3. text         a tokenizer, and an encoder that reads the mood of a caption
  4. data         draw scenes, encode segments of them (start it several times with different
                  --seed to use several cores; training picks new samples up)
  5. transformer  flow matching on those segments, conditioned as InfiniteTalk's loop does it
  6. export       write the checkpoint, fp16

  python -m pipelines.talking.train codec --work W --minutes 20
  python -m pipelines.talking.train ear --work W --minutes 5
  python -m pipelines.talking.train text --work W
  python -m pipelines.talking.train data --work W --people 1 --scenes 600
  python -m pipelines.talking.train data --work W --people 2 --scenes 300
  python -m pipelines.talking.train transformer --work W --minutes 60
  python -m pipelines.talking.train export --work W --out assets/talking
  python -m pipelines.talking.judge

The decoder can go on learning (`codec --resume`) at any time: the latents are the axes' and stay.
"""


def main(argv: list[str] | None = None) -> None:
    """Parse the command line and run one step."""
    arguments = _parser().parse_args(argv)
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.run(arguments)


def _parser() -> argparse.ArgumentParser:
    steps = Steps("python -m pipelines.talking.train", STEPS)
    step = steps.add

    codec = step("codec", fit_codec, "fit the axes and train the decoder")
    codec.add_argument("--minutes", type=float, default=20, help="of this run")
    codec.add_argument("--resume", action="store_true", help="keep the axes, go on with the rest")
    codec.add_argument("--seed", type=int, default=1, help="of the scenes to learn from")

    ear = step("ear", teach_ear, "train the wav2vec2")
    ear.add_argument("--minutes", type=float, default=5)

    step("text", teach_text, "train tokenizer and text encoder").add_argument(
        "--steps", type=int, default=200
    )

    data = step("data", make_data, "draw scenes and encode segments of them")
    data.add_argument("--people", type=int, default=1, choices=(1, 2))
    data.add_argument("--scenes", type=int, default=600)
    data.add_argument("--seed", type=int, default=0)

    transformer = step("transformer", train_transformer, "train the transformer")
    add_run_options(transformer, finish=25, learning_rate=2e-3)

    export = step("export", export_weights, "write the checkpoint")
    export.add_argument("--out", type=Path, required=True)
    return steps.parser


def load_codec(work: Path):
    """The codec of this work, its decoder as far as it has been trained."""
    import torch

    from .codec import PatchCodec
    from .codec_fitting import load_decoder

    codec = PatchCodec.from_pretrained(work / "axes", torch_dtype=torch.float32).eval()
    if (work / "decoder.safetensors").exists():
        load_decoder(codec, work / "decoder.safetensors")
    return codec


def load_ear(work: Path):
    """The ear of this work."""
    from transformers import Wav2Vec2Model

    return Wav2Vec2Model.from_pretrained(work / "audio_encoder").eval()


def load_text(work: Path):
    """Tokenizer and text encoder of this work."""
    from transformers import AutoTokenizer, UMT5EncoderModel

    encoder = UMT5EncoderModel.from_pretrained(work / "text_encoder").eval()
    return AutoTokenizer.from_pretrained(work / "tokenizer"), encoder


def fit_codec(arguments: argparse.Namespace) -> None:
    import torch

    from .codec import PatchCodec
    from .codec_fitting import DecoderSettings, draw_stacks, fidelity, fit_axes, train_decoder

    torch.manual_seed(0)
    if not arguments.resume:
        codec = PatchCodec()
        fit_axes(codec, *draw_stacks(130, 11))
        codec.save_pretrained(arguments.work / "axes")
    settings = DecoderSettings(minutes=arguments.minutes, seed=arguments.seed)
    codec = load_codec(arguments.work)
    codec = train_decoder(codec, settings, arguments.work / "decoder.safetensors", say)
    say(f"on new scenes: {fidelity(codec, 16, 99)}")


def teach_ear(arguments: argparse.Namespace) -> None:
    from .hearing import train_ear

    ear, found = train_ear(arguments.minutes, log=say)
    ear.save_pretrained(arguments.work / "audio_encoder")
    say(f"on new voices: correlation {found:.3f} with the openness of mouths")


def teach_text(arguments: argparse.Namespace) -> None:
    from .captions import train_text_encoder

    tokenizer, encoder, share = train_text_encoder(arguments.steps, log=say)
    tokenizer.save_pretrained(arguments.work / "tokenizer")
    encoder.save_pretrained(arguments.work / "text_encoder")
    say(f"the mood of {share:.1%} of new captions is read")


def make_data(arguments: argparse.Namespace) -> None:
    from .shards import write_shard

    codec, ear = load_codec(arguments.work), load_ear(arguments.work)
    folder = arguments.work / "latents"
    folder.mkdir(exist_ok=True)
    size = 30
    for k in range((arguments.scenes + size - 1) // size):
        seed = arguments.seed * 1000 + k
        path = folder / f"people_{arguments.people}_{seed:06d}.safetensors"
        if not path.exists():
            write_shard(path, codec, ear, size, arguments.people, seed)
            say(f"wrote {path}")


def train_transformer(arguments: argparse.Namespace) -> None:
    import torch

    from .parts import new_image_encoder, new_transformer
    from .trainer import Trainer, TrainSettings, constants_of

    torch.manual_seed(0)
    team = join_team(arguments)
    codec = load_codec(arguments.work)
    trainer = Trainer(
        new_transformer(),
        new_image_encoder(),
        codec,
        constants_of(codec, *load_text(arguments.work)),
        TrainSettings(**run_settings(arguments)),
        team,
    )
    if arguments.resume:
        trainer.load(arguments.work / "run")
    trainer.run(arguments.work / "latents", arguments.work / "run", say)


def export_weights(arguments: argparse.Namespace) -> None:
    from pipelines.starter.training_run import load_average

    from .export import export_checkpoint
    from .parts import new_image_encoder, new_transformer

    transformer = new_transformer()
    load_average(arguments.work / "run", transformer)
    tokenizer, text_encoder = load_text(arguments.work)
    models = {
        "transformer": transformer,
        "vae": load_codec(arguments.work),
        "text_encoder": text_encoder,
        "image_encoder": new_image_encoder(),
        "audio_encoder": load_ear(arguments.work),
    }
    size = export_checkpoint(arguments.out, models, tokenizer)
    say(f"{size / 1e6:.1f} MB of weights in {arguments.out}")


if __name__ == "__main__":
    main()

"""What people may write of a talking picture, and a small text encoder that reads the mood of it.

A prompt can say one thing that the picture does not: how much the heads move.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase, UMT5EncoderModel

MOODS = ("calm", "", "lively")
TEXT_LENGTH = 24  # tokens; shorter prompts are padded with zero embeddings after the encoder

SUBJECTS = (
    "a person", "someone", "a man", "a woman", "two people", "a young woman", "an old man",
    "a girl", "a boy", "a friend", "a face", "a couple", "a speaker", "a presenter", "people",
)  # fmt: skip
VERBS = (
    "is talking", "talks", "speaks", "is speaking", "tells a story", "talks to the camera",
    "is speaking to the camera", "reads the news", "explains something", "has a conversation",
    "sings", "says hello", "is giving a speech", "talking", "speaking",
)  # fmt: skip
MANNERS = {
    "calm": (
        "calmly", "calm", "sitting still", "quietly", "without moving", "hardly moving", "relaxed",
        "with a still head", "slowly and quietly", "motionless", "serene", "very still",
    ),
    "": (
        "", "", "", "in a room", "portrait", "looking at the viewer", "in front of a wall",
        "high quality", "close-up", "at home", "a talking head", "in good light",
    ),
    "lively": (
        "lively", "with lively gestures", "moving the head", "nodding", "excitedly", "excited",
        "energetic", "with head movement", "animated", "shaking the head", "full of energy",
        "enthusiastically",
    ),
}  # fmt: skip
OPENERS = ("", "", "", "a video of", "a portrait of", "a clip of", "close-up of", "we see")


def random_caption(mood: str, rng: np.random.Generator) -> str:
    """A sentence of the mood, in one of several orders."""
    subject, verb, manner, opener = (
        choices[rng.integers(len(choices))] for choices in (SUBJECTS, VERBS, MANNERS[mood], OPENERS)
    )
    order = rng.integers(3)
    words = (opener, subject, verb, manner) if order < 2 else (manner, opener, subject, verb)
    caption = " ".join(part for part in words if part)
    if order == 1 and manner:
        caption = caption.replace(f" {manner}", f", {manner}")
    return caption + "." if rng.random() < 0.2 else caption


def embed_captions(tokenizer, encoder, captions: list[str]) -> torch.Tensor:
    """[captions, TEXT_LENGTH, 64], zero after each caption's end, as diffusers' pipelines do."""
    batch = tokenizer(
        captions,
        padding="max_length",
        max_length=TEXT_LENGTH,
        truncation=True,
        return_attention_mask=True,
        return_tensors="pt",
    )
    hidden = encoder(batch.input_ids, batch.attention_mask).last_hidden_state
    return hidden * batch.attention_mask[..., None]


def train_text_encoder(
    steps: int = 200, seed: int = 0, log=print
) -> tuple[PreTrainedTokenizerBase, UMT5EncoderModel, float]:
    """Tokenizer and encoder, taught to tell the mood in every token, and the share of new captions
    whose mood they tell."""
    import torch

    from pipelines.starter.text import new_text_encoder, train_tokenizer

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    tokenizer = train_tokenizer([random_caption(MOODS[k % 3], rng) for k in range(4000)])
    tokenizer.model_max_length = TEXT_LENGTH
    encoder = new_text_encoder(len(tokenizer))
    reader = torch.nn.Linear(encoder.config.d_model, len(MOODS))
    parameters = [*encoder.parameters(), *reader.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps, pct_start=0.1)
    for step in range(1, steps + 1):
        moods, logits, weights = _read(tokenizer, encoder, reader, 48, rng)
        each = torch.nn.functional.cross_entropy(logits.mT, moods, reduction="none")
        loss = (each * weights).sum(1).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            log(f"text {step}/{steps} loss {float(loss.detach()):.4f}")
    with torch.no_grad():
        moods, logits, weights = _read(tokenizer, encoder, reader, 300, rng)
        told = (logits * weights[..., None]).sum(1).argmax(-1)
    return tokenizer, encoder.eval(), float((told == moods[:, 0]).float().mean())


def _read(tokenizer, encoder, reader, size: int, rng):
    """A batch: moods and weights [B, L], and what the reader makes of every token [B, L, 3]."""
    import torch

    moods = rng.integers(0, len(MOODS), size)
    hidden = embed_captions(tokenizer, encoder, [random_caption(MOODS[m], rng) for m in moods])
    mask = (hidden.abs().sum(-1) > 0).float()
    wanted = torch.from_numpy(moods)[:, None].expand(-1, TEXT_LENGTH)
    return wanted, reader(hidden), mask / mask.sum(1, keepdim=True)

"""The text encoder: a small UMT5 whose every token says what the whole prompt asks for.

It is trained first, on captions alone, to read the five attributes of a scene out of each token;
the transformer then finds in any token what to draw. That takes minutes where joint training
from nothing takes hours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .captions import drop_words, random_caption
from .dataset import Scene, random_scene
from .shards import ATTRIBUTES, scene_to_row

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase, UMT5EncoderModel

MAX_LENGTH = 32  # tokens; shorter prompts are padded with zero embeddings after the encoder
VOCABULARY = 700
NOT_SAID = -1


def train_tokenizer(captions: list[str]) -> PreTrainedTokenizerBase:
    """A lower-casing unigram tokenizer; letters are in the vocabulary, so new words are spelt."""
    import json
    import string

    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        initial_alphabet=list(string.ascii_lowercase + string.digits + ".,:;-'!?"),
        show_progress=False,
    )
    tokenizer.train_from_iterator(captions, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    assert json.loads(tokenizer.to_str())["model"]["unk_id"] == 2
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=MAX_LENGTH,
    )


def new_text_encoder(vocabulary: int) -> UMT5EncoderModel:
    """An untrained UMT5 encoder of two layers, 64 wide."""
    from transformers import UMT5Config, UMT5EncoderModel

    config = UMT5Config(
        vocab_size=vocabulary,
        d_model=64,
        d_kv=16,
        d_ff=192,
        num_layers=2,
        num_heads=4,
        relative_attention_num_buckets=16,
        relative_attention_max_distance=32,
        dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
    )
    return UMT5EncoderModel(config)


def encode_prompts(
    tokenizer: PreTrainedTokenizerBase, encoder: UMT5EncoderModel, prompts: list[str]
) -> torch.Tensor:
    """Prompts -> [B, MAX_LENGTH, 64], zero after each prompt's end, as diffusers' pipelines do."""
    batch = tokenizer(
        prompts,
        padding="max_length",
        max_length=MAX_LENGTH,
        truncation=True,
        return_attention_mask=True,
        return_tensors="pt",
    )
    hidden = encoder(batch.input_ids, batch.attention_mask).last_hidden_state
    return hidden * batch.attention_mask[..., None].to(hidden.dtype)


def training_caption(scene: Scene, rng: np.random.Generator) -> tuple[str, list[int]]:
    """A caption, sometimes with words lost, and the attribute indices it was made from."""
    caption, said = random_caption(scene, rng)
    labels = [i if s else NOT_SAID for i, s in zip(scene_to_row(scene), said, strict=True)]
    return caption, labels


def train_text_encoder(steps: int, seed: int = 0, batch: int = 256, log=print):
    """Train tokenizer and encoder on captions; returns both and the share of attributes read.

    Each token must give all five attributes through one linear layer; a part the caption leaves
    out is a class of its own, so that the encoder does not invent it. Word dropout keeps the
    label: a lost word leaves the encoder to say how likely each value is.
    """
    import torch
    import torch.nn.functional as F

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    tokenizer = train_tokenizer([random_caption(random_scene(rng), rng)[0] for _ in range(8000)])
    encoder = new_text_encoder(len(tokenizer))
    sizes = [len(values) + 1 for values in ATTRIBUTES.values()]
    reader = torch.nn.Linear(encoder.config.d_model, sum(sizes))
    parameters = [*encoder.parameters(), *reader.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps, pct_start=0.1)

    def logits_of(captions):
        hidden = encode_prompts(tokenizer, encoder, captions)
        return reader(hidden).split(sizes, -1), hidden.abs().sum(-1) > 0

    for step in range(1, steps + 1):
        captions, labels = _batch(rng, batch)
        parts, mask = logits_of(captions)
        weight = mask.float() / mask.sum(1, keepdim=True)
        loss = 0.0
        for k, part in enumerate(parts):
            targets = _targets(labels[:, k], part)
            each = F.cross_entropy(part.transpose(1, 2), targets, reduction="none")
            loss = loss + (each * weight).sum(1).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            log(f"text {step}/{steps} loss {float(loss.detach()):.4f}")
    return tokenizer, encoder.eval(), _share_read(logits_of, np.random.default_rng(seed + 1))


def _batch(rng, size: int):
    import torch

    captions, labels = [], []
    for _ in range(size):
        caption, label = training_caption(random_scene(rng), rng)
        if rng.random() < 0.3:
            caption = drop_words(caption, rng)
        captions.append(caption)
        labels.append(label)
    return captions, torch.tensor(labels)


def _targets(labels, logits):
    """[B] -> [B, L]; NOT_SAID is the last class."""
    classes = logits.shape[-1]
    return (labels % classes)[:, None].expand(-1, logits.shape[1])


def _share_read(logits_of, rng) -> float:
    import torch

    pairs = [training_caption(random_scene(rng), rng) for _ in range(512)]
    captions, labels = zip(*pairs, strict=True)
    labels = torch.tensor(labels)
    with torch.no_grad():
        parts, mask = logits_of(list(captions))
    right = [
        ((p * mask[..., None]).sum(1).argmax(-1) == labels[:, k] % p.shape[-1]).float()
        for k, p in enumerate(parts)
    ]
    return float(torch.stack(right).mean())

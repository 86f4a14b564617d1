"""What Qwen2.5-VL needs under transformers 5 to see pictures as it was trained to."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import Qwen2VLProcessor
from transformers.processing_utils import ProcessorMixin

from pipelines.versions import image_backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch


class PictureProcessor(Qwen2VLProcessor):
    """Without its part for videos, which needs torchvision and has nothing to do here."""

    def __init__(
        self, image_processor: Any = None, tokenizer: Any = None, chat_template: Any = None
    ) -> None:
        for kind in ("image", "video"):
            token = getattr(tokenizer, f"{kind}_token", f"<|{kind}_pad|>")
            setattr(self, f"{kind}_token", token)
            setattr(self, f"{kind}_token_id", tokenizer.convert_tokens_to_ids(token))
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)


def load_processor(folder: Path) -> Qwen2VLProcessor:
    """The processor of a checkpoint, with or without torchvision."""
    kind = Qwen2VLProcessor if image_backend() == "torchvision" else PictureProcessor
    return kind.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


@contextmanager
def tell_positions(text_encoder: torch.nn.Module) -> Iterator[None]:
    """Tells the model which tokens are of pictures, so that these get positions in two dimensions.

    transformers 5 works them out from `mm_token_type_ids` alone, which diffusers 0.42 does not
    pass: without them a picture is read as a line of text, and nothing says so (diffusers issue
    14194).
    """

    def with_types(
        module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        grids = kwargs.get("image_grid_thw")
        if grids is not None and kwargs.get("mm_token_type_ids") is None:
            of_picture = kwargs["input_ids"] == module.config.image_token_id
            kwargs["mm_token_type_ids"] = of_picture.int()
        return args, kwargs

    handle = text_encoder.register_forward_pre_hook(with_types, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()

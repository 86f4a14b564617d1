"""Qwen-Image and Qwen-Image-Edit: pictures from words, and from pictures and words, over diffusers'
own pipelines.

checkpoint (the folder), plan (what is refused), inputs (what a result depends on), encoder (what
transformers 5 needs to be told), seams (where encoder outputs come in), pipeline.
"""

from pipelines.qwen_image.pipeline import QwenImage

__all__ = ["QwenImage"]

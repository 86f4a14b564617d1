"""Wan2.1 and Wan2.2: T2V, I2V and first-to-last-frame video, over diffusers' own pipelines.

checkpoint (the folder), plan (what is refused), inputs (what a result depends on), seams (where
encoder outputs come in), pipeline.
"""

from pipelines.wan.pipeline import Wan

__all__ = ["Wan"]

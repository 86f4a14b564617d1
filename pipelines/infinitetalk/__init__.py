"""InfiniteTalk: a picture and one or two voices become a talking video, in chained segments.

Of its own making, after the paper (arXiv 2508.14033) and for the published weights: diffusers has
no InfiniteTalk. The stages of a request, a file each: checkpoint (the folder), plan (what is
refused), inputs (what a result depends on), encoders (with sound, loudness and speech), denoise
(the loop and what follows it); transformer is the model, weights its published form.
"""

from pipelines.infinitetalk.pipeline import InfiniteTalk

__all__ = ["InfiniteTalk"]

"""SkyReels-V2 diffusion forcing: T2V and I2V in chained segments, over diffusers' components.

The stages of a request, a file each: checkpoint (the folder), plan (what is refused), inputs (what
a result depends on), encoders, schedule (before the loop), denoise (the loop), decode (after it).
"""

from pipelines.skyreels_v2.pipeline import SkyReelsV2

__all__ = ["SkyReelsV2"]

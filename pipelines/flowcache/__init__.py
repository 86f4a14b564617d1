"""FlowCache (arXiv 2602.10825): leaves out the work inside the denoising loop, chunk by chunk.

It attaches to a pipeline from outside, and no model file knows of it. config (settings), timeline
(chunks of a segment, row by row), policy and decision (which of them are computed), store and
compression (their keys and values), attention (how a transformer is made to use these), velocity
(the rows of a segment), skipmap (what was left out). Nothing heavy is imported with this file.
"""

from pipelines.flowcache.attach import check_mode, disable_flowcache, enable_flowcache
from pipelines.flowcache.config import FlowCacheConfig
from pipelines.flowcache.presets import PRESETS_FROM, presets_of, with_preset
from pipelines.flowcache.skipmap import SkipMap

__all__ = [
    "PRESETS_FROM",
    "FlowCacheConfig",
    "SkipMap",
    "check_mode",
    "disable_flowcache",
    "enable_flowcache",
    "presets_of",
    "with_preset",
]

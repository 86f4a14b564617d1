"""The settings of FlowCache, and which of them give the plain pipeline's own result."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipelines.errors import BadInput

MODES = ("off", "exact", "flow", "teacache")
ATTENTION = ("auto", "causal", "bidirectional")
EXTRAPOLATION = ("linear", "hold")
WEIGHTING = ("signal", "none")
BRANCHES = ("together", "apart")
UNITS = ("chunks", "tokens")


@dataclass(frozen=True)
class FlowCacheConfig:
    """Raises BadInput, by the name of the recipe's field, for a value that cannot be used."""

    mode: str = "exact"
    """exact: chunks that are finished or have not begun cost nothing. flow: also, each chunk
    reuses its own velocity while it moves little. teacache: also, all chunks reuse theirs while
    the timestep embedding moves little."""
    threshold: float = 0.07
    """How much change may add up before a velocity is computed again."""
    warmup: int = 3
    """Steps at the start of each chunk that are always computed."""
    kv_budget: int | None = None
    """Finished keys and values that are kept, in `kv_unit`; None for all."""
    kv_unit: str = "chunks"
    """chunks: each as long as the longest of the segment. tokens: of one layer and head."""
    kv_lambda: float = 0.07
    """Weight of importance against redundancy when keys are chosen."""
    attention: str = "auto"
    """What a chunk may look at. auto: the chunks before it where the recipe has causal blocks,
    otherwise all of the segment."""
    chunk: int = 5
    """Latent frames of a chunk where the recipe has no causal blocks to be chunks."""
    extrapolate: str = "linear"
    """What `flow` reuses. linear: it goes on along the line through the last two velocities that
    were computed; hold: the last one itself, as in the paper."""
    weighting: str = "signal"
    """How the change of a step counts in `flow`. signal: by how fast the ratio of signal to noise
    changes where the step is; none: as in the paper."""

    branches: str = "together"
    """Whether the branches of guidance decide together, by the guided velocity, or each by its
    own. Guidance multiplies what they differ by, and with it an error that only one of them has.
    """

    def __post_init__(self) -> None:
        _one_of("flowcache", self.mode, MODES)
        _one_of("flowcache_attention", self.attention, ATTENTION)
        _one_of("flowcache_extrapolate", self.extrapolate, EXTRAPOLATION)
        _one_of("flowcache_weighting", self.weighting, WEIGHTING)
        _one_of("flowcache_branches", self.branches, BRANCHES)
        _one_of("kv_unit", self.kv_unit, UNITS)
        if not math.isfinite(self.threshold) or self.threshold < 0:
            raise BadInput("flowcache_threshold", self.threshold, "Use 0 or a positive number.")
        _whole("flowcache_warmup", self.warmup, 0)
        _whole("flowcache_chunk", self.chunk, 1)
        if self.kv_budget is not None:
            _whole("kv_budget", self.kv_budget, 1)
        if not 0 <= self.kv_lambda <= 1:
            raise BadInput("kv_lambda", self.kv_lambda, "Use a number from 0 to 1.")

    def is_causal(self, causal_block: int) -> bool:
        """Whether a chunk looks only at itself and the chunks before it."""
        return self.attention == "causal" or (self.attention == "auto" and causal_block > 1)

    def is_exact(self, causal_block: int, compresses: bool | None = None) -> bool:
        """Whether the result is that of the plain pipeline with this `causal_block`, but for
        rounding. `compresses` says whether the budget is ever passed; by default, any is."""
        if compresses is None:
            compresses = self.kv_budget is not None
        same_attention = self.is_causal(causal_block) == (causal_block > 1)
        return self.mode in ("off", "exact") and not compresses and same_attention

    def promise(self, causal_block: int) -> str:
        """What to expect of the video with this `causal_block`, in a sentence; nothing if off."""
        if self.mode == "off":
            return ""
        if not self.is_exact(causal_block):
            return f"Not exact: {self._departure(causal_block)}"
        if self.is_causal(causal_block):
            return "Exact: the same video for less work."
        return (
            "Exact, but there is nothing to leave out: without causal blocks every chunk looks at "
            "every other one. Use flow."
        )

    def _departure(self, causal_block: int) -> str:
        """What makes it another video, the widest cause first."""
        if self.is_causal(causal_block) != (causal_block > 1):
            return "a chunk looks at other chunks than in the plain video."
        if self.mode != "exact":
            return "steps are skipped where little changes: close to the plain video, not the same."
        return "only a part of what finished chunks left is looked at."


def _one_of(field: str, value: str, values: tuple[str, ...]) -> None:
    if value not in values:
        raise BadInput(field, value, f"Use one of {', '.join(values)}.")


def _whole(field: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadInput(field, value, f"Use a whole number, at least {least}.")

"""How the velocities with and without prompt and voice are combined. Imports nothing heavy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

APG_MOMENTUM = -0.75

Velocities = dict[str, "torch.Tensor"]
"""Of the branches: `cond` has prompt and voice, `drop_text` the voice alone, `drop_audio` the
prompt alone, `uncond` neither. Without a prompt stands the negative one; without a voice, one
person whose features are 0."""


def branches(text_scale: float, audio_scale: float) -> tuple[str, ...]:
    """The branches that these scales need: one for each forward of a step."""
    text, audio = not math.isclose(text_scale, 1.0), not math.isclose(audio_scale, 1.0)
    if text and audio:
        return ("cond", "drop_text", "uncond")
    if text:
        return ("cond", "drop_text")
    return ("cond", "drop_audio") if audio else ("cond",)


@dataclass
class Guidance:
    """Combines the velocities of one segment, step after step.

    Text and audio are two differences with a scale each: `uncond + ts (cond - drop_text)
    + as (drop_text - uncond)`. With a norm limit above 0 each goes through APG first (adaptive
    projected guidance, arXiv 2410.02416): summed up with a momentum of -0.75, cut to the limit,
    and only what stands at right angles to `cond` is added.
    """

    text_scale: float
    audio_scale: float
    apg_limit: float = 0.0
    _sums: dict[str, torch.Tensor] = field(default_factory=dict, repr=False)

    @property
    def branches(self) -> tuple[str, ...]:
        return branches(self.text_scale, self.audio_scale)

    def combined(self, velocities: Velocities) -> torch.Tensor:
        """`[1, C, T, h, w]` from those of `branches`."""
        cond = velocities["cond"]
        guided = cond
        for name, scale, difference in self._differences(velocities):
            if self.apg_limit > 0:
                self._sums[name] = difference + APG_MOMENTUM * self._sums.get(name, 0)
                difference = projected(self._sums[name], cond, self.apg_limit)
            guided = guided + (scale - 1) * difference
        return guided

    def _differences(self, velocities: Velocities) -> list[tuple[str, float, torch.Tensor]]:
        cond = velocities["cond"]
        found = []
        if "drop_text" in velocities:
            found.append(("text", self.text_scale, cond - velocities["drop_text"]))
        if "uncond" in velocities:
            difference = velocities["drop_text"] - velocities["uncond"]
            found.append(("audio", self.audio_scale, difference))
        elif "drop_audio" in velocities:
            found.append(("audio", self.audio_scale, cond - velocities["drop_audio"]))
        return found


def projected(difference: torch.Tensor, cond: torch.Tensor, limit: float) -> torch.Tensor:
    """`difference`, no longer than `limit` (0: any length), without its part along `cond`; both
    taken as one vector. Equations 7 to 9 of arXiv 2410.02416 with eta = 0."""
    if limit > 0:
        difference = difference * (limit / difference.norm()).clamp(max=1)
    along, direction = difference.double(), cond.double()
    direction = direction / direction.norm().clamp(min=1e-12)
    return (along - (along * direction).sum() * direction).type_as(difference)

"""Several training processes that average their weights every few steps.

Where other work shares the cores, processes that meet rarely lose less than threads that meet in
every operation; each has its own momentum and its own clips.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Team:
    """This process is number `rank` of `size`; they meet every `period` steps."""

    rank: int = 0
    size: int = 1
    period: int = 6

    @classmethod
    def join(cls, rank: int, size: int, meeting_file: Path) -> Team:
        """Wait for the others; `meeting_file` must be new for each run."""
        if size > 1:
            import torch.distributed as dist

            url = f"file://{Path(meeting_file).resolve()}"
            dist.init_process_group("gloo", init_method=url, rank=rank, world_size=size)
        return cls(rank, size)

    def meets(self, step: int) -> bool:
        return self.size == 1 or step % self.period == 0

    def agree(self, over: bool) -> bool:
        """True for all as soon as one says so."""
        if self.size == 1:
            return bool(over)
        import torch.distributed as dist

        flag = torch.tensor([float(over)])
        dist.all_reduce(flag)
        return bool(flag.item())

    @torch.no_grad()
    def average(self, tensors: list[torch.Tensor]) -> None:
        """Replace each tensor by its mean over the team."""
        if self.size == 1:
            return
        import torch.distributed as dist

        flat = torch.cat([t.detach().flatten().float().cpu() for t in tensors])
        dist.all_reduce(flat)
        parts = (flat / self.size).split([t.numel() for t in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

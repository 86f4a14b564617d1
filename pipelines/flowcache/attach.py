"""FlowCache on and off: a pipeline keeps nothing but where its velocities come from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pipelines.errors import BadInput
from pipelines.flowcache.config import FlowCacheConfig

if TYPE_CHECKING:
    from pipelines.base import Capabilities, Pipeline


def enable_flowcache(pipe: Pipeline, config: FlowCacheConfig) -> None:
    """From the next segment on, the velocities of `pipe` come through FlowCache.

    All state is made for one segment and goes with it; the transformer may be loaded anew at any
    time. Raises BadInput if the model cannot do `config.mode`.
    """
    check_mode(pipe.capabilities, config)
    if config.mode == "off":
        disable_flowcache(pipe)
    else:
        pipe.velocity_of = partial(_velocity_of, config)


def check_mode(capabilities: Capabilities, config: FlowCacheConfig) -> None:
    """Raises BadInput, naming what there is, unless a model can do what the settings ask for."""
    modes = capabilities.flowcache_modes
    if config.mode not in ("off", *modes):
        can = f"Use one of off, {', '.join(modes)}." if modes else "This model has none: use off."
        raise BadInput("flowcache", config.mode, can)


def disable_flowcache(pipe: Pipeline) -> None:
    """The plain pipeline again, bit for bit."""
    if pipe.capabilities.flowcache_modes:
        pipe.velocity_of = None


def _velocity_of(config: FlowCacheConfig, segment):
    from pipelines.flowcache.velocity import flow_velocity

    return flow_velocity(config, segment)

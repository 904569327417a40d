"""What is to be simulated."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hivemind.lab.simulate.provider_model import Upstream
from hivemind.lab.simulate.trace import Trace
from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.types import Price


@dataclass(slots=True)
class SimulationPlan:
    """What to simulate."""

    trace: Trace
    config: SchedulerConfig
    lanes: Mapping[str, LaneConfig]
    upstreams: Mapping[str, Upstream]
    rng: random.Random
    commands: Sequence[Command] = ()
    """Given at the start."""
    overruled: frozenset[str] = frozenset()
    """Names of settings that keep their value, whatever was decided in the recording."""
    price: Price | None = None
    tell: Callable[[ev.Event], object] | None = None
    """Called with each event."""
    sampled: bool = False
    """Take samples of the gauges too."""
    draws: bool = False
    survives_errors: bool = False
    """Agents go on after an error that they saw; else they die of their first one."""
    error_retry_delays_s: Sequence[float] = ()
    """Before that, their clients ask again so often, so long after each error."""
    client_timeout_s: Mapping[str, float] = field(default_factory=dict)
    """By agent, after what time its clients give up, where that is always the same."""
    timeout_retry_delays_s: Sequence[float] = ()
    """Then they ask again so often, so long after each time."""

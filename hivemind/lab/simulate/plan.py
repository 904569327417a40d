"""What is to be simulated."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hivemind.lab.simulate.provider_model import Upstream
from hivemind.lab.simulate.tape import Tape
from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.types import Price


@dataclass(slots=True)
class Plan:
    """What to simulate."""

    tape: Tape
    config: SchedulerConfig
    lanes: Mapping[str, LaneConfig]
    upstreams: Mapping[str, Upstream]
    rng: random.Random
    orders: Sequence[Command] = ()
    """Given at the start."""
    overruled: frozenset[str] = frozenset()
    """Names of settings that keep their value, whatever was decided in the recording."""
    price: Price | None = None
    tell: Callable[[ev.Event], object] | None = None
    """Called with each event."""
    sampled: bool = False
    """Take samples of the gauges too."""
    draws: bool = False
    tenacious: bool = False
    """Agents go on after an error that they saw; else they die of their first one."""
    repeated_s: Sequence[float] = ()
    """Before that, their clients ask again so often, so long after each error."""
    patience_s: Mapping[str, float] = field(default_factory=dict)
    """By agent, after what time its clients give up, where that is always the same."""
    left_again_s: Sequence[float] = ()
    """Then they ask again so often, so long after each time."""

"""The input of one simulation."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hivemind.lab.simulate.provider_model import ProviderModel
from hivemind.lab.trace.trace import Trace
from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Command
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.types import Price


@dataclass(frozen=True, slots=True)
class ClientBehaviour:
    """How the recorded clients and agents react to errors and to waiting."""

    survives_errors: bool = False
    """Agents go on after an error; otherwise their first one ends them."""
    error_retry_delays_s: Sequence[float] = ()
    """Clients repeat a failed request after each of these delays."""
    timeouts_s: Mapping[str, float] = field(default_factory=dict)
    """By agent, the time after which its clients leave, where that is always the same."""
    timeout_retry_delays_s: Sequence[float] = ()
    """Clients that left repeat the request after each of these delays."""


@dataclass(slots=True)
class SimulationPlan:
    """The recorded traffic, the settings and the models to simulate it with."""

    trace: Trace
    config: SchedulerConfig
    lanes: Mapping[str, LaneConfig]
    upstreams: Mapping[str, ProviderModel]
    clients: ClientBehaviour
    rng: random.Random
    draws: bool = False
    """Faults and latencies are drawn anew."""
    commands: Sequence[Command] = ()
    """Given at the start."""
    overruled: frozenset[str] = frozenset()
    """Names of settings that recorded commands don't change."""
    price: Price | None = None
    on_event: Callable[[ev.Event], object] | None = None
    sampled: bool = False
    """Take samples of the gauges too."""

"""What other settings would have done with the same traffic: the real scheduler, in virtual time, on a recording."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal

from hivemind.journal.figures import Figures, Tally
from hivemind.lab.fit.limits import Pools
from hivemind.lab.gc_pause import gc_paused
from hivemind.lab.simulate.plan import SimulationPlan
from hivemind.lab.simulate.provider_model import Upstream
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.simulate.simulation import Simulation
from hivemind.lab.tune.overrides import Change as Change
from hivemind.lab.tune.overrides import agent_commands, apply_changes
from hivemind.lab.tune.overrides import parse_changes as parse_changes
from hivemind.scheduler.events import Event
from hivemind.scheduler.types import Price

Faults = Literal["recorded", "drawn"]
"""`recorded`: each request meets the faults that it met; `drawn`: faults (and latencies) are drawn anew from what was
fitted, by a seed."""


def simulate(
    recording: Recording,
    changes: Sequence[Change] = (),
    *,
    seed: int = 0,
    faults: Faults = "recorded",
    price: Price | None = None,
    tell: Callable[[Event], object] | None = None,
) -> Figures:
    """Run a recording's traffic through the scheduler with these changes, and count what came of it.

    The same arguments give the same figures. `tell` is called with each event as it happens, on the clock of the
    recording. Takes up to some seconds and reads no clock; not for an event loop.

    Raises: UsageError: the changes don't go together.
    """
    configs, scheduler = {}, recording.began.config
    for key, lane in recording.lanes.items():
        scheduler, configs[key] = apply_changes(changes, recording.began.config, lane)
    rng, tally = random.Random(seed), Tally(price)
    trace, draws = recording.trace, faults == "drawn"
    pools: Pools = {}
    upstreams = {
        key: Upstream(provider, trace.began_at, recording.wall_offset, rng, draws=draws, pools=pools)
        for key, provider in recording.providers.items()
    }
    plan = SimulationPlan(
        trace,
        scheduler,
        configs,
        upstreams,
        rng,
        commands=agent_commands(changes),
        overruled=frozenset(change.name for change in changes),
        price=price,
        tell=tally.apply if tell is None else _both(tally, tell),
        sampled=tell is not None,
        draws=draws,
        survives_errors=recording.survives_errors,
        error_retry_delays_s=recording.error_retry_delays_s,
        client_timeout_s=recording.client_timeout_s,
        timeout_retry_delays_s=recording.timeout_retry_delays_s,
    )
    with gc_paused():
        Simulation(plan).run()
    return tally.figures()


def _both(tally: Tally, tell: Callable[[Event], object]) -> Callable[[Event], object]:
    def told(event: Event) -> None:
        tally.apply(event)
        tell(event)

    return told

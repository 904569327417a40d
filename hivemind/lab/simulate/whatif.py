"""Simulates recorded traffic under other settings, with the real scheduler in virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal

from hivemind.journal.figures import Figures, Tally
from hivemind.lab.fit.limits import Pools
from hivemind.lab.gc_pause import gc_paused
from hivemind.lab.simulate.overrides import Change, agent_commands, apply_changes
from hivemind.lab.simulate.plan import SimulationPlan
from hivemind.lab.simulate.provider_model import ProviderModel
from hivemind.lab.simulate.recording import Recording
from hivemind.lab.simulate.simulation import Simulation
from hivemind.scheduler.events import Event
from hivemind.scheduler.types import Price

Faults = Literal["recorded", "drawn"]
"""`recorded`: each request has the faults that it had; `drawn`: faults and latencies are drawn by a seed from what was
fitted."""


def simulate(
    recording: Recording,
    changes: Sequence[Change] = (),
    *,
    seed: int = 0,
    faults: Faults = "recorded",
    price: Price | None = None,
    on_event: Callable[[Event], object] | None = None,
) -> Figures:
    """Run a recording's traffic through the scheduler with these changes, and return its figures.

    The same arguments give the same figures. `on_event` is called with each event, on the clock of the recording. Takes
    up to some seconds without reading a clock; not for an event loop.

    Raises: UsageError: the changes don't go together.
    """
    configs, scheduler = {}, recording.began.config
    for key, lane in recording.lanes.items():
        scheduler, configs[key] = apply_changes(changes, recording.began.config, lane)
    rng, tally = random.Random(seed), Tally(price)
    trace, draws = recording.trace, faults == "drawn"
    pools: Pools = {}

    def on_each(event: Event) -> None:
        assert on_event is not None
        tally.apply(event)
        on_event(event)

    plan = SimulationPlan(
        trace,
        scheduler,
        configs,
        {
            key: ProviderModel(provider, trace.began_at, recording.wall_offset, rng, draws=draws, pools=pools)
            for key, provider in recording.providers.items()
        },
        recording.clients,
        rng,
        draws,
        commands=agent_commands(changes),
        overruled=frozenset(change.name for change in changes),
        price=price,
        on_event=tally.apply if on_event is None else on_each,
        sampled=on_event is not None,
    )
    with gc_paused():
        Simulation(plan).run()
    return tally.figures()

"""How long periodic work holds the event loop: `python -m benchmarks.perf.steps [STREAMS]`.

Streams of an agent each, with a budget, are in flight, all with news since the last look, and one ends. Printed are the
longest steps of what is saved, of the gauges with their way into the world and the journal, of the checks, and of what
alerts are looked for in, in milliseconds of CPU time, the least of some tries.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from hivemind.prices import Prices
from hivemind.scheduler import invariants
from hivemind.scheduler.config import BudgetConfig, LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.types import Request, Usage
from hivemind.store.ledger import AGENTS_AT_ONCE
from hivemind.world.gauges import Differences
from hivemind.world.world import World

_STREAMS = 5000
_TRIES = 7
_MODEL = "gpt-4o"


def main(streams: int) -> None:
    """Print the longest steps."""
    scheduler = Scheduler(SchedulerConfig(budget=BudgetConfig(tokens=10**12)), lambda: 0.0)
    world, differences = World(at=0.0, wall=0.0, address="", upstreams=()), Differences()
    scheduler.ledger.price_by(Prices().cost)
    scheduler.open_lane(0.0, "lane", LaneConfig("up", "openai", max_concurrency=0, rpm=0, tpm=0))
    tickets = [
        scheduler.arrive(0.0, Request(f"agent-{number}", "lane", _MODEL, _MODEL, 400, None, True))
        for number in range(streams)
    ]
    least: dict[str, float] = {}

    def sampled() -> int:
        sample = scheduler.sample_changes(2.0)
        differences.of(sample)
        world.apply(sample)
        return 1

    for attempt in range(_TRIES):
        for ticket in tickets:
            scheduler.progress(1.0, ticket, attempt, Usage(input_tokens=100, output_tokens=attempt))
        scheduler.succeed(1.0, tickets.pop(), 200, Usage(input_tokens=100, output_tokens=attempt))
        for event in scheduler.events:
            world.apply(event)
        scheduler.events.clear()
        for name, steps in (
            ("saved", _saving(scheduler)),
            ("gauges", iter(sampled, None)),
            ("checks", invariants.steps(scheduler, lambda: 2.0)),
            ("alerts", iter(lambda: world.snapshot(2.0, notable=True), None)),
        ):
            most = _longest(steps, 1 if name in ("gauges", "alerts") else streams)
            least[name] = min(most, least.get(name, most))
    for name, took_s in least.items():
        print(f"{name:8} {1e3 * took_s:6.2f} ms")


def _saving(scheduler: Scheduler) -> Iterator[object]:
    while unsaved := scheduler.take_unsaved(AGENTS_AT_ONCE):
        yield unsaved


def _longest(steps: Iterator[object], most: int) -> float:
    longest = 0.0
    for _ in range(most):
        began = time.process_time()
        if next(steps, None) is None:
            break
        longest = max(longest, time.process_time() - began)
    return longest


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _STREAMS)

"""How long periodic work holds the event loop: `python -m benchmarks.perf.steps [STREAMS]`.

Streams of an agent each, with a budget, are in flight, all with news since the last look, and one ends. Printed are the
longest steps of what is saved, of the gauges with their way into the world and the journal, of the checks, and of what
alerts are looked for in, in milliseconds of CPU time, the least of some tries. Those of a snapshot, and of the pages
that are made of it, are with 3,000 agents, of which a tenth stream and the others rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial

from hivemind.control.app import as_json
from hivemind.control.metrics import AGENTS_SHOWN, rendered
from hivemind.prices import Prices
from hivemind.scheduler import invariants
from hivemind.scheduler.config import BudgetConfig, LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Request, Usage
from hivemind.store.ledger import AGENTS_AT_ONCE
from hivemind.world.gauges import Differences
from hivemind.world.world import World

_STREAMS = 5000
_AGENTS = 3000
_TRIES = 7
_MODEL = "gpt-4o"


def main(streams: int) -> None:
    """Print the longest steps."""
    scheduler, world, tickets = _sent(streams)
    differences = Differences()
    least: dict[str, float] = {}

    def sampled() -> int:
        sample = scheduler.sample_changes(2.0)
        differences.of(sample)
        world.apply(sample)
        return 1

    for attempt in range(_TRIES):
        _go_on(scheduler, world, tickets, attempt)
        for name, steps, most in (
            ("saved", _saving(scheduler), streams),
            ("gauges", iter(sampled, None), 1),
            ("checks", invariants.steps(scheduler, lambda: 2.0), streams),
            ("alerts", iter(lambda: world.snapshot(2.0, newest=0), None), 1),
        ):
            _time(least, name, steps, most)
    scheduler, world, tickets = _sent(_AGENTS)
    while len(tickets) > _AGENTS // 10 + _TRIES:
        scheduler.succeed(1.0, tickets.pop(), 200, Usage(input_tokens=100, output_tokens=9))
    for attempt in range(_TRIES):
        _go_on(scheduler, world, tickets, attempt)
        _time(least, "snapshot", iter(partial(world.snapshot, 2.0 + attempt), None), 1)
        snapshot = world.snapshot(2.0 + attempt)
        _time(least, "stats", as_json(snapshot), sys.maxsize)
        _time(least, "scraped", iter(partial(world.snapshot, 2.0 + attempt, newest=AGENTS_SHOWN), None), 1)
        _time(least, "metrics", rendered(snapshot, (), 1, open_metrics=False), sys.maxsize)
    for name, took_s in least.items():
        print(f"{name:8} {1e3 * took_s:6.2f} ms")


def _sent(agents: int) -> tuple[Scheduler, World, list[Ticket]]:
    """Return a proxy's scheduler and world, with a request in flight of each of so many agents."""
    scheduler = Scheduler(SchedulerConfig(budget=BudgetConfig(tokens=10**12)), lambda: 0.0)
    scheduler.ledger.price_by(Prices().cost)
    scheduler.open_lane(0.0, "lane", LaneConfig("up", "openai", max_concurrency=0, rpm=0, tpm=0))
    requests = [Request(f"agent-{n}", "lane", _MODEL, _MODEL, 400, None, True) for n in range(agents)]
    tickets = [scheduler.arrive(0.0, request) for request in requests]
    return scheduler, World(at=0.0, wall=0.0, address="", upstreams=()), tickets


def _go_on(scheduler: Scheduler, world: World, tickets: list[Ticket], tokens: int) -> None:
    """Let all streams go on, and one end."""
    for ticket in tickets:
        scheduler.progress(1.0, ticket, tokens, Usage(input_tokens=100, output_tokens=tokens))
    scheduler.succeed(1.0, tickets.pop(), 200, Usage(input_tokens=100, output_tokens=tokens))
    for event in scheduler.events:
        world.apply(event)
    scheduler.events.clear()


def _saving(scheduler: Scheduler) -> Iterator[object]:
    while unsaved := scheduler.take_unsaved(AGENTS_AT_ONCE):
        yield unsaved


def _time(least: dict[str, float], name: str, steps: Iterator[object], most: int) -> None:
    longest = 0.0
    for _ in range(most):
        began = time.process_time()
        if next(steps, None) is None:
            break
        longest = max(longest, time.process_time() - began)
    least[name] = min(longest, least.get(name, longest))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _STREAMS)

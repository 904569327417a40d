"""How long periodic work holds the event loop: `python -m benchmarks.perf.steps [STREAMS]`.

Streams of an agent each are in flight, all with news since the last look. Printed are the longest steps of what is
saved, of the gauges, and of the checks, in milliseconds of CPU time, the least of some tries.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from hivemind.prices import Prices
from hivemind.scheduler import invariants
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.types import Request, Usage
from hivemind.store.ledger import AGENTS_AT_ONCE

_STREAMS = 5000
_TRIES = 7
_MODEL = "gpt-4o"


def main(streams: int) -> None:
    """Print the longest steps."""
    scheduler = Scheduler(SchedulerConfig(), lambda: 0.0)
    scheduler.price_by(Prices().cost, 0.0)
    scheduler.open_lane(0.0, "lane", LaneConfig("up", "openai", max_concurrency=0, rpm=0, tpm=0))
    tickets = [
        scheduler.arrive(0.0, Request(f"agent-{number}", "lane", _MODEL, _MODEL, 400, None, True))
        for number in range(streams)
    ]
    least: dict[str, float] = {}
    for attempt in range(_TRIES):
        for ticket in tickets:
            scheduler.progress(1.0, ticket, attempt, Usage(input_tokens=100, output_tokens=attempt))
        scheduler.events.clear()
        for name, steps in (
            ("saved", _saving(scheduler)),
            ("gauges", iter(lambda: scheduler.sample(2.0), None)),
            ("checks", invariants.steps(scheduler, lambda: 2.0)),
        ):
            most = _longest(steps, 1 if name == "gauges" else streams)
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

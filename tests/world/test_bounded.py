"""A day of traffic leaves no more in the memory than two hours of it."""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Iterator

import pytest
from world.kit import LANE, hold, sampled, state, told

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage
from hivemind.world import lanes
from hivemind.world import request_log as requests
from hivemind.world import world as fold
from hivemind.world.snapshot import REQUESTS_KEPT, REQUESTS_PAGE
from hivemind.world.world import World

DAY_S = 24 * 3600.0
REQUESTS = 27_000
"""Of the day; those of two hours are more than are remembered."""
PER_AGENT = 90
EVERY = 3
"""Requests between two samples."""


def request(number: int, at: float, rng: random.Random, agents: int) -> Iterator[ev.Event]:
    """The whole life of one, which faults interrupt now and then."""
    agent = f"agent-{rng.randrange(agents)}"
    yield ev.Arrived(at, number, agent, LANE, "claude-x", "claude", Priority.NORMAL, True, 900, 256, "codex")
    if rng.random() < 0.02:
        yield ev.Refused(at + 1, number, agent, LANE, "queue_full", 503)
        return
    attempt = 1
    while True:
        yield ev.Granted(at + 2, number, agent, LANE, attempt, 2.0)
        if rng.random() > 0.3:
            break
        again = None if rng.random() < 0.1 else 1.0
        message = f"overloaded, request {number} attempt {attempt}"
        kind = FailureKind.OVERLOADED
        yield ev.AttemptFailed(at + 3, number, agent, LANE, attempt, kind, 529, message, again, Usage(900))
        if again is None:
            return
        attempt += 1
    yield ev.FirstContent(at + 4, number, agent, LANE, 2.0)
    yield ev.Progress(at + 5, number, agent, LANE, 60)
    if rng.random() < 0.02:
        yield ev.Abandoned(at + 6, number, agent, LANE, True, Usage(900, 0, 0, 70))
    else:
        yield ev.Finished(at + 6, number, agent, LANE, "claude-x", 200, attempt, Usage(100, 800, 0, 120), 6.0)


def live(world: World, begin_s: float, end_s: float, rng: random.Random, count: int) -> None:
    """Let the world see these hours of a day with so many requests, a screen looking on."""
    numbers = range(int(count * begin_s / DAY_S), int(count * end_s / DAY_S))
    revision = world.requests(0, begin_s).revision
    for number in numbers:
        at = DAY_S * number / count
        events = list(request(number, at, rng, count // PER_AGENT))
        world.apply(events[0])
        if number % EVERY == 0:
            world.apply(sampled(at, state(upcoming=(hold(number, rng.choice(("slot", "tokens")), 1.0),))))
        for event in events[1:]:
            world.apply(event)
        if number % 500 == 0:
            revision = world.requests(revision, at).revision
            world.snapshot(at)


def size(world: World, at: float) -> int:
    """Bytes, with every view made."""
    since = 0
    while True:
        answer = world.requests(since, at)
        since = answer.revision
        if len(answer.changed) < REQUESTS_PAGE:
            break
    world.snapshot(at)
    del answer
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("scale", [60, pytest.param(15, marks=pytest.mark.slow)])
def test_memory_stays_flat_over_a_day(scale: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is remembered makes room in time; with all bounds at a part of what they are."""
    bounds = ((requests, "REQUESTS_KEPT"), (lanes, "CURVE_KEPT"), (fold, "LINES_KEPT"))
    for module, name in bounds:
        monkeypatch.setattr(module, name, getattr(module, name) // scale)
    count = REQUESTS // scale
    rng = random.Random(11)
    tracemalloc.start()
    try:
        world = told(price=lambda provider, model, usage: 1e-6 * usage.total)
        live(world, 0.0, 2 * 3600.0, rng, count)
        early = size(world, 2 * 3600.0)
        live(world, 2 * 3600.0, DAY_S, rng, count)
        late = size(world, DAY_S)
    finally:
        tracemalloc.stop()
    totals = world.snapshot(DAY_S).totals
    assert totals.requests == count
    assert min(totals.finished, totals.failed, totals.refused, totals.abandoned, totals.retried_ok) > 200 // scale
    assert early > 500 * REQUESTS_KEPT // scale, "what is remembered isn't even there"
    assert abs(late - early) < 0.15 * early

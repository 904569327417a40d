"""What a decision costs when many wait, counted rather than timed."""

from __future__ import annotations

import heapq
from typing import Any

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.admission import fair_share, queue, warm_first
from hivemind.scheduler.config import QueueConfig, SchedulerConfig
from hivemind.scheduler.types import Usage


class Counter:
    """Counts what the queue's heaps are asked to do, each at the depth of the heap."""

    def __init__(self) -> None:
        self.steps = 0

    def push(self, heap: list[Any], item: Any) -> None:
        self.steps += max(1, len(heap)).bit_length()
        heapq.heappush(heap, item)

    def pop(self, heap: list[Any]) -> Any:
        self.steps += len(heap).bit_length()
        return heapq.heappop(heap)

    def order(self, heap: list[Any]) -> None:
        self.steps += len(heap)
        heapq.heapify(heap)


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> Counter:
    counted = Counter()
    for module in (fair_share, queue, warm_first):
        for name, method in (("heappush", counted.push), ("heappop", counted.pop), ("heapify", counted.order)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, method)
    return counted


def steps_a_decision(counter: Counter, waiting: int, agents: int, usage: Usage | None) -> float:
    """Heap steps for each of 200 grants with so many tickets waiting, each answered with this usage."""
    hands = Hands(
        lane_config(slots=1), config=SchedulerConfig(queue=QueueConfig(max_depth=20_000, max_wait_s=1e9)), checked=False
    )
    holder = hands.arrive("holder")
    for n in range(waiting):
        hands.arrive(f"a{n % agents}", size=400 + n % 997)
    for number in range(210):
        if number == 10:
            counter.steps = 0
        hands.granted.clear()
        hands.wait(0.001)
        hands.succeed(holder, usage)
        (holder,) = hands.granted
        hands.arrive(holder.agent.name)
    return counter.steps / 200


@pytest.mark.parametrize("usage", [None, Usage(0, 0, 50_000, 10)], ids=["nothing cached", "cached"])
@pytest.mark.parametrize("agents", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (50, 5000))])
def test_a_decision_costs_the_logarithm_of_those_who_wait(
    counter: Counter, agents: int, usage: Usage | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred times as many waiting cost at most what a logarithm gives, whether few agents wait or many."""
    monkeypatch.setattr(queue, "AS_LONG", 1e9)  # as if all took long
    few = steps_a_decision(counter, 100, min(agents, 50), usage)  # at least two each, as of the many
    many = steps_a_decision(counter, 10_000, agents, usage)
    assert few > 0
    assert many <= 2.5 * few
    assert many <= 150


@pytest.mark.slow
def test_those_who_left_cost_no_more_than_they_would_have_waiting(counter: Counter) -> None:
    """Ten thousand that gave up are skipped once, not at every decision."""
    hands = Hands(lane_config(slots=1), config=SchedulerConfig(queue=QueueConfig(max_depth=20_000)), checked=False)
    holder = hands.arrive("holder")
    tickets = [hands.arrive(f"a{n % 100}") for n in range(10_000)]
    for ticket in tickets[:-100]:
        hands.leave(ticket)
    counter.steps = 0
    for _ in range(100):
        hands.granted.clear()
        hands.succeed(holder)
        (holder,) = hands.granted
    assert counter.steps <= 10_000 * 3 * 14
    assert hands.lane.queue.waiting == 0

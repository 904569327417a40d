"""Broken states that are made on purpose are found and named; sound ones aren't."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from scheduler.driving import LANE, Hands, lane_config

from hivemind.scheduler.commands import PauseAdmissions, PauseAgent, SetBudget, SetCircuit
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.invariants import STALLED_S, Stalls, Violation, steps, violations
from hivemind.scheduler.ticket import Ticket, TicketState


def busy() -> Hands:
    """One request in flight, one that waits for its slot, both counted in windows and a budget."""
    hands = Hands(LaneConfig("up", "generic", max_concurrency=1, rpm=60, tpm=9000, max_concurrency_per_upstream=4))
    hands.apply(SetBudget(None, tokens=100_000))
    hands.arrive("ann")
    hands.arrive("ben")
    return hands


def found(hands: Hands) -> list[Violation]:
    return violations(hands.scheduler, hands.now)


def ticket_of(hands: Hands, agent: str) -> Ticket:
    return next(iter(hands.scheduler.agents[agent].tickets.values()))


def add(to: object, name: str, amount: float = 1) -> None:
    setattr(to, name, getattr(to, name) + amount)


def lost_probe(hands: Hands) -> None:
    hands.scheduler.apply(hands.now, SetCircuit("probe"), "you")
    hands.lane.circuit.lease(77)


def passes_the_overdue(hands: Hands) -> None:
    hands.arrive("ben", size=4_000_000, patience_s=40.0)
    hands.wait(30.0)
    (backlog,) = hands.lane.queue._shares["ben"].backlogs.values()
    backlog.bounds.clear()


BROKEN: dict[str, tuple[Callable[[Hands], object], str, str, str]] = {
    "more slots": (lambda hands: add(hands.lane.gate, "active"), "slots", LANE, ""),
    "more upstream slots": (lambda hands: add(hands.lane.total, "active"), "upstream", LANE, ""),
    "more waiting": (lambda hands: add(hands.lane.queue, "waiting"), "queue", LANE, ""),
    "listed twice": (lambda hands: hands.lane.backing_off.update({99: ticket_of(hands, "ben")}), "backoff", LANE, ""),
    "more of an agent": (lambda hands: add(hands.scheduler.agents["ann"], "in_flight"), "agent", "", "ann"),
    "done but kept": (lambda hands: setattr(ticket_of(hands, "ann"), "state", TicketState.DONE), "agent", LANE, "ann"),
    "held for nothing": (lambda hands: setattr(hands.scheduler.agents["ben"], "held", True), "hold", "", "ben"),
    "passes the overdue": (passes_the_overdue, "overdue", LANE, "ben"),
    "left out for nothing": (lambda hands: hands.lane.queue.pause("ben", True), "hold", LANE, "ben"),
    "reserves too much": (lambda hands: add(hands.scheduler.pool, "reserved_tokens", 5), "budget", "", ""),
    "reserves dollars": (lambda hands: add(hands.scheduler.pool, "reserved_dollars", 0.01), "budget", "", ""),
    "shut for nothing": (lambda hands: setattr(hands.scheduler.pool, "shut", True), "budget", "", ""),
    "window keeps": (
        lambda hands: add(next(iter(hands.lane.allowances["m"].windows.values())), "reserved"),
        "window",
        LANE,
        "",
    ),
    "lost probe": (lost_probe, "probe", LANE, ""),
    "lost timers": (lambda hands: list(hands.scheduler.timers.due(math.inf)), "timer", LANE, "ben"),
    "lost wake": (lambda hands: setattr(hands.lane, "wake_at", hands.now + 5.0), "timer", LANE, ""),
    "free slot": (lambda hands: setattr(hands.lane.gate, "limit", 2), "idle", LANE, "ben"),
}


@pytest.mark.parametrize(("break_it", "rule", "lane", "agent"), BROKEN.values(), ids=list(BROKEN))
def test_a_broken_state_is_named(break_it: Callable[[Hands], object], rule: str, lane: str, agent: str) -> None:
    """Each rule finds what breaks it, with its lane or agent and one sentence."""
    hands = busy()
    assert found(hands) == []
    break_it(hands)
    hit = [each for each in found(hands) if (each.rule, each.lane, each.agent) == (rule, lane, agent)]
    assert hit, found(hands)
    assert all(each.text.endswith(".") for each in hit)


def test_a_leaked_slot_stalls_the_lane() -> None:
    """Where nothing is in flight and no timer is set, the oldest waiting request is named with what it waits for."""
    hands = Hands(lane_config(slots=1))
    first = hands.arrive("ann")
    hands.arrive("ben")
    hands.now = 7.0
    hands.lane.gate.active += 1
    hands.scheduler.succeed(hands.now, first, 200, None)
    stuck = next(each for each in found(hands) if each.rule == "stuck")
    assert (stuck.lane, stuck.agent) == (LANE, "ben")
    assert "has waited for 7.0 s (gate: slot)" in stuck.text


def test_an_operators_decision_is_no_stall() -> None:
    """What an operator holds may wait for ever."""
    hands = Hands(lane_config(slots=1))
    hands.apply(PauseAdmissions(True))
    hands.arrive("ann")
    hands.apply(PauseAdmissions(False))
    hands.apply(PauseAgent("ann", True))
    hands.arrive("ann")
    hands.apply(SetCircuit("open"))
    assert found(hands) == []


def test_a_check_changes_nothing() -> None:
    """Nothing is granted, emitted or armed by looking."""
    hands = busy()
    before = (hands.lane.wake_at, len(hands.scheduler.timers), list(hands.scheduler.events))
    assert [part for part in steps(hands.scheduler, lambda: hands.now + 1e6) if part] == []
    assert (hands.lane.wake_at, len(hands.scheduler.timers), list(hands.scheduler.events)) == before


def stalls(hands: Hands, seconds: int) -> list[str]:
    """What is told of a scheduler that is looked at every second for so long."""
    stalls, told = Stalls(hands.scheduler), []
    for _ in range(seconds):
        hands.wait(1.0)
        told += [each.text for each in stalls.look(hands.now)]
    return told


def test_a_window_that_never_opens_is_a_stall() -> None:
    """Each time its timer comes it holds for a second more, so that nothing seems to be forgotten."""
    hands = Hands(lane_config(slots=2), checked=False)
    hands.lane.delay_s = lambda ticket, now: 1.0  # type: ignore[method-assign]
    hands.arrive("ann")
    assert stalls(hands, int(STALLED_S)) == []
    assert stalls(hands, int(STALLED_S) + 2) == [
        f"1 request waits and 2 slots are free, but nothing was granted for {STALLED_S + 1:.0f} s; the next, number 1,"
        " is held (gate: next)."
    ]


@pytest.mark.parametrize("cause", ["a slot", "the operator", "its agent", "a window"])
def test_waiting_for_something_is_no_stall(cause: str) -> None:
    """However long it takes; a request waits for ten minutes at most."""
    hands = Hands(lane_config(slots=1 if cause == "a slot" else 2, rpm=1 if cause == "a window" else 0))
    hands.arrive("ann")
    if cause == "the operator":
        hands.apply(PauseAdmissions(True))
    elif cause == "its agent":
        hands.leave(hands.arrive("ben"))
        hands.apply(PauseAgent("ben", True))
    for _ in range(5):
        assert hands.arrive("ben").in_queue
    assert stalls(hands, 2 * int(STALLED_S)) == []

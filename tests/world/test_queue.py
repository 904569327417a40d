"""Why is it waiting?"""

from __future__ import annotations

import pytest
from world.kit import LANE, arrived, commanded, failed, granted, hold, only_ticket, sampled, state, told

from hivemind.scheduler import events as ev
from hivemind.scheduler.events import GATES


def test_the_queue_is_shown_in_the_order_in_which_it_flies() -> None:
    """As the last sample had it; those that came since follow by class and age."""
    world = told(*(arrived(n, agent=f"a{n}", at=float(n)) for n in (1, 2, 3)))
    world.apply(sampled(4.0, state(upcoming=(hold(3), hold(1), hold(2), hold(99)))))
    world.apply(arrived(4, at=5.0))
    assert [ticket.ticket for ticket in world.snapshot(6.0).queue] == [3, 1, 2, 4]
    world.apply(granted(3, agent="a3", at=7.0))
    assert [ticket.ticket for ticket in world.snapshot(8.0).queue] == [1, 2, 4]


def test_lanes_take_turns_in_the_queue_that_is_shown() -> None:
    """None of them is hidden behind another one's hundred; each has places of its own."""
    lanes = {"a:1": (1, 2, 3), "b:1": (4, 5)}
    world = told(*(arrived(n, lane=lane) for lane, numbers in lanes.items() for n in numbers))
    states = (state(lane=lane, upcoming=tuple(map(hold, numbers))) for lane, numbers in lanes.items())
    world.apply(sampled(1.0, *states))
    queue = world.snapshot(1.0).queue
    assert [(ticket.ticket, ticket.position) for ticket in queue] == [(1, 1), (4, 1), (2, 2), (5, 2), (3, 3)]


def test_numbers_and_etas_rise_in_the_order_shown() -> None:
    """Where one family's rate window is used up, the others' tickets overtake those that wait for it."""
    etas = {1: 2.0, 2: 40.0, 3: 4.0, 4: None, 5: 6.0, 6: 8.0}
    gates = {2: "tokens", 4: "budget", 6: "backoff"}
    world = told(*(arrived(n, agent=f"a{n}", lane="a:1") for n in etas), arrived(7, lane="b:1"), arrived(8, lane="b:1"))
    holds = [hold(n, gates.get(n, "slot"), estimate_s=eta) for n, eta in etas.items()]
    other = state(lane="b:1", upcoming=(hold(8, estimate_s=9.0), hold(7, estimate_s=3.0)))
    world.apply(sampled(1.0, state(lane="a:1", upcoming=tuple(holds)), other))
    queue = world.snapshot(2.0).queue
    shown = [ticket.estimate_s for ticket in queue if ticket.estimate_s is not None]
    assert shown == sorted(shown)
    assert [(ticket.ticket, ticket.position) for ticket in queue if ticket.lane == "a:1"] == [
        *((1, 1), (3, 2), (5, 3), (6, None), (2, 4), (4, 5))
    ]
    assert [(ticket.ticket, ticket.position) for ticket in queue if ticket.lane == "b:1"] == [(7, 1), (8, 2)]


def test_no_more_are_shown_than_fit() -> None:
    """All are counted."""
    world = told(*(arrived(n, agent=f"a{n}") for n in range(150)))
    snapshot = world.snapshot(1.0)
    assert (len(snapshot.queue), snapshot.queued) == (100, 150)


@pytest.mark.parametrize("gate", GATES)
def test_a_waiting_ticket_shows_the_gate_that_holds_it(gate: str) -> None:
    """With its place, the time until the gate opens and until it flies, which run down between samples."""
    holds = (hold(9, estimate_s=1.0), hold(1, gate, opens_in_s=4.0, estimate_s=6.0))
    world = told(arrived(), sampled(1.0, state(upcoming=holds)))
    ticket = only_ticket(world.snapshot(3.0))
    position = None if gate in ("held", "backoff", "first_write") else 1
    assert (ticket.gate, ticket.position, ticket.gate_opens_in_s, ticket.estimate_s) == (gate, position, 2.0, 4.0)
    late = only_ticket(world.snapshot(30.0))
    assert (late.gate_opens_in_s, late.estimate_s) == (0.0, 0.0)


def test_a_sample_says_nothing_of_a_ticket_that_has_moved_since() -> None:
    """It flew and failed in between: it doesn't wait for what it waited for before."""
    holds = state(upcoming=(hold(1, "slot", 9.0, 9.0),))
    world = told(arrived(), sampled(1.0, holds), granted(at=1.5), failed(3.0, at=2.0))
    ticket = only_ticket(world.snapshot(4.0))
    assert (ticket.gate, ticket.gate_opens_in_s, ticket.position, ticket.estimate_s) == ("backoff", 1.0, None, None)
    again = sampled(4.0, state(upcoming=(hold(1, "backoff", 1.0, 2.5),)))
    world.apply(again)
    ticket = only_ticket(world.snapshot(4.0))
    assert (ticket.gate, ticket.gate_opens_in_s, ticket.position, ticket.estimate_s) == ("backoff", 1.0, None, 2.5)


@pytest.mark.parametrize("gate", GATES)
def test_an_open_circuit_keeps_all_that_wait(gate: str) -> None:
    """As the scheduler says of it, though it opened after the last sample and requests left the queue before."""
    holds = (hold(8), hold(9), hold(1, gate, estimate_s=6.0))
    opened = ev.CircuitChanged(2.0, LANE, "open", "errors", reopens_in_s=5.0)
    world = told(arrived(), sampled(1.0, state(upcoming=holds)), opened, arrived(2, agent="bo", at=2.5))
    first, newcomer = world.snapshot(3.0).queue
    assert (newcomer.gate, newcomer.gate_opens_in_s, newcomer.position) == ("circuit", 4.0, None)
    assert first.gate == (gate if gate in ("paused", "rate_limited") else "circuit")
    assert first.position in (None, 1)


def test_one_whose_turn_has_come_waits_for_its_slot() -> None:
    """A screen knows the gates and nothing beside them."""
    world = told(arrived(), sampled(1.0, state(upcoming=(hold(1, "next", estimate_s=0.0),))))
    ticket = only_ticket(world.snapshot(1.0))
    assert (ticket.gate, ticket.position, ticket.estimate_s) == ("slot", 1, 0.0)


@pytest.mark.parametrize(
    ("events", "gate", "opens_in_s"),
    [
        ((), "slot", None),
        ((commanded("PauseAdmissions", paused=True),), "paused", None),
        ((commanded("PauseAgent", agent="ann", paused=True),), "held", None),
        ((granted(), failed(30.0, at=2.0)), "backoff", 27.0),
        ((commanded("PauseAdmissions", paused=True), granted(), failed(30.0, at=2.0)), "backoff", 27.0),
    ],
)
def test_a_ticket_that_no_sample_names_is_held_by_what_can_be_seen(
    events: tuple[ev.Event, ...], gate: str, opens_in_s: float | None
) -> None:
    """It came after the sample, or stands too far back in the queue; nothing is made up about its place."""
    ticket = only_ticket(told(arrived(), *events).snapshot(5.0))
    assert (ticket.gate, ticket.gate_opens_in_s, ticket.position, ticket.estimate_s) == (gate, opens_in_s, None, None)


def test_what_flies_is_held_by_nothing() -> None:
    """Even if the last sample still saw it wait."""
    holds = state(upcoming=(hold(1, "slot", 3.0, 3.0),))
    ticket = only_ticket(told(arrived(), sampled(1.0, holds), granted(at=2.0)).snapshot(2.0))
    assert (ticket.lane, ticket.gate, ticket.gate_opens_in_s, ticket.position, ticket.estimate_s) == (
        LANE,
        "",
        None,
        None,
        None,
    )


def test_a_lane_counts_its_requests_as_they_are_now() -> None:
    """Between two samples requests come, are granted and fail; the lane agrees with the tickets at every moment."""
    world = told(*map(arrived, (1, 2, 3)), sampled(1.0, state(active=0)))
    for event in (granted(1, at=1.5), granted(2, at=1.6), failed(9.0, at=1.7)):
        world.apply(event)
    snapshot = world.snapshot(2.0)
    lane = snapshot.lanes[0].state
    assert (lane.active, lane.waiting, lane.retrying) == (1, 1, 1)
    assert (len(snapshot.slots), snapshot.queued) == (1, 2)

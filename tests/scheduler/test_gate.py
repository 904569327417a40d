"""The admission gate."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.admission.aimd import Gate
from hivemind.scheduler.commands import PinLevel, Tune
from hivemind.scheduler.ticket import TicketState


@pytest.mark.parametrize(
    ("limit", "slots"), [(1.0, 1), (1.5, 1), (2.0, 2), (2.99, 2), (0.3, 1), (0.0, 1), (math.inf, math.inf)]
)
def test_slots_are_whole_and_never_none(limit: float, slots: float) -> None:
    """A level between two whole numbers admits the lower one, and one request may always be sent."""
    assert Gate(limit).slots == slots


def test_admits_while_fewer_are_active_than_the_limit() -> None:
    """The paper's equation 1: admit while A < C_max."""
    gate = Gate(2)
    assert gate.free
    gate.active += 1
    assert gate.free
    gate.active += 1
    assert not gate.free
    gate.active -= 1
    assert gate.free


def test_lowering_takes_effect_as_requests_complete() -> None:
    """More may be active than the limit for a while; there is room again only below it."""
    gate = Gate(3)
    for _ in range(3):
        gate.active += 1
    gate.limit = 1
    assert gate.active == 3
    gate.active -= 1
    gate.active -= 1
    assert not gate.free
    gate.active -= 1
    assert gate.free


@pytest.mark.parametrize(("ceiling", "in_flight"), [(1, 1), (3, 3), (4, 4), (9, 9), (0, 10)])
def test_raising_the_limit_wakes_exactly_as_many_as_fit(ceiling: int, in_flight: int) -> None:
    """Of ten that ask, as many are sent at once as the new ceiling has slots, no more and no fewer."""
    hands = Hands(lane_config(slots=1))
    tickets = [hands.arrive(f"a{n}") for n in range(10)]
    hands.scheduler.apply(0.0, Tune("max_concurrency", ceiling), "you")
    hands.gather()
    assert [ticket.state for ticket in tickets].count(TicketState.IN_FLIGHT) == in_flight == hands.lane.gate.active


def test_lowering_the_level_grants_nothing_until_it_fits() -> None:
    """Four in flight and a level of two: the first two that end wake none, the third one wakes one."""
    hands = Hands(lane_config(slots=4))
    in_flight = [hands.arrive(f"a{n}") for n in range(4)]
    for n in range(4):
        hands.arrive(f"b{n}")
    hands.scheduler.apply(0.0, PinLevel(2), "you")
    hands.gather()
    woken = []
    for ticket in in_flight:
        hands.succeed(ticket)
        woken.append(len(hands.granted))
    assert woken == [0, 0, 1, 2]


def test_a_request_is_never_refused_because_slots_are_busy() -> None:
    """A hundred beyond the only slot wait; none is refused."""
    hands = Hands(lane_config(slots=1))
    tickets = [hands.arrive(f"a{n}") for n in range(101)]
    assert [ticket.refusal for ticket in tickets] == [None] * 101
    assert hands.lane.queue.waiting == 100


def test_without_a_ceiling_everything_is_granted() -> None:
    """A ceiling of 0 means no limit of ours."""
    hands = Hands(lane_config(slots=0))
    assert all(hands.arrive(f"a{n}").state is TicketState.IN_FLIGHT for n in range(50))

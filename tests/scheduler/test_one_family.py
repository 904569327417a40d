"""A refusal of one family of models, and what it says of the others on the same credential."""

from __future__ import annotations

from random import Random

import pytest
from scheduler.driving import LANE, Hands, circuit_lane, failure, lane_config

from hivemind.scheduler.commands import ReleaseLane
from hivemind.scheduler.config import RetryConfig, SchedulerConfig
from hivemind.scheduler.events import CircuitChanged, FamilyHold, LaneRateLimited, LaneReleased
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.lane import TOGETHER_S
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind

FLIES, WAITS = TicketState.IN_FLIGHT, TicketState.QUEUED


def refused(delay_s: float | None = 60.0, kind: FailureKind = FailureKind.RATE_LIMITED) -> Failure:
    """Return a refusal that asks for this pause."""
    return failure(kind, delay_s=delay_s)


def pauses(hands: Hands) -> list[tuple[str | None, float]]:
    """Families that were paused, and for how long."""
    return [(event.family, event.for_s) for event in hands.log if isinstance(event, LaneRateLimited)]


def test_a_pause_is_the_familys_that_was_refused() -> None:
    """Others are sent meanwhile; its own go once it is over, and screens tell it of that family."""
    hands = Hands(lane_config(slots=9))
    hands.fail(hands.arrive(family="opus"), refused())
    held = hands.arrive("b", family="opus")
    assert (held.state, hands.arrive("c", family="haiku").state) == (WAITS, FLIES)
    state = lane_state(hands.lane, hands.now, paused=False)
    assert (state.rate_limited_for_s, state.families) == (0.0, (FamilyHold("opus", "rate_limited", 60.0),))
    assert {(hold.gate, hold.opens_in_s) for hold in state.upcoming} == {("rate_limited", 60.0)}
    hands.wait(61.0)
    assert held.state is FLIES
    assert [event.family for event in hands.log if isinstance(event, LaneReleased)] == ["opus"]


def test_an_only_familys_pause_is_shown_as_the_lanes() -> None:
    """Nothing else is known there that could be sent."""
    hands = Hands(lane_config(slots=4))
    hands.fail(hands.arrive(), refused())
    assert (state := lane_state(hands.lane, 0.0, paused=False)).families == ()
    assert state.rate_limited_for_s == 60.0


@pytest.mark.parametrize(
    ("apart_s", "answered", "whole"), [(1.0, False, True), (TOGETHER_S + 1, False, False), (1.0, True, False)]
)
def test_two_families_refused_close_together_pause_the_lane(apart_s: float, answered: bool, whole: bool) -> None:
    """Unless a third one's request, sent since the first refusal, was answered."""
    hands = Hands(lane_config(slots=9))
    hands.fail(hands.arrive(family="opus"), refused())
    hands.wait(apart_s)
    if answered:
        hands.succeed(hands.arrive(family="haiku"))
    hands.fail(hands.arrive(family="sonnet"), refused(20.0))
    assert pauses(hands) == [("opus", 60.0), (None if whole else "sonnet", 20.0)]
    third = hands.arrive("c", family="haiku")
    assert third.state is (WAITS if whole else FLIES)
    hands.wait(21.0)
    assert (third.state, hands.arrive("d", family="opus").state) == (FLIES, WAITS)


@pytest.mark.parametrize(("kind", "family"), [(FailureKind.OVERLOADED, "opus"), (FailureKind.SERVER_ERROR, None)])
def test_only_a_refusal_is_about_a_model(kind: FailureKind, family: str | None) -> None:
    """A server that fails and asks to wait is away for all."""
    hands = Hands(lane_config(slots=4))
    hands.fail(hands.arrive(family="opus"), refused(5.0, kind))
    assert pauses(hands) == [(family, 5.0)]


def test_an_operator_ends_a_familys_pause() -> None:
    """As the lane's."""
    hands = Hands(lane_config(slots=4))
    hands.fail(again := hands.arrive(family="opus"), refused())
    hands.apply(ReleaseLane(LANE))
    assert again.state is FLIES


def trip(hands: Hands, family: str = "opus", kind: FailureKind = FailureKind.RATE_LIMITED) -> None:
    """Have so many requests of a family refused, without a word about when to come again, that the circuit opens."""
    for number in range(4):
        hands.fail(hands.arrive(f"x{number}", family=family), failure(kind))


def test_a_circuit_is_the_familys_that_was_refused() -> None:
    """Others go on, their answers don't close it, and one of its own is the probe."""
    hands = Hands(circuit_lane(), retry=RetryConfig(max_attempts=1))
    trip(hands)
    held = hands.arrive("b", family="opus")
    hands.succeed(hands.arrive("c", family="haiku"))
    assert (held.state, lane_state(hands.lane, 0.0, paused=False).circuit) == (WAITS, "closed")
    assert lane_state(hands.lane, 0.0, paused=False).families == (FamilyHold("opus", "circuit", 10.0),)
    hands.wait(10.0)
    assert (held.state, hands.lane.circuit.probe) == (FLIES, held.id)
    assert hands.arrive("d", family="opus").state is WAITS
    assert hands.arrive("e", family="haiku").state is FLIES
    hands.fail(held, failure(FailureKind.RATE_LIMITED))
    assert (hands.lane.circuit.state.value, hands.lane.circuit.family) == ("open", "opus")
    hands.wait(10.0)
    hands.succeed(next(ticket for ticket in hands.granted if ticket.id == hands.lane.circuit.probe))
    changes = [(event.state, event.family) for event in hands.log if isinstance(event, CircuitChanged)]
    assert changes == [*[("open", "opus"), ("half_open", "opus")] * 2, ("closed", None)]


@pytest.mark.parametrize("kind", [FailureKind.SERVER_ERROR, FailureKind.RATE_LIMITED])
def test_a_second_family_opens_the_circuit_for_all(kind: FailureKind) -> None:
    """So does an upstream that fails."""
    hands = Hands(circuit_lane(), retry=RetryConfig(max_attempts=1))
    trip(hands)
    trip(hands, "haiku", kind)
    assert (hands.lane.circuit.state.value, hands.lane.circuit.family) == ("open", None)
    assert hands.arrive("c", family="sonnet").state is WAITS


def test_a_family_that_is_refused_cuts_nothing_of_one_that_is_answered() -> None:
    """What was cut before the other came is given back."""
    hands = Hands(lane_config(slots=8), retry=RetryConfig(max_attempts=1))
    hands.fail(hands.arrive(family="opus"), refused())
    assert hands.lane.aimd.level == 4.0
    hands.succeed(hands.arrive("b", family="haiku"))
    assert hands.lane.aimd.level == 8.0
    hands.wait(60.0)
    hands.succeed(hands.arrive("b", family="haiku"))
    hands.fail(hands.arrive(family="opus"), refused())
    assert hands.lane.aimd.level == 8.0


def test_in_a_fleet_pause_and_circuit_name_the_family() -> None:
    """Reports do, and leases; what waits for neither slots nor windows isn't reported as waiting."""
    hands = Hands(circuit_lane(), leasing=True)
    hands.lease(slots=8.0, level=8.0)
    for ticket in [hands.arrive(f"a{number}", family="opus") for number in range(4)]:
        hands.fail(ticket, refused())
    hands.arrive("b", family="opus")
    report = hands.report()
    assert (report.pauses, report.opened_family, report.can_probe) == ({"opus": 60.0}, "opus", True)
    assert sum(report.waiting) == 0
    hands.lease(slots=8.0, level=8.0, pauses={"opus": 60.0}, circuit="open", trips=1, reopens_in_s=9.0, family="opus")
    assert hands.arrive("c", family="haiku").state is FLIES
    hands.lease(slots=8.0, level=8.0, pauses={"opus": 60.0}, circuit="open", trips=2, reopens_in_s=9.0)
    assert hands.arrive("d", family="haiku").state is WAITS


@pytest.mark.parametrize("stated", [True, False])
def test_one_models_refusals_for_a_minute_leave_the_other_its_pace(stated: bool) -> None:
    """Six agents of each; one model is refused for 60 s, with or without a time to come again. The other's waits have a
    95th percentile under 1 s."""
    hands, rng = Hands(lane_config(slots=5), config=SchedulerConfig(), checked=False), Random(1)
    due: list[tuple[float, str, Ticket]] = []
    comes = [(rng.random(), f"{family}{number}", family) for family in ("opus", "haiku") for number in range(6)]
    waits: list[float] = []
    while hands.now < 60.0:
        at = min([each[0] for each in (*due, *comes)])
        hands.until(at)
        for coming in [each for each in comes if each[0] <= at]:
            comes.remove(coming)
            hands.arrive(coming[1], family=coming[2])
        for ending in [each for each in due if each[0] <= at]:
            due.remove(ending)
            if ending[1] == "opus":
                hands.fail(ending[2], refused(60.0 - hands.now + 0.1 if stated else None))
            else:
                hands.succeed(ending[2])
                comes.append((hands.now + 3.0 * rng.random(), ending[2].agent.name, "haiku"))
        in_flight = [ticket for agent in hands.scheduler.agents.values() for ticket in agent.tickets.values()]
        for ticket in [ticket for ticket in in_flight if ticket.state is FLIES]:
            if not any(ticket is each[2] for each in due):
                family = ticket.request.family
                waits += [hands.now - ticket.arrived_at] if family == "haiku" else []
                due.append((hands.now + (0.05 if family == "opus" else 1.0), family, ticket))
    assert len(waits) > 50
    assert sorted(waits)[int(0.95 * len(waits))] < 1.0

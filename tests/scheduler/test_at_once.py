"""Whatever makes room, or changes who is next, is acted on in that step, not at the next event."""

from __future__ import annotations

import pytest
from scheduler.driving import LANE, Hands, circuit_lane, failure, lane_config

from hivemind.scheduler.commands import BoostAgent, PauseAgent, SetBudget, SetCircuit, SetPriority, StopAgent
from hivemind.scheduler.config import LaneConfig, RetryConfig
from hivemind.scheduler.events import AttemptFailed
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import FailureKind, Priority, Usage, WindowKind, WindowReading

IN_FLIGHT, QUEUED, BACKING_OFF = TicketState.IN_FLIGHT, TicketState.QUEUED, TicketState.BACKING_OFF


def said(remaining: int, reset_in_s: float) -> tuple[WindowReading, ...]:
    return (WindowReading(WindowKind.REQUESTS, 100, remaining, reset_in_s),)


def used_up() -> tuple[Hands, Ticket, Ticket]:
    """A stream that is to be answered, and a request that waits, because the provider said that nothing is left."""
    hands = Hands(lane_config(slots=5))
    first, stream = hands.arrive("a"), hands.arrive("b")
    hands.scheduler.headers(0.0, first, said(0, 50.0), ending=True)
    hands.succeed(first, Usage(10, 0, 0, 10))
    waiting = hands.arrive("c")
    assert waiting.state is QUEUED
    return hands, stream, waiting


# --- Rate limits ------------------------------------------------------------------------------------------------------


def test_headers_that_make_room_let_a_waiting_request_go() -> None:
    """A reply states a later window, in which much is left; its content may take long to come."""
    hands, stream, waiting = used_up()
    hands.until(20.0)
    assert waiting.state is QUEUED
    hands.scheduler.headers(20.0, stream, said(90, 59.0))
    hands.gather()
    assert waiting.state is IN_FLIGHT
    assert hands.granted == [waiting]


def test_headers_with_an_earlier_reset_bring_the_timer_forward() -> None:
    """The window is still used up, but for a shorter time than was said before."""
    hands, stream, waiting = used_up()
    hands.scheduler.headers(0.0, stream, said(0, 10.0))
    hands.gather()
    hands.until(11.0)
    assert waiting.state is IN_FLIGHT


def test_an_error_that_makes_room_is_acted_on_at_its_end() -> None:
    """Its head says that much is left, but it may ask for a pause."""
    hands, stream, waiting = used_up()
    hands.until(20.0)
    hands.scheduler.headers(20.0, stream, said(90, 59.0), ending=True)
    hands.gather()
    assert waiting.state is QUEUED
    hands.fail(stream, failure(FailureKind.RATE_LIMITED, retryable=False))
    assert waiting.state is IN_FLIGHT


def test_headers_look_at_the_queue_only_where_that_can_help() -> None:
    """Not if nothing waits, no slot is free, or nothing was said."""
    hands = Hands(lane_config(slots=1))
    in_flight = hands.arrive("a")
    assert not hands.scheduler.headers(0.0, in_flight, said(90, 59.0))
    hands.arrive("b")
    assert not hands.scheduler.headers(0.0, in_flight, said(90, 59.0))
    assert not hands.scheduler.headers(0.0, in_flight, ())


# --- An open circuit --------------------------------------------------------------------------------------------------


def failing(lane: LaneConfig) -> tuple[Hands, list[Ticket]]:
    hands = Hands(lane, retry=RetryConfig(base_s=5.0))
    return hands, [hands.arrive(f"a{n}") for n in range(4)]


@pytest.mark.parametrize("when_open", ["refuse", "hold"])
def test_the_failure_that_opens_the_circuit(when_open: str) -> None:
    """Where an open circuit refuses, it isn't retried: the agent gets the failure. Else it waits for the probe."""
    hands, in_flight = failing(circuit_lane(slots=4, when_open=when_open))
    for ticket in in_flight[:3]:
        hands.fail(ticket, failure(retryable=False))
    last = in_flight[3]
    hands.fail(last)
    assert hands.lane.circuit.state.value == "open"
    assert last.state is (TicketState.DONE if when_open == "refuse" else BACKING_OFF)
    assert (hands.seen(AttemptFailed)[-1].retry_in_s is None) is (when_open == "refuse")


@pytest.mark.parametrize("when_open", ["refuse", "hold"])
def test_a_failure_while_the_circuit_is_forced_open_is_not_retried(when_open: str) -> None:
    """Nothing would send it again before the operator says so; what came then would be refused too."""
    hands, in_flight = failing(circuit_lane(slots=4, when_open=when_open))
    hands.apply(SetCircuit("open"))
    assert hands.fail(in_flight[0]) is None
    assert in_flight[0].state is TicketState.DONE


def test_a_failure_is_not_retried_if_its_client_leaves_before_the_probe() -> None:
    """Its client gives up in five seconds; the circuit is open for ten."""
    hands = Hands(circuit_lane(slots=4))
    in_flight = [hands.arrive(f"a{n}", patience_s=5.0) for n in range(4)]
    for ticket in in_flight:
        hands.fail(ticket)
    assert hands.lane.circuit.state.value == "open"
    assert in_flight[3].state is TicketState.DONE


# --- Agents that turn out to be parts of others -----------------------------------------------------------------------


def part_known_late(hands: Hands) -> tuple[Ticket, Ticket]:
    """A slot is taken by another agent; `ann/sub` and `ben` wait, and nothing says whose part `ann/sub` is."""
    hands.arrive("ann")
    ben = hands.arrive("ben")
    sub = hands.arrive("ann/sub")
    assert sub.state is ben.state is QUEUED
    return sub, ben


def test_requests_of_a_part_known_late_count_in_the_class_of_the_whole() -> None:
    """It came last, but the operator had made the agent that it is a part of more urgent."""
    hands = Hands(lane_config(slots=1))
    sub, ben = part_known_late(hands)
    hands.apply(SetPriority("ann", Priority.CRITICAL))
    assert sub.priority.name == "NORMAL"
    hands.arrive("ann/sub", parent="ann")
    assert sub.priority.name == "CRITICAL"
    hands.succeed(next(ticket for ticket in hands.scheduler.agents["ann"].tickets.values()))
    assert sub.state is IN_FLIGHT
    assert ben.state is QUEUED


def test_requests_of_a_part_known_late_are_refused_if_the_whole_is_stopped() -> None:
    """Those that wait, and one in flight is to be ended."""
    hands = Hands(lane_config(slots=2))
    hands.arrive("ann")
    in_flight, waiting = hands.arrive("ann/sub"), hands.arrive("ann/sub")
    hands.apply(StopAgent("ann", True))
    hands.ending.clear()
    assert waiting.state is QUEUED
    latest = hands.arrive("ann/sub", parent="ann")
    assert [each.refusal and each.refusal.reason for each in (in_flight, waiting, latest)] == ["agent_stopped"] * 3
    assert hands.ending == [in_flight]


def test_requests_of_a_part_known_late_are_refused_if_the_whole_has_used_up_its_budget() -> None:
    """As those of a part are that is known."""
    hands = Hands(lane_config(slots=1))
    sub, _ = part_known_late(hands)
    (ann,) = hands.scheduler.agents["ann"].tickets.values()
    hands.apply(SetBudget("ann", 50))
    hands.succeed(ann, Usage(100, 0, 0, 0))
    assert sub.state is QUEUED
    hands.arrive("ann/sub", parent="ann")
    assert sub.refusal is not None
    assert sub.refusal.reason == "budget"


def test_requests_of_a_part_known_late_are_held_with_the_whole() -> None:
    hands = Hands(lane_config(slots=1))
    sub, ben = part_known_late(hands)
    hands.apply(PauseAgent("ann", True))
    hands.arrive("ann/sub", parent="ann")
    hands.succeed(next(iter(hands.scheduler.agents["ann"].tickets.values())))
    assert (sub.state, ben.state) == (QUEUED, IN_FLIGHT)


# --- Another class ----------------------------------------------------------------------------------------------------

TIGHT = LaneConfig("up", "generic", max_concurrency=0, rpm=0, tpm=3000, tpm_binding=True)
"""A large request and then a small one don't fit into its window together; as long as the large one is first, the
small one waits behind it."""


def test_a_boost_that_ends_lets_a_part_go_that_fits() -> None:
    """The agent that is boosted has a part on another lane, whose large request was first there."""
    hands = Hands(TIGHT)
    hands.scheduler.open_lane(0.0, "up/2", TIGHT)
    hands.arrive("first", size=4000, lane="up/2")
    hands.arrive("ann", lane=LANE)
    large = hands.arrive("ann/sub", size=8000, lane="up/2", parent="ann")
    small = hands.arrive("small", size=4, lane="up/2", priority=Priority.HIGH)
    assert small.state is IN_FLIGHT
    assert large.state is QUEUED
    hands.apply(BoostAgent("ann", 5))
    small = hands.arrive("small", size=4, lane="up/2", priority=Priority.HIGH)
    assert small.state is QUEUED
    hands.until(5.0)
    assert small.state is IN_FLIGHT


def test_a_class_that_ages_lets_its_request_go_that_fits() -> None:
    """A request that is too large for now is first of its family, until a less urgent class has waited for longer
    without a grant."""
    hands = Hands(TIGHT)
    hands.arrive("first", size=4000)
    large = hands.arrive("large", size=8000, priority=Priority.HIGH)
    hands.wait(1.0)
    small = hands.arrive("small", size=4)
    hands.wait(19.0)
    assert hands.arrive("other", family="n", priority=Priority.HIGH).state is IN_FLIGHT
    assert large.state is small.state is QUEUED
    hands.until(31.01)
    assert small.state is IN_FLIGHT
    assert large.state is QUEUED

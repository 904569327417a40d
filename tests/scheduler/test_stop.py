"""Agents and requests that the operator cuts off."""

from __future__ import annotations

import pytest
from scheduler.driving import LANE, Hands, failure, lane_config

from hivemind.scheduler.commands import CutRequest, PauseAgent, Rejected, SetBudget, StopAgent
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.events import Abandoned, AttemptFailed, Commanded, Refused
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import Refusal, Ticket, TicketState
from hivemind.scheduler.types import FailureKind, Usage, WindowKind

STOPPED = Refusal("agent_stopped", None, 400)


def test_what_waits_is_refused() -> None:
    """In the queue and between two attempts, with an event for each after the one that says who did it."""
    hands = Hands(lane_config(slots=1))
    retrying = hands.arrive("a")
    hands.lane.retries.failure_share = 1.0
    hands.fail(retrying)
    other, waiting = hands.arrive("b"), hands.arrive("a")
    hands.log.clear()
    hands.apply(StopAgent("a", True))
    assert [ticket.refusal for ticket in (retrying, waiting)] == [STOPPED] * 2
    assert other.state is TicketState.IN_FLIGHT
    assert [(event.ticket, event.reason, event.status) for event in hands.seen(Refused)] == [
        (retrying.id, "agent_stopped", 400),
        (waiting.id, "agent_stopped", 400),
    ]
    assert isinstance(hands.log[0], Commanded)
    assert hands.log[0].arguments == {"agent": "a", "stopped": True}
    assert hands.lane.queue.waiting == len(hands.lane.backing_off) == 0


def test_what_comes_is_refused_at_once() -> None:
    """Though slots are free, and until the agent may ask again."""
    hands = Hands(lane_config(slots=5))
    hands.succeed(hands.arrive("a"))
    hands.apply(StopAgent("a", True))
    assert hands.arrive("a").refusal == STOPPED
    assert hands.arrive("b").state is TicketState.IN_FLIGHT
    hands.apply(StopAgent("a", False))
    assert hands.arrive("a").state is TicketState.IN_FLIGHT


def test_what_is_in_flight_is_to_be_ended() -> None:
    """The driver learns it once; until it has ended the attempt, its slot and its reservations are held."""
    hands = Hands(lane_config(slots=2, tpm=100_000))
    in_flight, other = hands.arrive("a"), hands.arrive("b")
    hands.apply(StopAgent("a", True))
    hands.apply(StopAgent("a", True))
    assert hands.ending == [in_flight]
    assert (in_flight.state, in_flight.refusal) == (TicketState.IN_FLIGHT, STOPPED)
    assert hands.lane.gate.active == 2
    hands.leave(in_flight, Usage(100, 0, 0, 7))
    assert hands.lane.gate.active == 1
    assert hands.seen(Abandoned) == [Abandoned(0.0, in_flight.id, "a", LANE, True, Usage(100, 0, 0, 7))]
    window = hands.lane.allowances["m"].windows[WindowKind.TOKENS]
    assert (window.used - window.reserved, other.refusal) == (107.0, None)


def test_granted_a_moment_before() -> None:
    """A ticket that was granted by the same call as stopped is reported as both; the driver ends it unsent."""
    hands = Hands(lane_config(slots=1))
    holder, waiting = hands.arrive("b"), hands.arrive("a")
    hands.succeed(holder)
    hands.apply(StopAgent("a", True))
    assert hands.granted == hands.ending == [waiting]


@pytest.mark.parametrize("kind", [FailureKind.DISCONNECTED, FailureKind.RATE_LIMITED])
def test_a_stopped_attempt_that_fails_is_not_tried_again(kind: FailureKind) -> None:
    """It may fail in the moment before the driver ends it."""
    hands = Hands(lane_config(slots=2))
    in_flight = hands.arrive("a")
    hands.apply(StopAgent("a", True))
    assert hands.fail(in_flight, failure(kind)) is None
    assert in_flight.state is TicketState.DONE
    assert [event.retry_in_s for event in hands.seen(AttemptFailed)] == [None]


def test_a_stopped_attempt_that_is_answered_is_answered() -> None:
    """In the moment before the driver ends it, likewise; the agent is stopped all the same."""
    hands = Hands(lane_config(slots=2))
    in_flight = hands.arrive("a")
    hands.apply(StopAgent("a", True))
    hands.succeed(in_flight)
    hands.leave(in_flight)
    assert hands.seen(Abandoned) == []
    assert hands.arrive("a").refusal == STOPPED


def test_resumed_while_an_attempt_is_ended() -> None:
    """That one is ended; what comes now is sent."""
    hands = Hands(lane_config(slots=2))
    in_flight = hands.arrive("a")
    hands.apply(StopAgent("a", True))
    hands.apply(StopAgent("a", False))
    assert in_flight.refusal == STOPPED
    assert hands.arrive("a").state is TicketState.IN_FLIGHT


def test_a_stopped_agent_stays_paused() -> None:
    """The one has nothing to do with the other."""
    hands = Hands(lane_config(slots=2))
    hands.arrive("a")
    for command in (PauseAgent("a", True), StopAgent("a", True), StopAgent("a", False)):
        hands.apply(command)
    assert hands.arrive("a").in_queue


def test_the_agent_is_unknown() -> None:
    """Only an agent that was seen can be stopped."""
    hands = Hands()
    with pytest.raises(Rejected, match="no agent named 'zoe'; known: none yet"):
        hands.apply(StopAgent("zoe", True))


def test_a_stopped_agent_is_remembered_and_takes_no_place() -> None:
    """However long it is away it stays stopped, and it isn't one of those that may live at once."""
    hands = Hands(lane_config(slots=5), config=SchedulerConfig(max_agents=1, agent_idle_s=10.0))
    hands.succeed(hands.arrive("a"))
    assert not hands.scheduler.agents["a"].stopped
    hands.apply(StopAgent("a", True))
    assert not hands.scheduler.agents["a"].ordinary
    assert hands.arrive("b").state is TicketState.IN_FLIGHT
    assert hands.arrive("a").refusal == STOPPED
    refused: list[Ticket] = [hands.arrive("c")]
    assert [ticket.refusal.reason for ticket in refused if ticket.refusal] == ["too_many_agents"]


@pytest.mark.parametrize("retry", [True, False])
def test_nothing_is_blamed_and_all_is_released_once(retry: bool) -> None:
    """However many are cut after however long, level, circuit and retry budget stay; slot and budget are free again."""
    hands = Hands(lane_config(slots=2))
    hands.apply(SetBudget("a", tokens=1_000_000))
    ticket = hands.arrive("a", max_out=100)
    before = lane_state(hands.lane, hands.now, paused=False)
    for number in range(1, 12):
        hands.wait(1000.0)  # longer than any wait in the queue may be
        hands.apply(CutRequest("a", retry=retry))
        assert ticket.cut is not None
        with pytest.raises(Rejected, match="to be cut"):
            hands.apply(CutRequest("a"))
        again = hands.scheduler.fail(hands.now, ticket, ticket.cut)
        assert (again is not None) is retry
        if not retry:
            assert ticket.state is TicketState.DONE
            ticket = hands.arrive("a", max_out=100)
        assert (ticket.state, ticket.attempts) == (TicketState.IN_FLIGHT, number + 1 if retry else 1)
    after = lane_state(hands.lane, hands.now, paused=False)
    assert (after.level, after.circuit_errors, after.active) == (before.level, before.circuit_errors, 1)
    assert hands.lane.retries.spend(hands.now) == 0
    hands.succeed(ticket)
    account = hands.scheduler.agents["a"].own
    assert (account.reserved_tokens, hands.lane.gate.active) == (0, 0)


def test_which_one() -> None:
    """The only one needs no number, one whose answer has begun isn't sent again, and one that waits isn't in flight."""
    hands = Hands(lane_config(slots=2))
    first, second, third = (hands.arrive("a") for _ in range(3))
    for command, line in (
        (CutRequest("a"), f"a has 2 requests in flight; say which (in flight: {first.id}, {second.id})"),
        (CutRequest("a", third.id), f"a has no request {third.id} in flight"),
        (CutRequest("b"), "no agent named 'b'"),
    ):
        with pytest.raises(Rejected) as refused:
            hands.apply(command)
        assert str(refused.value).startswith(line)
    hands.scheduler.first_content(hands.now, first)
    with pytest.raises(Rejected, match="can only be cut, not retried"):
        hands.apply(CutRequest("a", first.id))
    hands.apply(CutRequest("a", first.id, retry=False))
    assert first.cut is not None
    assert not first.cut.retryable

"""Agents that count as urgent for a while."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.commands import BoostAgent, PauseAgent, Rejected, SetPriority
from hivemind.scheduler.events import Arrived, BoostEnded, Commanded
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Priority


def busy(slots: int = 1) -> tuple[Hands, Ticket]:
    hands = Hands(lane_config(slots=slots))
    return hands, hands.arrive("holder")


def test_what_waits_and_what_comes_is_critical() -> None:
    """For the time of the boost; what comes later is what it asks for again."""
    hands, holder = busy()
    other, waiting = hands.arrive("b", priority=Priority.HIGH), hands.arrive("a", priority=Priority.LOW)
    hands.apply(BoostAgent("a", 30.0))
    coming = hands.arrive("a")
    assert [ticket.priority for ticket in (waiting, coming, other)] == [0, 0, Priority.HIGH]
    assert hands.seen(Arrived)[-1].priority is Priority.CRITICAL
    hands.succeed(holder)
    assert hands.granted[0].agent.name == "a"
    hands.wait(30.0)
    later = hands.arrive("a", priority=Priority.LOW)
    assert later.priority is Priority.LOW


def test_it_goes_before_what_the_operator_decided() -> None:
    """Before and meanwhile; what he decided counts from its end on."""
    hands, _ = busy()
    waiting = hands.arrive("a")
    counted = []
    for command in (SetPriority("a", Priority.LOW), BoostAgent("a", 30.0), SetPriority("a", Priority.HIGH)):
        hands.apply(command)
        counted.append(waiting.priority)
    hands.wait(30.0)
    assert [*counted, waiting.priority] == [Priority.LOW, Priority.CRITICAL, Priority.CRITICAL, Priority.HIGH]


def test_it_ends_by_itself() -> None:
    """With an event, at its time and not before, and what still waits moves back."""
    hands, _ = busy()
    waiting, high = hands.arrive("a"), hands.arrive("b", priority=Priority.HIGH)
    hands.apply(BoostAgent("a", 30.0))
    hands.wait(29.9)
    assert (waiting.priority, hands.seen(BoostEnded)) == (Priority.CRITICAL, [])
    hands.wait(0.1)
    assert hands.seen(BoostEnded) == [BoostEnded(30.0, "a")]
    assert waiting.priority is Priority.NORMAL
    assert [hold.ticket for hold in lane_state(hands.lane, hands.now, paused=False).upcoming] == [high.id, waiting.id]


def test_a_later_one_counts_from_its_own_time() -> None:
    """Longer or shorter; there is one end."""
    hands, _ = busy()
    hands.arrive("a")
    hands.apply(BoostAgent("a", 30.0))
    hands.wait(10.0)
    hands.apply(BoostAgent("a", 100.0))
    hands.wait(99.0)
    assert hands.seen(BoostEnded) == []
    hands.apply(BoostAgent("a", 0.5))
    hands.wait(200.0)
    assert hands.seen(BoostEnded) == [BoostEnded(109.5, "a")]


def test_it_can_be_ended() -> None:
    """At once and once; ending none is no event but the command's."""
    hands, _ = busy()
    waiting = hands.arrive("a")
    hands.apply(BoostAgent("a", 30.0))
    hands.apply(BoostAgent("a", 0))
    assert waiting.priority is Priority.NORMAL
    hands.apply(BoostAgent("a", 0))
    hands.wait(60.0)
    assert hands.seen(BoostEnded) == [BoostEnded(0.0, "a")]
    assert [event.arguments for event in hands.seen(Commanded)] == [
        {"agent": "a", "for_s": for_s} for for_s in (30.0, 0, 0)
    ]


def test_a_retry_comes_back_as_urgent_as_its_agent_is_then() -> None:
    """A ticket between two attempts isn't in the queue, and moves all the same."""
    hands, holder = busy(slots=2)
    hands.lane.retries.failure_share = 1.0
    hands.fail(holder)
    hands.apply(BoostAgent("holder", 30.0))
    assert (holder.state, holder.priority) == (TicketState.BACKING_OFF, Priority.CRITICAL)
    hands.wait(5.0)
    assert holder.state is TicketState.IN_FLIGHT


def test_its_end_lets_others_go() -> None:
    """A large request that kept its family waiting at the head of the queue no longer stands there."""
    hands = Hands(lane_config(slots=9, tpm=2000))
    hands.succeed(hands.arrive("a", size=4))
    hands.apply(BoostAgent("a", 3.0))
    hands.arrive("holder", size=2000)
    large, small = hands.arrive("a", size=6000), hands.arrive("b", size=400)
    hands.wait(2.9)
    assert (large.in_queue, small.in_queue) == (True, True)
    hands.wait(0.1)
    assert (large.in_queue, small.in_queue) == (True, False)


@pytest.mark.parametrize("for_s", [-1.0, 3601.0, math.nan, math.inf])
def test_how_long_it_may_last(for_s: float) -> None:
    """An hour at most; the text says so, and nothing changes."""
    hands, _ = busy()
    waiting = hands.arrive("a")
    with pytest.raises(Rejected) as rejected:
        hands.apply(BoostAgent("a", for_s))
    assert str(rejected.value) == f"boost {for_s:g}: must be a number of seconds up to 3,600, or 0 to end it"
    assert waiting.priority is Priority.NORMAL


def test_the_agent_is_unknown() -> None:
    """Only an agent that was seen can be boosted."""
    hands, _ = busy()
    with pytest.raises(Rejected, match="no agent named 'zoe'; known: holder"):
        hands.apply(BoostAgent("zoe", 5.0))


def test_it_is_remembered_for_so_long() -> None:
    """However long the agent asks for nothing."""
    hands, holder = busy()
    hands.succeed(holder)
    agent = holder.agent
    hands.apply(BoostAgent("holder", 3600.0))
    assert not agent.ordinary
    hands.wait(3600.0)
    assert agent.ordinary


def test_a_held_agent_stays_held() -> None:
    """Urgent or not."""
    hands, holder = busy(slots=2)
    hands.apply(PauseAgent("holder", True))
    hands.apply(BoostAgent("holder", 5.0))
    waiting = hands.arrive("holder")
    hands.succeed(holder)
    hands.wait(10.0)
    assert waiting.in_queue

"""Deadlines: the earliest goes first within a class, and what can't make its own is told at once."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, failure, lane_config

from hivemind.scheduler.commands import BeginAgent, PauseAgent
from hivemind.scheduler.config import QueueConfig, RetryConfig
from hivemind.scheduler.events import Refused
from hivemind.scheduler.ticket import FINAL_STATUS, TicketState
from hivemind.scheduler.types import FailureKind, Priority


def order(hands: Hands, waiting: int) -> str:
    """The agents in the order in which the one slot is given to them."""
    found = ""
    for _ in range(waiting):
        hands.succeed(hands.granted[-1])
        hands.wait(0.02)  # no slot is kept any more for those who were answered
        found += hands.granted[-1].agent.name
    return found


def busy(**about: object) -> Hands:
    hands = Hands(lane_config(slots=1), **about)  # type: ignore[arg-type]
    hands.granted.append(hands.arrive("z"))
    return hands


def test_the_earliest_deadline_goes_first_within_its_class() -> None:
    """Before those without one, whatever each was served; never before a more urgent class."""
    hands = busy()
    hands.apply(BeginAgent("e", deadline_s=150.0))
    for name, about in {
        "a": {},
        "b": {"deadline_s": 300.0},
        "c": {"deadline_s": 100.0},
        "d": {"priority": Priority.HIGH},
        "e": {},
        "f": {"deadline_s": 50.0, "priority": Priority.LOW},
        "g": {"deadline_s": 200.0, "family": "other"},
        "h": {"deadline_s": 10.0},
    }.items():
        hands.arrive(name, **about)  # type: ignore[arg-type]
    hands.apply(PauseAgent("h", True))
    assert [each.agent.name for each in hands.lane.queue.upcoming(0.0, 4)] == ["d", "c", "e", "g"]
    assert order(hands, 5) == "dcegb"
    hands.apply(PauseAgent("h", False))
    assert order(hands, 3) == "haf"


def test_what_cannot_make_its_deadline_is_told_at_once() -> None:
    """By the pause, the window or the tickets before it, with the seconds until its turn; and so is what is late."""
    hands = busy()
    hands.until(10.0)
    hands.succeed(hands.granted[0])  # it held the slot for ten seconds
    hands.arrive("z")
    waiting = [hands.arrive(f"w{n}", deadline_s=99.0) for n in range(4)]
    late = hands.arrive("late", deadline_s=99.5, priority=Priority.LOW)
    assert late.state is TicketState.QUEUED
    soon = hands.arrive("soon", deadline_s=30.0, priority=Priority.LOW)
    assert soon.refusal is not None
    assert (soon.refusal.reason, soon.refusal.status, soon.refusal.retry_after_s) == ("deadline", FINAL_STATUS, None)
    assert soon.refusal.turn_in_s == pytest.approx(60, abs=15)
    assert hands.arrive("over", deadline_s=-1.0).refusal is not None
    assert hands.arrive("first", deadline_s=30.0).state is TicketState.QUEUED
    hands.until(110.0)
    assert {each.refusal and each.refusal.reason for each in waiting} == {"deadline"}


def test_one_that_a_pause_outlasts() -> None:
    hands = busy()
    hands.fail(hands.granted[0], failure(FailureKind.RATE_LIMITED, delay_s=120.0))
    refusal = hands.arrive("a", deadline_s=60.0).refusal
    assert refusal is not None
    assert refusal.gate == "rate_limited"
    assert refusal.turn_in_s == pytest.approx(120.0, abs=1)
    assert hands.arrive("a", deadline_s=150.0).refusal is None


@pytest.mark.parametrize(
    ("retry", "attempts", "patience_s", "bounds"),
    [
        (RetryConfig(), 0, None, ("queue.max_wait_s",)),
        (RetryConfig(), 1, None, ("queue.max_wait_s", "retry.deadline_s")),
        (RetryConfig(deadline_s=100.0), 1, None, ("retry.deadline_s",)),
        (RetryConfig(), 0, 290.0, ("patience",)),
    ],
)
def test_a_refusal_names_what_bounded_the_wait(
    retry: RetryConfig, attempts: int, patience_s: float | None, bounds: tuple[str, ...]
) -> None:
    """And what kept the request, with the seconds until its turn where they are known."""
    hands = Hands(lane_config(slots=1), queue=QueueConfig(), retry=retry)
    ticket = hands.arrive("a", patience_s=patience_s)
    if attempts:
        hands.fail(ticket, failure(FailureKind.RATE_LIMITED, delay_s=5.0))
        hands.arrive("z", priority=Priority.CRITICAL)
        hands.until(6.0)
        assert hands.granted[0].agent.name == "z"
    else:
        hands.succeed(ticket)
        hands.arrive("z")
        ticket = hands.arrive("a", patience_s=patience_s)
    hands.until(700.0)
    refusal = ticket.refusal
    assert refusal is not None
    assert (refusal.reason, refusal.bounds, refusal.gate) == ("wait_too_long", bounds, "slot")
    assert hands.seen(Refused)[0].bounds == bounds


@pytest.mark.parametrize("at", [848.026, 16_022.759, 65_159.297])
def test_what_bounded_the_wait_is_named_at_any_moment(at: float) -> None:
    """Also where the difference of two moments is less than the limit, by rounding."""
    hands = Hands(lane_config(slots=1))
    hands.now = at
    hands.arrive("a")
    ticket = hands.arrive("b")
    hands.until(at + 700.0)
    assert ticket.refusal is not None
    assert ticket.refusal.bounds == ("queue.max_wait_s",)

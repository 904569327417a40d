"""The scheduler's alarm clock."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import Hands, failure, lane_config

from hivemind.scheduler.commands import BoostAgent
from hivemind.scheduler.dispatcher import FEW, WAIT_TOO_LONG, Timers
from hivemind.scheduler.events import BoostEnded
from hivemind.scheduler.ticket import Agent
from hivemind.scheduler.types import FailureKind


@pytest.fixture
def timers() -> Timers:
    return Timers()


def test_wakes_in_order_of_time_then_of_setting(timers: Timers) -> None:
    """Two for the same moment keep the order in which they were set."""
    lane, agent = Hands().lane, Agent("agent", 0.0)
    for at, subject in ((3.0, lane), (1.0, agent), (3.0, agent), (2.0, lane)):
        timers.set(at, subject)
    assert list(timers.due(3.0)) == [(1.0, agent), (2.0, lane), (3.0, lane), (3.0, agent)]


def test_only_what_is_due(timers: Timers) -> None:
    """The rest stays, and next_at says when."""
    lane = Hands().lane
    timers.set(1.0, lane)
    timers.set(2.0, lane)
    assert len(list(timers.due(1.5))) == 1
    assert timers.next_at == 2.0


def test_includes_what_is_set_meanwhile(timers: Timers) -> None:
    """A timer set by a timer for the same moment isn't left for later."""
    lane = Hands().lane
    timers.set(1.0, lane)
    due = timers.due(1.0)
    next(due)
    timers.set(1.0, lane)
    assert list(due) == [(1.0, lane)]


def test_never_is_no_timer(timers: Timers) -> None:
    """What waits for something to happen sets none."""
    timers.set(math.inf, Hands().lane)
    assert timers.next_at is None


def test_what_matters_no_more_is_dropped() -> None:
    """However many come and go while one waits, timers and the tickets in them don't pile up; those of one that
    waits, backs off or is boosted still go off."""
    hands = Hands(lane_config(slots=2))
    hands.arrive("holder")
    failed = hands.arrive("unlucky")
    hands.fail(failed, failure(FailureKind.TIMEOUT, delay_s=200.0))
    hands.arrive("holder")
    patient = hands.arrive("patient")
    hands.apply(BoostAgent("patient", 100.0))
    for _ in range(5 * FEW):
        hands.leave(hands.arrive("comes and goes"))
    assert len(hands.scheduler.timers) <= FEW
    hands.wait(150.0)
    assert [event.agent for event in hands.seen(BoostEnded)] == ["patient"]
    assert list(hands.lane.backing_off) == [failed.id]
    hands.wait(449.0)
    assert (hands.lane.backing_off, failed.waiting, patient.waiting) == ({}, True, True)
    hands.wait(1.0)
    assert [each.refusal and each.refusal.reason for each in (patient, failed)] == [WAIT_TOO_LONG.reason] * 2

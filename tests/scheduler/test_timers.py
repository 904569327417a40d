"""The scheduler's alarm clock."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import Hands

from hivemind.scheduler.timers import Timer, Timers


@pytest.fixture
def timers() -> Timers:
    return Timers()


def test_wakes_in_order_of_time_then_of_setting(timers: Timers) -> None:
    """Two for the same moment keep the order in which they were set."""
    lane = Hands().lane
    for at, kind in ((3.0, Timer.LANE), (1.0, Timer.DUE), (3.0, Timer.EXPIRE), (2.0, Timer.LANE)):
        timers.set(at, kind, lane)
    assert [(at, kind) for at, kind, _ in timers.due(3.0)] == [
        (1.0, Timer.DUE),
        (2.0, Timer.LANE),
        (3.0, Timer.LANE),
        (3.0, Timer.EXPIRE),
    ]


def test_only_what_is_due(timers: Timers) -> None:
    """The rest stays, and next_at says when."""
    lane = Hands().lane
    timers.set(1.0, Timer.LANE, lane)
    timers.set(2.0, Timer.LANE, lane)
    assert len(list(timers.due(1.5))) == 1
    assert timers.next_at == 2.0


def test_includes_what_is_set_meanwhile(timers: Timers) -> None:
    """A timer set by a timer for the same moment isn't left for later."""
    lane = Hands().lane
    timers.set(1.0, Timer.LANE, lane)
    due = timers.due(1.0)
    next(due)
    timers.set(1.0, Timer.DUE, lane)
    assert [kind for _, kind, _ in due] == [Timer.DUE]


def test_never_is_no_timer(timers: Timers) -> None:
    """What waits for something to happen sets none."""
    timers.set(math.inf, Timer.LANE, Hands().lane)
    assert timers.next_at is None

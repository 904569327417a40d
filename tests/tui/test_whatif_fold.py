"""Courses folded from events: means of stretches, whatever the length of the run; and where two runs part."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tui.decks import recording

from hivemind.scheduler import events as ev
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.types import FailureKind, Priority
from hivemind_tui.whatif.protocol import RunSeries
from hivemind_tui.whatif.worker import MOST_INTERVALS, SeriesFold, first_difference

LANE = "anthropic"


def arrived(at: float, ticket: int) -> ev.Event:
    return ev.Arrived(at, ticket, "alice", LANE, "m", "f", Priority.NORMAL, True, 10, 10)


def granted(at: float, ticket: int) -> ev.Event:
    return ev.Granted(at, ticket, "alice", LANE, 1, 0.0)


def failed(at: float, ticket: int, retry_in_s: float | None) -> ev.Event:
    return ev.AttemptFailed(at, ticket, "alice", LANE, 1, FailureKind.OVERLOADED, 529, "", retry_in_s)


def finished(at: float, ticket: int) -> ev.Event:
    return ev.Finished(at, ticket, "alice", LANE, "m", 200, 1, None, 1.0)


def folded(events: Sequence[ev.Event]) -> RunSeries:
    fold = SeriesFold()
    for event in events:
        fold.apply(event)
    return fold.series()


def test_a_run_begins_with_its_first_request() -> None:
    """What comes before, and gauges taken after the last request is over, are no part of it."""
    opened = ev.LaneOpened(0.0, LANE, "anthropic", "anthropic", LaneConfig("anthropic", "anthropic", max_concurrency=4))
    events = [opened, arrived(100.0, 1), granted(101.0, 1), finished(104.0, 1), ev.Sampled(9000.0, ())]
    course = folded(events)
    assert course.lasts_s == pytest.approx(4.0)
    assert course.waiting == [1.0] * 4 + [0.0] * 12
    assert course.in_flight == [0.0] * 4 + [1.0] * 12
    assert set(course.level) == {4.0}


def test_between_two_attempts_a_request_waits() -> None:
    """It is in flight again with its next grant; one whose failure is the client's is over."""
    events = [arrived(0.0, 1), granted(0.0, 1), failed(1.0, 1, 2.0), granted(3.0, 1), failed(4.0, 1, None)]
    course = folded([*events, arrived(5.0, 2), finished(6.0, 2)])
    assert course.in_flight == [1.0] * 4 + [0.0] * 8 + [1.0] * 4 + [0.0] * 8
    assert course.waiting == [0.0] * 4 + [1.0] * 8 + [0.0] * 8 + [1.0] * 4


def test_levels_of_lanes_are_added_up() -> None:
    """One without a limit leaves nothing to draw."""
    levels = [ev.LevelChanged(0.0, "a", 3.0, "grow"), ev.LevelChanged(0.0, "b", 2.5, "grow")]
    assert folded([*levels, arrived(0.0, 1), finished(0.25, 1)]).level == [5.5]
    assert folded([ev.LevelChanged(0.0, "c", math.inf, "grow"), arrived(0.0, 1), finished(0.25, 1)]).level == [None]


@given(st.lists(st.tuples(st.floats(0.001, 4000), st.floats(0, 50), st.floats(0, 500)), min_size=1, max_size=20))
def test_however_long_it_takes_nothing_is_lost(asked: list[tuple[float, float, float]]) -> None:
    """Stretches are few, cover the run, and hold the seconds that requests flew and waited."""
    events: list[ev.Event] = []
    now = flew = waited = 0.0
    for ticket, (gap, waits, flies) in enumerate(asked):
        now += gap
        events += [arrived(now, ticket), granted(now + waits, ticket), finished(now + waits + flies, ticket)]
        waited, flew = waited + waits, flew + flies
    course = folded(sorted(events, key=lambda event: event.at))
    assert len(course.in_flight) <= MOST_INTERVALS
    first, last = events[0].at, max(event.at for event in events)
    assert -1e-6 <= course.lasts_s - (last - first) <= course.width_s * 1.001
    # The last stretch may be shorter than its width, so its means count for less.
    assert sum(course.in_flight) * course.width_s >= flew * 0.999 - 1e-6
    assert sum(course.waiting) * course.width_s >= waited * 0.999 - 1e-6
    assert sum(course.in_flight[:-1]) * course.width_s <= flew * 1.001 + 1e-6


def test_a_whole_recording_has_a_course() -> None:
    """Of every kind of event."""
    course = folded(recording())
    assert max(course.in_flight) > 1
    assert course.lasts_s == pytest.approx(112, abs=3)


def test_runs_part_with_the_first_other_grant() -> None:
    """Another time, another request, one grant more or less; what comes later doesn't count."""
    first = [(1.0, 1), (2.0, 2), (3.0, 3)]
    assert first_difference(first, first) is None
    assert first_difference(first, [(1.0, 1), (2.5, 2), (3.0, 3)]) == 2.0
    assert first_difference(first, [(1.0, 1), (2.0, 3), (3.0, 2)]) == 2.0
    assert first_difference(first, first[:2]) == 3.0
    assert first_difference(first[:2], first) == 3.0

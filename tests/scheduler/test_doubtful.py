"""Resets that a rate window can't have: what replies say never freezes a lane."""

from __future__ import annotations

import math

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.driving import LANE, Hands, failure, lane_config

from hivemind.scheduler.commands import ReleaseLane
from hivemind.scheduler.events import ResetDoubted
from hivemind.scheduler.limits import PROBE_S, Window
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import FailureKind, Usage, WindowKind, WindowReading

DAY_S = 86400.0
YEAR_9999_S = 2.5e11
REQUESTS = WindowKind.REQUESTS
LATE = [62.0, 330.0, 3600.0, DAY_S]
ABSURD = [DAY_S + 1, 3.6e8, YEAR_9999_S, 1e15, 1e300, math.inf, math.nan]


def told(hands: Hands, remaining: int, reset_in_s: float | None, *, limit: int = 100, agent: str = "a") -> Ticket:
    """A request whose reply says so."""
    ticket = hands.arrive(agent)
    assert ticket.state is TicketState.IN_FLIGHT
    answer(hands, ticket, remaining, reset_in_s, limit=limit)
    return ticket


def answer(hands: Hands, ticket: Ticket, remaining: int, reset_in_s: float | None, *, limit: int = 100) -> None:
    hands.scheduler.headers(hands.now, ticket, (WindowReading(REQUESTS, limit, remaining, reset_in_s),))
    hands.succeed(ticket, Usage(10, 0, 0, 10))


def waited_s(hands: Hands, ticket: Ticket, most_s: float = 60.0) -> float:
    """How long the ticket, which has just come, waits for its turn."""
    began = hands.now
    while ticket.state is TicketState.QUEUED and hands.now <= began + most_s:
        wake = hands.scheduler.wake_at()
        assert wake is not None, "nothing would ever wake it"
        hands.until(max(wake, hands.now))
    assert ticket.state is TicketState.IN_FLIGHT
    return hands.now - began


def window(hands: Hands, family: str = "m") -> Window:
    return hands.lane.allowances[family].windows[REQUESTS]


@pytest.mark.parametrize("reset_in_s", LATE + ABSURD)
def test_a_reset_that_no_window_has_holds_no_request_for_a_minute(reset_in_s: float) -> None:
    """Whatever it is, one request goes through as a probe."""
    hands = Hands(lane_config(slots=5))
    told(hands, 0, reset_in_s)
    assert waited_s(hands, hands.arrive()) == pytest.approx(PROBE_S)


def test_only_one_request_goes_through_as_a_probe() -> None:
    """The others wait for what its reply says, and if it says nothing, for the next probe."""
    hands = Hands(lane_config(slots=10))
    told(hands, 0, DAY_S)
    waiting = [hands.arrive(f"a{n}") for n in range(5)]
    hands.wait(PROBE_S + 1)
    assert sum(ticket.state is TicketState.IN_FLIGHT for ticket in waiting) == 1
    hands.wait(PROBE_S)
    assert sum(ticket.state is TicketState.IN_FLIGHT for ticket in waiting) == 2


def test_a_sane_word_rules_again() -> None:
    """What a probe's reply says of a minute's window replaces the doubtful word, in either direction."""
    hands = Hands(lane_config(slots=10))
    told(hands, 0, YEAR_9999_S)
    probe = hands.arrive()
    waited_s(hands, probe)
    answer(hands, probe, 5, 30.0)  # of which two are left to others on the key
    assert [hands.arrive(f"a{n}").state for n in range(4)] == [TicketState.IN_FLIGHT] * 3 + [TicketState.QUEUED]
    assert window(hands).resets_in_s(hands.now) == pytest.approx(30.0)


def test_a_refused_probe_waits_as_the_provider_says() -> None:
    """A 429 with a delay pauses the lane, as ever; the next probe comes no sooner than the first did."""
    hands = Hands(lane_config(slots=10))
    told(hands, 0, DAY_S)
    probe = hands.arrive()
    waited_s(hands, probe)
    hands.fail(probe, failure(FailureKind.RATE_LIMITED, delay_s=100.0))
    hands.wait(99.0)
    assert probe.waiting
    hands.wait(2.0)
    assert not probe.waiting


def test_a_provider_that_serves_what_it_says_it_will_not_is_believed_less_and_less() -> None:
    """Each answered probe halves the time to the next, down to none; so a wrong header costs a minute and a half in
    all, not 45 s a request."""
    hands = Hands(lane_config(slots=10))
    told(hands, 0, DAY_S)
    waits = []
    for _ in range(9):
        probe = hands.arrive()
        waits.append(waited_s(hands, probe))
        answer(hands, probe, 0, DAY_S)
    assert waits == pytest.approx([45, 22.5, 11.25, 5.625, 2.8125, 1.40625, 0, 0, 0], abs=0.01)


def test_a_refusal_restores_the_doubt() -> None:
    """The provider enforces its limit after all."""
    hands = Hands(lane_config(slots=10))
    told(hands, 0, DAY_S)
    for _ in range(3):
        probe = hands.arrive()
        waited_s(hands, probe)
        answer(hands, probe, 0, DAY_S)
    probe = hands.arrive()
    waited_s(hands, probe)
    hands.fail(probe, failure(FailureKind.RATE_LIMITED, retryable=False, delay_s=3600.0))
    assert waited_s(hands, hands.arrive()) == pytest.approx(PROBE_S)


def test_a_day_s_window_with_room_is_used() -> None:
    """Groq states requests a day; what is left may be used at once."""
    hands = Hands(lane_config(slots=50))
    told(hands, 14_370, 180.0, limit=14_400)
    assert {hands.arrive(f"a{n}").state for n in range(49)} == {TicketState.IN_FLIGHT}


def test_a_day_s_window_that_drips_is_followed() -> None:
    """Each reply's word counts as it is, also where its reset is about the same as before."""
    hands = Hands(lane_config(slots=50))
    told(hands, 0, DAY_S, limit=86_400)
    probe = hands.arrive()
    waited_s(hands, probe)
    answer(hands, probe, 44, DAY_S - 44, limit=86_400)
    states = [hands.arrive(f"a{n}").state for n in range(44)]
    assert states == [TicketState.IN_FLIGHT] * 42 + [TicketState.QUEUED] * 2 or states == [TicketState.IN_FLIGHT] * 44


def test_one_absurd_reset_leaves_a_bucket_a_bucket() -> None:
    """It drips by its limit, whatever its reset is said to be."""
    hands = Hands(lane_config(slots=50))
    for _ in range(4):
        told(hands, 0, 60.0, limit=60)
        hands.wait(61)
    told(hands, 0, YEAR_9999_S, limit=60)
    assert waited_s(hands, hands.arrive()) == pytest.approx(3.0)  # two are left to others on the key


def test_it_is_reported_once_a_kind() -> None:
    """Not with every reply: the lane, what the window counts, and what was stated."""
    hands = Hands(lane_config(slots=5))
    for n, reset_in_s in enumerate([YEAR_9999_S, 1e15, math.inf, DAY_S, 330.0]):
        told(hands, 0, reset_in_s, agent=f"a{n}")
        hands.wait(61)
    assert [(event.kind, event.reset_in_s, event.absurd) for event in hands.seen(ResetDoubted)] == [
        (REQUESTS, YEAR_9999_S, True),
        (REQUESTS, DAY_S, False),
    ]


def test_people_are_shown_when_it_is_checked() -> None:
    """The gate that is shut opens with the probe, and the window says when that is."""
    hands = Hands(lane_config(slots=5))
    told(hands, 0, DAY_S)
    hands.arrive("b")
    (lane,) = hands.scheduler.sample(hands.now).lanes
    (hold,), (shown,) = lane.upcoming, lane.windows
    assert (hold.gate, shown.resets_in_s) == ("requests", DAY_S)
    assert [hold.opens_in_s, hold.estimate_s, shown.probe_in_s] == pytest.approx([PROBE_S] * 3)
    hands.scheduler.apply(hands.now, ReleaseLane(LANE), "you")
    assert [state.probe_in_s for state in hands.scheduler.sample(hands.now).lanes[0].windows] == [None]


@pytest.mark.parametrize("reset_in_s", [30.0, DAY_S, YEAR_9999_S])
def test_an_operator_s_release_ends_a_closed_window(reset_in_s: float) -> None:
    """Whatever the headers said, requests that wait go at once."""
    hands = Hands(lane_config(slots=5))
    told(hands, 0, reset_in_s)
    waiting = hands.arrive()
    hands.apply(ReleaseLane(LANE))
    assert waiting.state is TicketState.IN_FLIGHT


def test_a_release_leaves_our_own_limits_alone() -> None:
    """They are the operator's, who can set others."""
    hands = Hands(lane_config(slots=5, rpm=1, rpm_binding=True))
    told(hands, 50, 30.0)
    waiting = hands.arrive()
    hands.apply(ReleaseLane(LANE))
    assert waiting.state is TicketState.QUEUED
    assert waited_s(hands, waiting) == pytest.approx(60.0)


NUMBERS = st.one_of(st.none(), st.integers(-5, 2000), st.sampled_from([0, 10**15, 10**18, 10**400, -(10**400)]))
RESETS = st.one_of(
    st.none(),
    st.floats(-100, 200),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([*LATE, *ABSURD, 60.9, 61.0, 61.1, -1e300, -math.inf]),
)
READINGS = st.builds(WindowReading, st.sampled_from(WindowKind), NUMBERS, NUMBERS, RESETS)
STEPS = st.tuples(st.lists(READINGS, max_size=4), st.sampled_from([0.0, 0.5, 20.0, 61.0, 4000.0]), st.integers(0, 3))


@settings(derandomize=True, deadline=None, max_examples=examples(400))
@given(st.lists(STEPS, min_size=1, max_size=8), st.sampled_from([0, 10**6]), st.integers(0, 10**15))
def test_no_replies_hold_a_lone_request_for_more_than_a_minute(
    steps: list[tuple[list[WindowReading], float, int]], rpm: int, used: int
) -> None:
    """Whatever they say, in whatever order, of whatever was used."""
    hands = Hands(lane_config(slots=4, rpm=rpm))
    for readings, gap_s, end in steps:
        ticket = hands.arrive()
        if ticket.state is TicketState.IN_FLIGHT:
            hands.scheduler.headers(hands.now, ticket, tuple(readings))
            if end == 1:
                hands.succeed(ticket, Usage(used, 0, 0, used))
            elif end == 2:
                hands.fail(ticket, failure(FailureKind.RATE_LIMITED, retryable=False))
        hands.wait(gap_s)
    for ticket in [each for agent in hands.scheduler.agents.values() for each in agent.tickets.values()]:
        hands.leave(ticket)
    waited_s(hands, hands.arrive(size=4), 60.01)

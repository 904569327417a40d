"""Another attempt for a request that failed: when, how often, after which delay, and from which budget."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from scheduler.driving import Hands, failure, lane_config

from hivemind.scheduler.admission.retry import Retries, backoff_s
from hivemind.scheduler.config import RetryConfig, SchedulerConfig
from hivemind.scheduler.events import AttemptFailed, Granted, LaneRateLimited, LaneReleased
from hivemind.scheduler.ticket import TicketState
from hivemind.scheduler.types import FailureKind, WindowKind

LIMIT = FailureKind.RATE_LIMITED


def test_the_slot_is_given_back_while_a_ticket_waits_for_its_retry() -> None:
    """Another request is in flight meanwhile."""
    hands = Hands(lane_config(slots=1))
    failed, waiting = hands.arrive("a"), hands.arrive("b")
    assert hands.fail(failed) == 1.0
    assert waiting.state is TicketState.IN_FLIGHT
    assert (failed.state, list(hands.lane.backing_off)) == (TicketState.BACKING_OFF, [failed.id])


def test_backoff_escalates_while_no_request_succeeds() -> None:
    """Equation 4 over the lane's failures in a row, with the jitter that was drawn."""
    hands = Hands(draw=lambda: 0.5)
    ticket = hands.arrive()
    delays = []
    for _ in range(4):
        again = hands.fail(ticket)
        assert again is not None
        delays.append(again - hands.now)
        hands.until(again)
    assert delays == pytest.approx([1.5, 2.5, 4.5, 8.5])


def test_failures_among_others_successes_do_not_escalate() -> None:
    """Bad luck isn't an upstream that needs ever more room."""
    hands = Hands(lane_config(slots=0), config=SchedulerConfig(backpressure=False))
    ticket = hands.arrive("a")
    delays = []
    for _ in range(4):
        hands.succeed(hands.arrive("b"))
        again = hands.fail(ticket)
        assert again is not None
        delays.append(again - hands.now)
        hands.until(again)
    assert delays == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("kind", "delay_s"),
    [
        (FailureKind.SERVER_ERROR, 0.0),
        (FailureKind.DISCONNECTED, 0.0),
        (FailureKind.RATE_LIMITED, 1.0),
        (FailureKind.OVERLOADED, 1.0),
        (FailureKind.CONNECT, 1.0),
        (FailureKind.TIMEOUT, 1.0),
    ],
)
def test_a_lone_failure_is_tried_again_at_once(kind: FailureKind, delay_s: float) -> None:
    """Where all had gone well and chance is the likely cause; a second time in a row it waits."""
    hands = Hands(lane_config(slots=0))
    for _ in range(20):
        hands.succeed(hands.arrive("b"))
    ticket = hands.arrive("a")
    assert hands.fail(ticket, failure(kind)) == delay_s
    hands.until(delay_s)
    assert ticket.state is TicketState.IN_FLIGHT
    again = hands.fail(ticket, failure(kind))
    assert again is not None
    assert again > delay_s


@pytest.mark.parametrize("kind", [LIMIT, FailureKind.OVERLOADED, FailureKind.SERVER_ERROR])
def test_the_providers_delay_overrides_ours_and_pauses_the_lane(kind: FailureKind) -> None:
    """Nothing is sent until it is over, whichever agent asks."""
    hands = Hands(lane_config(slots=4))
    ticket = hands.arrive("a")
    assert hands.fail(ticket, failure(kind, delay_s=7.0)) == 7.0
    other = hands.arrive("b")
    hands.until(6.99)
    assert hands.granted == []
    hands.until(8.0)
    assert set(hands.granted) == {ticket, other}
    assert [event.for_s for event in hands.seen(LaneRateLimited)] == [7.0]
    assert [event.at for event in hands.seen(LaneReleased)] == [7.0]


def test_a_paused_lane_restarts_staggered() -> None:
    """Five that waited aren't sent at the same moment."""
    hands = Hands(lane_config(slots=8))
    hands.fail(hands.arrive("a"), failure(LIMIT, delay_s=5.0))
    for n in range(4):
        hands.arrive(f"b{n}")
    hands.until(10.0)
    starts = [event.at for event in hands.seen(Granted)][1:]
    assert starts[0] == 5.0
    assert [round(later - sooner, 3) for sooner, later in pairwise(starts)] == [0.05] * (len(starts) - 1)


def test_a_longer_word_extends_the_pause_a_shorter_does_not() -> None:
    """Of several 429s in flight together the longest delay counts."""
    hands = Hands(lane_config(slots=8))
    tickets = [hands.arrive(f"a{n}") for n in range(3)]
    for ticket, delay_s in zip(tickets, (5.0, 20.0, 1.0), strict=True):
        hands.fail(ticket, failure(LIMIT, delay_s=delay_s))
    hands.until(19.9)
    assert hands.granted == []
    hands.until(20.0)
    assert hands.granted[:1] == [tickets[0]]


def test_a_delay_of_nothing_is_none() -> None:
    """`Retry-After: 0` parks nothing and releases nothing; our own backoff holds."""
    hands = Hands()
    assert hands.fail(hands.arrive(), failure(LIMIT, delay_s=0.0)) == 1.0
    hands.until(5.0)
    assert hands.seen(LaneRateLimited) == []
    assert hands.seen(LaneReleased) == []


@pytest.mark.parametrize("delay_s", [301.0, 3600.0])
def test_a_delay_longer_than_any_rate_window_goes_to_the_agent(delay_s: float) -> None:
    """An hour means a quota; no ticket waits for it and the lane isn't paused."""
    hands = Hands(lane_config(slots=2))
    assert hands.fail(hands.arrive("a"), failure(LIMIT, delay_s=delay_s)) is None
    assert hands.arrive("b").state is TicketState.IN_FLIGHT


@pytest.mark.parametrize("kind", [FailureKind.QUOTA, FailureKind.CLIENT_ERROR])
def test_what_cannot_be_mended_goes_to_the_agent(kind: FailureKind) -> None:
    """And says nothing against the upstream: no cut, no circuit result."""
    hands = Hands(lane_config(slots=4))
    ticket = hands.arrive()
    assert hands.fail(ticket, failure(kind, retryable=False)) is None
    assert ticket.state is TicketState.DONE
    assert hands.lane.aimd.level == 4.0
    assert hands.lane.circuit.results == 0
    assert [event.retry_in_s for event in hands.seen(AttemptFailed)] == [None]


def test_nothing_is_retried_after_the_first_content() -> None:
    """The agent has seen part of the answer."""
    hands = Hands()
    ticket = hands.arrive()
    hands.content(ticket)
    assert hands.fail(ticket, failure(FailureKind.TRUNCATED)) is None


def test_attempts_are_bounded() -> None:
    """The last failure is the agent's to see."""
    hands = Hands(retry=RetryConfig(max_attempts=3))
    ticket = hands.arrive()
    for _ in range(2):
        again = hands.fail(ticket)
        assert again is not None
        hands.until(again)
    assert hands.fail(ticket) is None
    assert [event.attempt for event in hands.seen(AttemptFailed)] == [1, 2, 3]


def test_no_attempt_starts_after_the_deadline() -> None:
    """Neither one that would be due later nor one that had to queue for so long."""
    hands = Hands(lane_config(slots=1), retry=RetryConfig(deadline_s=10.0))
    hands.now = 9.5
    late = hands.scheduler.arrive(0.0, hands.arrive("x").request)
    hands.gather()
    assert late.in_queue
    hands.leave(late)
    hands = Hands(lane_config(slots=1), retry=RetryConfig(deadline_s=10.0))
    ticket = hands.arrive("a")
    hands.now = 9.5
    assert hands.fail(ticket) is None
    hands = Hands(lane_config(slots=1), retry=RetryConfig(deadline_s=10.0))
    ticket, holder = hands.arrive("a"), hands.arrive("b")
    hands.fail(ticket)
    hands.until(11.0)
    assert holder.state is TicketState.IN_FLIGHT
    assert ticket.refusal is not None


def test_no_retry_beyond_the_clients_patience() -> None:
    """An attempt after the client gave up is useless."""
    hands = Hands()
    assert hands.fail(hands.arrive(patience_s=20.0), failure(LIMIT, delay_s=30.0)) is None


def test_retries_are_a_share_of_the_traffic() -> None:
    """An outage isn't amplified: beyond the reserve they are put off to one a second."""
    retry = RetryConfig(budget_reserve=5, budget_ratio=0.0, base_s=0.0)
    hands = Hands(lane_config(slots=0), config=SchedulerConfig(retry=retry, backpressure=False))
    due = [hands.fail(hands.arrive(f"a{n}")) for n in range(10)]
    assert due == [0.0] * 5 + [1.0, 2.0, 3.0, 4.0, 5.0]


def test_requests_earn_retries() -> None:
    """Five requests at a fifth each cover one beyond the reserve."""
    hands = Hands(lane_config(slots=0), retry=RetryConfig(budget_reserve=1, budget_ratio=0.2, base_s=0.0))
    first, *others = [hands.arrive(f"a{n}") for n in range(6)]
    assert hands.fail(first) == 0.0
    for n in range(5):
        hands.arrive(f"b{n}")
    assert [hands.fail(ticket) for ticket in others[:2]] == pytest.approx([0.0, 1.0])


def test_pauses_that_the_provider_asked_for_do_not_escalate_our_own() -> None:
    """They are no faults of the ticket: its first one is answered with the first backoff."""
    hands = Hands()
    ticket = hands.arrive()
    for _ in range(3):
        again = hands.fail(ticket, failure(LIMIT, delay_s=1.0))
        assert again is not None
        hands.until(again)
    again = hands.fail(ticket, failure(FailureKind.TIMEOUT))
    assert again == hands.now + 1.0


def test_a_failed_connect_uses_no_allowance() -> None:
    """Nothing reached the provider; anything else may have been counted there."""
    hands = Hands(lane_config(slots=0, rpm=10))
    hands.fail(hands.arrive("a"), failure(FailureKind.CONNECT))
    window = hands.lane.allowances["m"].windows[WindowKind.REQUESTS]
    assert window.remaining(hands.now) == 10
    hands.fail(hands.arrive("b"), failure(FailureKind.DISCONNECTED))
    assert window.remaining(hands.now) == 9


@pytest.mark.parametrize(
    ("failures", "draw", "delay_s"),
    [(0, 0.0, 1.0), (1, 0.0, 2.0), (2, 0.0, 4.0), (3, 0.5, 8.5), (4, 0.9, 16.9), (5, 0.0, 30.0), (10_000, 0.9, 30.0)],
)
def test_backoff_doubles_with_jitter_up_to_its_most(failures: int, draw: float, delay_s: float) -> None:
    """Equation 4: min(d_max, d_base * 2^k + U(0, d_base))."""
    assert backoff_s(RetryConfig(base_s=1.0, max_s=30.0), failures, draw) == pytest.approx(delay_s)


def test_the_reserve_may_be_spent_at_once() -> None:
    """So many retries are free before any were earned; the next are put off, each longer than the last."""
    budget = Retries(RetryConfig(budget_reserve=3, budget_rate_per_s=2.0))
    assert [budget.spend(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 0.5, 1.0]


def test_the_budget_grows_with_requests() -> None:
    """Five requests at a ratio of a fifth pay for one retry."""
    budget = Retries(RetryConfig(budget_reserve=1, budget_ratio=0.2, budget_rate_per_s=1.0))
    budget.spend(0.0)
    for _ in range(5):
        budget.earn()
    assert budget.spend(0.0) == pytest.approx(0.0)
    assert budget.spend(0.0) == pytest.approx(1.0)


def test_time_earns_retries() -> None:
    """So that a lane without traffic isn't barred from retrying for ever."""
    budget = Retries(RetryConfig(budget_reserve=1, budget_rate_per_s=1.0))
    assert [budget.spend(0.0), budget.spend(0.0)] == [0.0, 1.0]
    assert budget.spend(2.0) == 0.0


def test_a_budget_that_time_does_not_fill_ends() -> None:
    """Where only requests earn retries, one that isn't covered is never due."""
    budget = Retries(RetryConfig(budget_reserve=1, budget_ratio=1.0, budget_rate_per_s=0.0))
    assert [budget.spend(0.0), budget.spend(9.0)] == [0.0, math.inf]
    budget.earn()
    assert budget.spend(10.0) == 0.0


def test_no_more_is_saved_up_than_the_reserve() -> None:
    """A quiet hour doesn't pay for a storm."""
    budget = Retries(RetryConfig(budget_reserve=2, budget_ratio=1.0, budget_rate_per_s=1.0))
    for _ in range(1000):
        budget.earn()
    budget.spend(0.0)
    assert [budget.spend(3600.0) for _ in range(3)] == [0.0, 0.0, 1.0]

"""The rules between lanes, agents and tickets: events, turning away, leaving."""

from __future__ import annotations

import pytest
from scheduler.driving import LANE, Hands, circuit_lane, failure, lane_config

from hivemind.scheduler.config import QueueConfig, SchedulerConfig
from hivemind.scheduler.events import Abandoned, Arrived, Finished, FirstContent, Granted, LaneOpened, Progress, Sampled
from hivemind.scheduler.ticket import TicketState
from hivemind.scheduler.types import Usage, WindowKind

# --- Events -----------------------------------------------------------------------------------------------------------


def test_a_request_that_succeeds_is_reported_from_arrival_to_end() -> None:
    """One event for each thing that happened, with its numbers."""
    hands = Hands()
    ticket = hands.arrive("a")
    hands.now = 1.0
    hands.content(ticket)
    hands.scheduler.progress(1.0, ticket, 7)
    hands.now = 3.0
    hands.succeed(ticket, Usage(100, 0, 0, 20))
    opened_lane, arrived, *rest = hands.log
    assert isinstance(opened_lane, LaneOpened)
    assert isinstance(arrived, Arrived)
    assert (arrived.estimated_input, arrived.estimated_output) == (100, 256)
    assert rest == [
        Granted(0.0, ticket.id, "a", LANE, 1, 0.0),
        FirstContent(1.0, ticket.id, "a", LANE, 1.0),
        Progress(1.0, ticket.id, "a", LANE, 7),
        Finished(3.0, ticket.id, "a", LANE, "m", 200, 1, Usage(100, 0, 0, 20), 3.0),
    ]


def test_an_answer_in_one_piece_is_its_own_first_content() -> None:
    """Without a stream the total time is the latency."""
    hands = Hands()
    ticket = hands.arrive()
    hands.now = 1.5
    hands.succeed(ticket)
    assert [event.ttft_s for event in hands.seen(FirstContent)] == [1.5]
    assert hands.lane.aimd.mean_latency_s == 1.5


def test_a_streams_latency_is_its_time_to_first_token() -> None:
    """However long the stream then takes."""
    hands = Hands()
    ticket = hands.arrive()
    hands.now = 0.5
    hands.content(ticket)
    hands.now = 60.0
    hands.succeed(ticket)
    assert hands.lane.aimd.mean_latency_s == 0.5


def test_a_lane_is_opened_once() -> None:
    """Opening it again changes nothing."""
    hands = Hands()
    assert hands.scheduler.open_lane(5.0, LANE, lane_config(slots=99)) is hands.lane
    hands.gather()
    assert len(hands.seen(LaneOpened)) == 1


def test_a_sample_shows_every_lane() -> None:
    """The gauges that people see."""
    hands = Hands(lane_config(slots=1, rpm=10))
    hands.arrive("a")
    waiting = hands.arrive("b")
    sampled = hands.scheduler.sample(0.0)
    assert isinstance(sampled, Sampled)
    (state,) = sampled.lanes
    assert (state.active, state.waiting, state.retrying, state.level, state.ceiling) == (1, 1, 0, 1.0, 1.0)
    assert [hold.ticket for hold in state.upcoming] == [waiting.id]
    assert [(w.kind, w.limit, w.used, w.remaining, w.source) for w in state.windows] == [
        (WindowKind.REQUESTS, 10, 1, 9, "assumed")
    ]


# --- Turning away -----------------------------------------------------------------------------------------------------


def test_the_queue_is_bounded_in_depth() -> None:
    """Over all lanes together, those between two attempts included."""
    hands = Hands(lane_config(slots=1), queue=QueueConfig(max_depth=2))
    hands.fail(hands.arrive("a"))
    for name in "bc":
        hands.arrive(name)
    refused = hands.arrive("d")
    assert refused.refusal is not None
    assert refused.refusal.reason == "queue_full"
    assert hands.lane.queue.waiting + len(hands.lane.backing_off) == 2


@pytest.mark.parametrize(("patience_s", "at"), [(None, 600.0), (5.0, 5.0), (9999.0, 600.0)])
def test_the_wait_is_bounded(patience_s: float | None, at: float) -> None:
    """By the queue's own limit and the client's patience."""
    hands = Hands()
    hands.arrive("a")
    ticket = hands.arrive("b", patience_s=patience_s)
    hands.until(at - 0.1)
    assert ticket.in_queue
    hands.until(at)
    assert ticket.refusal is not None
    assert ticket.refusal.reason == "wait_too_long"


def test_what_waited_behind_an_expired_ticket_goes_at_once() -> None:
    """A large request held by its rate window no longer holds the small ones when it is gone."""
    hands = Hands(lane_config(slots=0, tpm=20_000))
    hands.arrive("small", size=40_000)
    hands.arrive("large", size=40_000, patience_s=5.0)
    small = hands.arrive("small", size=400)
    assert small.in_queue
    hands.until(5.0)
    assert small.state is TicketState.IN_FLIGHT


def test_one_whom_the_caller_knows_as_turned_away_is_among_the_decisions_once() -> None:
    """So that its waiter is woken exactly once."""
    hands = Hands()
    hands.arrive("a")
    waiting = hands.arrive("b")
    hands.scheduler.drain(0.0)
    assert hands.scheduler.decisions == [waiting]


# --- Leaving ----------------------------------------------------------------------------------------------------------


def test_a_client_that_leaves_the_queue_leaves_nothing_behind() -> None:
    """No entry, no reservation."""
    hands = Hands(lane_config(slots=1, rpm=10))
    hands.arrive("a")
    waiting = hands.arrive("b")
    hands.leave(waiting)
    hands.leave(waiting)
    assert hands.lane.queue.waiting == 0
    assert [(event.in_flight, event.ticket) for event in hands.seen(Abandoned)] == [(False, waiting.id)]
    assert hands.scheduler.agents["b"].tickets == {}


def test_a_client_that_leaves_before_its_retry_is_not_tried_again() -> None:
    """Its timer has no effect."""
    hands = Hands()
    ticket = hands.arrive()
    hands.fail(ticket)
    hands.leave(ticket)
    hands.until(60.0)
    assert not hands.lane.backing_off
    assert len(hands.seen(Granted)) == 1


# --- Without a part (ablation) ----------------------------------------------------------------------------------------


def test_without_admission_everything_is_granted() -> None:
    """The concurrency limit is lifted, AIMD's level included."""
    hands = Hands(lane_config(slots=1), config=SchedulerConfig(admission=False))
    tickets = [hands.arrive(f"a{n}") for n in range(10)]
    for ticket in tickets[:5]:
        hands.fail(ticket, failure(retryable=False))
    assert hands.arrive("b").state is TicketState.IN_FLIGHT


def test_without_rate_windows_nothing_is_held() -> None:
    """Although the profile knows a limit."""
    hands = Hands(lane_config(slots=0, rpm=1), config=SchedulerConfig(rate_windows=False))
    assert [hands.arrive(f"a{n}").state for n in range(5)] == [TicketState.IN_FLIGHT] * 5


def test_without_backpressure_neither_level_nor_circuit_moves() -> None:
    """However much fails."""
    hands = Hands(circuit_lane(), config=SchedulerConfig(backpressure=False))
    for n in range(10):
        hands.fail(hands.arrive(f"a{n}"), failure(retryable=False))
    assert hands.lane.aimd.level == 8.0
    assert hands.lane.circuit.state.value == "closed"

"""The rules between lanes, agents and tickets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from scheduler.driving import LANE, Hands, failure, lane_config

from hivemind.scheduler import TicketState
from hivemind.scheduler.config import CircuitConfig, LaneConfig, QueueConfig, RetryConfig, SchedulerConfig
from hivemind.scheduler.events import (
    Abandoned,
    Arrived,
    AttemptFailed,
    CircuitChanged,
    Finished,
    FirstContent,
    Granted,
    LaneOpened,
    LaneParked,
    LaneReleased,
    LevelChanged,
    Progress,
    Refused,
    Sampled,
)
from hivemind.scheduler.types import FailureKind, Usage, WindowKind

LIMIT = FailureKind.RATE_LIMITED
CONGESTION = [kind for kind in FailureKind if kind not in (FailureKind.QUOTA, FailureKind.CLIENT_ERROR)]


def circuit_lane(*, slots: int = 8, when_open: str = "hold", window: int = 4) -> LaneConfig:
    return LaneConfig(
        "up",
        "generic",
        max_concurrency=slots,
        rpm=0,
        tpm=0,
        circuit=CircuitConfig(window=window, threshold=0.5, cooldown_s=10.0, when_open=when_open),  # type: ignore[arg-type]
    )


def opened(hands: Hands) -> None:
    """Four failures of attempts that began a second ago, and the circuit is open."""
    unlucky = [hands.arrive(f"unlucky-{n}") for n in range(4)]
    hands.now = 1.0
    for ticket in unlucky:
        hands.fail(ticket, failure(retryable=False))
    assert hands.lane.circuit.state.value == "open"


# --- Events --------------------------------------------------------------------------------------------------------


def test_a_request_that_succeeds_is_told_from_arrival_to_end() -> None:
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
    assert state.upcoming == (waiting.id,)
    assert [(w.kind, w.limit, w.used, w.remaining, w.source) for w in state.windows] == [
        (WindowKind.REQUESTS, 10, 1, 9, "profile")
    ]


# --- Retry ---------------------------------------------------------------------------------------------------------


def test_the_slot_is_given_back_while_a_ticket_waits_for_its_retry() -> None:
    """Somebody else flies meanwhile."""
    hands = Hands(lane_config(slots=1))
    failed, waiting = hands.arrive("a"), hands.arrive("b")
    assert hands.fail(failed) == 1.0
    assert waiting.state is TicketState.FLYING
    assert (failed.state, hands.lane.retrying) == (TicketState.BACKING_OFF, 1)


def test_backoff_escalates_while_nobody_succeeds() -> None:
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
    hands = Hands(lane_config(slots=0))
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
    assert ticket.state is TicketState.FLYING
    again = hands.fail(ticket, failure(kind))
    assert again is not None
    assert again > delay_s


@pytest.mark.parametrize("kind", [LIMIT, FailureKind.OVERLOADED, FailureKind.SERVER_ERROR])
def test_the_providers_delay_overrides_ours_and_parks_the_lane(kind: FailureKind) -> None:
    """Nothing flies until it is over, whoever asks."""
    hands = Hands(lane_config(slots=4))
    ticket = hands.arrive("a")
    assert hands.fail(ticket, failure(kind, delay_s=7.0)) == 7.0
    other = hands.arrive("b")
    hands.until(6.99)
    assert hands.granted == []
    hands.until(8.0)
    assert set(hands.granted) == {ticket, other}
    assert [event.for_s for event in hands.seen(LaneParked)] == [7.0]
    assert [event.at for event in hands.seen(LaneReleased)] == [7.0]


def test_a_parked_lane_restarts_staggered() -> None:
    """Five that waited don't fly at the same moment."""
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
    assert hands.seen(LaneParked) == []
    assert hands.seen(LaneReleased) == []


@pytest.mark.parametrize("delay_s", [301.0, 3600.0])
def test_a_delay_longer_than_any_rate_window_goes_to_the_agent(delay_s: float) -> None:
    """An hour means a quota; nobody waits for it and the lane isn't parked."""
    hands = Hands(lane_config(slots=2))
    assert hands.fail(hands.arrive("a"), failure(LIMIT, delay_s=delay_s)) is None
    assert hands.arrive("b").state is TicketState.FLYING


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
    assert holder.state is TicketState.FLYING
    assert ticket.refusal is not None


def test_no_retry_beyond_the_clients_patience() -> None:
    """An attempt that begins after the client gave up helps nobody."""
    hands = Hands()
    assert hands.fail(hands.arrive(patience_s=20.0), failure(LIMIT, delay_s=30.0)) is None


def test_retries_are_a_share_of_the_traffic() -> None:
    """An outage isn't amplified: beyond the reserve they are put off to one a second."""
    hands = Hands(lane_config(slots=0), retry=RetryConfig(budget_reserve=5, budget_ratio=0.0, base_s=0.0))
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
    window = hands.lane.allowance("m").windows[WindowKind.REQUESTS]
    assert window.remaining(hands.now) == 10
    hands.fail(hands.arrive("b"), failure(FailureKind.DISCONNECTED))
    assert window.remaining(hands.now) == 9


# --- AIMD and circuit through the lane -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CONGESTION)
def test_congestion_cuts_once_for_all_that_were_in_flight(kind: FailureKind) -> None:
    """Eight in flight fail together: one cut, told once, and the gate follows."""
    hands = Hands(lane_config(slots=8))
    flying = [hands.arrive(f"a{n}") for n in range(8)]
    hands.now = 1.0
    for ticket in flying:
        hands.fail(ticket, failure(kind))
    assert [(event.level, event.cause) for event in hands.seen(LevelChanged)] == [(4.0, kind.value)]
    assert hands.lane.gate.limit == 4.0


def test_a_client_that_leaves_cuts_nothing() -> None:
    """It says nothing about the upstream."""
    hands = Hands(lane_config(slots=8))
    hands.leave(hands.arrive())
    assert hands.lane.aimd.level == 8.0
    assert hands.lane.circuit.results == 0


def test_growth_takes_a_full_gate() -> None:
    """Good answers of a half-empty lane don't raise the level; those of a full one do."""
    hands = Hands(lane_config(slots=8))
    hands.fail(hands.arrive("x"), failure(retryable=False))
    for n in range(20):
        hands.now += 5.0
        hands.succeed(hands.arrive(f"a{n}"))
    assert hands.lane.aimd.level == 4.0
    full = [hands.arrive(f"b{n}") for n in range(4)]
    hands.now += 1.0
    hands.succeed(full[0])
    assert hands.lane.aimd.level == 4.5


def test_opening_the_circuit_cuts_too() -> None:
    """And the gate follows."""
    hands = Hands(circuit_lane())
    opened(hands)
    assert [event.cause for event in hands.seen(LevelChanged)] == ["server_error", "circuit"]
    assert hands.lane.gate.limit == 2.0
    assert [(event.state, event.reopens_in_s) for event in hands.seen(CircuitChanged)] == [("open", 10.0)]


def test_while_open_requests_are_held_and_one_probes() -> None:
    """Then the circuit closes and the others fly."""
    hands = Hands(circuit_lane())
    opened(hands)
    held = [hands.arrive(f"b{n}") for n in range(3)]
    hands.until(10.99)
    assert hands.granted == []
    hands.until(11.0)
    (probe,) = hands.granted
    hands.until(12.0)
    assert hands.granted == [probe]
    hands.content(probe)
    hands.succeed(probe)
    assert set(hands.granted) == set(held)
    assert [event.state for event in hands.seen(CircuitChanged)] == ["open", "half_open", "closed"]


def test_a_probe_that_fails_opens_again_and_is_retried_with_the_rest() -> None:
    """It waits for the next cooldown like anybody."""
    hands = Hands(circuit_lane())
    opened(hands)
    held = hands.arrive("b")
    hands.until(11.0)
    hands.fail(held)
    assert hands.lane.circuit.reopens_at == 21.0
    hands.until(20.9)
    assert held.waiting
    hands.until(21.0)
    assert held.state is TicketState.FLYING


@pytest.mark.parametrize("kind", [FailureKind.QUOTA, FailureKind.CLIENT_ERROR])
def test_a_probe_that_is_answered_at_all_closes(kind: FailureKind) -> None:
    """A 400 shows that the upstream is there again."""
    hands = Hands(circuit_lane())
    opened(hands)
    probe = hands.arrive("b")
    hands.until(11.0)
    hands.fail(probe, failure(kind, retryable=False))
    assert hands.lane.circuit.state.value == "closed"


def test_the_lease_of_a_probe_whose_client_leaves_goes_to_the_next() -> None:
    """Else nobody would fly again."""
    hands = Hands(circuit_lane())
    opened(hands)
    for name in "bc":
        hands.arrive(name)
    hands.until(11.0)
    (probe,) = hands.granted
    hands.leave(probe)
    assert len(hands.granted) == 2


@pytest.mark.parametrize(("patience_s", "held"), [(None, True), (10.0, True), (9.9, False), (1.0, False)])
def test_an_open_circuit_holds_whom_it_can(patience_s: float | None, held: bool) -> None:
    """Who can't wait until the probe is refused at once, with the time until it."""
    hands = Hands(circuit_lane())
    opened(hands)
    ticket = hands.arrive("b", patience_s=patience_s)
    assert ticket.in_queue is held
    if not held:
        assert ticket.refusal is not None
        assert (ticket.refusal.reason, ticket.refusal.retry_after_s) == ("circuit_open", 10.0)
        assert hands.seen(Refused)[-1].status == 503


def test_whoever_waits_when_the_circuit_opens_is_asked_the_same() -> None:
    """The impatient are turned away, the others wait on."""
    hands = Hands(circuit_lane(slots=4))
    flying = [hands.arrive(f"unlucky-{n}") for n in range(4)]
    patient, hasty = hands.arrive("b"), hands.arrive("c", patience_s=5.0)
    hands.lane.parked_until = 100.0
    for ticket in flying:
        hands.fail(ticket, failure(retryable=False))
    assert patient.in_queue
    assert hasty.refusal is not None


def test_the_papers_fast_fail() -> None:
    """`when_open = "refuse"`: everybody is refused while it is open, those that wait and those that come."""
    hands = Hands(circuit_lane(slots=4, when_open="refuse"))
    flying = [hands.arrive(f"unlucky-{n}") for n in range(4)]
    waiting = hands.arrive("b")
    hands.lane.parked_until = 100.0
    for ticket in flying:
        hands.fail(ticket, failure(retryable=False))
    refused = [waiting, hands.arrive("c")]
    assert [ticket.refusal.reason for ticket in refused if ticket.refusal] == ["circuit_open"] * 2


def test_late_results_of_before_do_not_touch_a_circuit_that_reopened() -> None:
    """Attempts granted before it opened come back while it is half-open."""
    hands = Hands(circuit_lane())
    late = [hands.arrive(f"late-{n}") for n in range(4)]
    opened(hands)
    hands.arrive("probe")
    hands.until(11.0)
    for ticket in late[:2]:
        hands.content(ticket)
    for ticket in late[2:]:
        hands.fail(ticket, failure(retryable=False))
    assert hands.lane.circuit.state.value == "half_open"


# --- Turning away --------------------------------------------------------------------------------------------------


def test_the_queue_is_bounded_in_depth() -> None:
    """Over all lanes together, those between two attempts included."""
    hands = Hands(lane_config(slots=1), queue=QueueConfig(max_depth=2))
    hands.fail(hands.arrive("a"))
    for name in "bc":
        hands.arrive(name)
    refused = hands.arrive("d")
    assert refused.refusal is not None
    assert refused.refusal.reason == "queue_full"
    assert hands.lane.queue.waiting + hands.lane.retrying == 2


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


def test_a_ticket_between_two_attempts_expires_too() -> None:
    """It waits as well."""
    hands = Hands(lane_config(slots=1), queue=QueueConfig(max_wait_s=10.0))
    ticket = hands.arrive("a")
    hands.arrive("b")
    hands.now = 8.5
    hands.fail(ticket)
    hands.until(10.0)
    assert ticket.refusal is not None
    assert hands.lane.retrying == 0


def test_what_waited_behind_an_expired_ticket_goes_at_once() -> None:
    """A large request held by its rate window no longer holds the small ones when it is gone."""
    hands = Hands(lane_config(slots=0, tpm=20_000))
    hands.arrive("small", size=40_000)
    hands.arrive("large", size=40_000, patience_s=5.0)
    small = hands.arrive("small", size=400)
    assert small.in_queue
    hands.until(5.0)
    assert small.state is TicketState.FLYING


def test_draining_grants_nothing_more() -> None:
    """Whoever waits or comes is turned away; what flies goes on, and fails for good where it fails."""
    hands = Hands(lane_config(slots=3))
    flying, unlucky, backing_off = (hands.arrive(name) for name in "abc")
    waiting = hands.arrive("d")
    hands.fail(backing_off)
    hands.scheduler.drain(hands.now)
    hands.gather()
    turned_away = [waiting, backing_off, hands.arrive("e")]
    assert [ticket.refusal.reason for ticket in turned_away if ticket.refusal] == ["draining"] * 3
    assert hands.fail(unlucky) is None
    hands.succeed(flying)
    assert hands.lane.gate.active == hands.lane.queue.waiting == hands.lane.retrying == 0


def test_one_whom_the_caller_knows_as_turned_away_is_among_the_decisions_once() -> None:
    """So that whoever waits for it is woken exactly once."""
    hands = Hands()
    hands.arrive("a")
    waiting = hands.arrive("b")
    hands.scheduler.drain(0.0)
    assert hands.scheduler.decisions == [waiting]


# --- Leaving -------------------------------------------------------------------------------------------------------


def test_a_client_that_leaves_the_queue_leaves_nothing_behind() -> None:
    """No entry, no reservation."""
    hands = Hands(lane_config(slots=1, rpm=10))
    hands.arrive("a")
    waiting = hands.arrive("b")
    hands.leave(waiting)
    hands.leave(waiting)
    assert hands.lane.queue.waiting == 0
    assert [(event.flying, event.ticket) for event in hands.seen(Abandoned)] == [(False, waiting.id)]
    assert hands.scheduler.agents["b"].tickets == {}


def test_a_client_that_leaves_in_flight_frees_its_slot() -> None:
    """The next one flies at once."""
    hands = Hands(lane_config(slots=1))
    flying, waiting = hands.arrive("a"), hands.arrive("b")
    hands.leave(flying)
    assert waiting.state is TicketState.FLYING
    assert hands.scheduler.agents["a"].flying == 0


def test_a_client_that_leaves_before_its_retry_is_not_tried_again() -> None:
    """Its timer finds nobody."""
    hands = Hands()
    ticket = hands.arrive()
    hands.fail(ticket)
    hands.leave(ticket)
    hands.until(60.0)
    assert hands.lane.retrying == 0
    assert len(hands.seen(Granted)) == 1


# --- Without a part (ablation) -------------------------------------------------------------------------------------


def test_without_admission_everything_flies() -> None:
    """The concurrency limit is lifted, AIMD's level included."""
    hands = Hands(lane_config(slots=1), config=SchedulerConfig(admission=False))
    tickets = [hands.arrive(f"a{n}") for n in range(10)]
    for ticket in tickets[:5]:
        hands.fail(ticket, failure(retryable=False))
    assert hands.arrive("b").state is TicketState.FLYING


def test_without_rate_windows_nothing_is_held() -> None:
    """Although the profile knows a limit."""
    hands = Hands(lane_config(slots=0, rpm=1), config=SchedulerConfig(rate_windows=False))
    assert [hands.arrive(f"a{n}").state for n in range(5)] == [TicketState.FLYING] * 5


def test_without_backpressure_neither_level_nor_circuit_moves() -> None:
    """However much fails."""
    hands = Hands(circuit_lane(), config=SchedulerConfig(backpressure=False))
    for n in range(10):
        hands.fail(hands.arrive(f"a{n}"), failure(retryable=False))
    assert hands.lane.aimd.level == 8.0
    assert hands.lane.circuit.state.value == "closed"

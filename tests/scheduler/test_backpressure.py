"""AIMD and the circuit at work in a lane."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, circuit_lane, failure, lane_config

from hivemind.scheduler.events import CircuitChanged, LevelChanged, Refused
from hivemind.scheduler.ticket import TicketState
from hivemind.scheduler.types import FailureKind

INNOCENT = (FailureKind.QUOTA, FailureKind.CLIENT_ERROR, FailureKind.CUT)
CONGESTION = [kind for kind in FailureKind if kind not in INNOCENT]


def opened(hands: Hands) -> None:
    """Four failures of attempts that began a second ago, and the circuit is open."""
    unlucky = [hands.arrive(f"unlucky-{n}") for n in range(4)]
    hands.now = 1.0
    for ticket in unlucky:
        hands.fail(ticket, failure(retryable=False))
    assert hands.lane.circuit.state.value == "open"


@pytest.mark.parametrize("kind", CONGESTION)
def test_congestion_cuts_once_for_all_that_were_in_flight(kind: FailureKind) -> None:
    """Eight in flight fail together: one cut, reported once, and the gate follows."""
    hands = Hands(lane_config(slots=8))
    in_flight = [hands.arrive(f"a{n}") for n in range(8)]
    hands.now = 1.0
    for ticket in in_flight:
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
    """Then the circuit closes and the others are sent."""
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
    """It waits for the next cooldown like any other."""
    hands = Hands(circuit_lane())
    opened(hands)
    held = hands.arrive("b")
    hands.until(11.0)
    hands.fail(held)
    assert hands.lane.circuit.reopens_at == 21.0
    hands.until(20.9)
    assert held.waiting
    hands.until(21.0)
    assert held.state is TicketState.IN_FLIGHT


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
    """Else nothing would be sent again."""
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


def test_tickets_that_wait_when_the_circuit_opens_are_checked_too() -> None:
    """The impatient are refused, the others wait on."""
    hands = Hands(circuit_lane(slots=4))
    in_flight = [hands.arrive(f"unlucky-{n}") for n in range(4)]
    patient, hasty = hands.arrive("b"), hands.arrive("c", patience_s=5.0)
    hands.lane.whole.until = 100.0
    for ticket in in_flight:
        hands.fail(ticket, failure(retryable=False))
    assert patient.in_queue
    assert hasty.refusal is not None


def test_the_papers_fast_fail() -> None:
    """`when_open = "refuse"`: every request is refused while it is open, those that wait and those that come."""
    hands = Hands(circuit_lane(slots=4, when_open="refuse"))
    in_flight = [hands.arrive(f"unlucky-{n}") for n in range(4)]
    waiting = hands.arrive("b")
    hands.lane.whole.until = 100.0
    for ticket in in_flight:
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

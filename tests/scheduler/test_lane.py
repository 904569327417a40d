"""A lane apart from the queue: when it is closed, what results make of it, and how many are remembered."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import LANE, Hands, failure, lane_config, request

from hivemind.scheduler.commands import SetCircuit
from hivemind.scheduler.events import CircuitChanged
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.lane import KEPT, MOST_STAGGERED, UNPROVEN_KEPT
from hivemind.scheduler.ticket import TicketState
from hivemind.scheduler.types import FailureKind, Usage, Utilisation, WindowKind, WindowReading


def test_open_while_nothing_closes_it() -> None:
    """Neither a pause, nor the circuit, nor the gate."""
    assert Hands().lane.closed_until(0.0) is None


@pytest.mark.parametrize(
    ("closes", "until"),
    [("pause", 30.0), ("gate", math.inf), ("circuit by hand", math.inf), ("probe in flight", math.inf)],
)
def test_says_when_to_ask_again(closes: str, until: float) -> None:
    """At a moment where there is one, else when something happens."""
    hands = Hands(lane_config(slots=1))
    lane = hands.lane
    match closes:
        case "pause":
            lane.pause(0.0, 30.0, "429")
        case "gate":
            hands.arrive()
        case "circuit by hand":
            lane.circuit.force("open")
        case "probe in flight":
            lane.circuit.force("probe")
            lane.circuit.lease(1)
    assert lane.closed_until(0.0) == until


def test_a_family_has_windows_of_its_own() -> None:
    """One model's limit doesn't hold another's requests."""
    hands = Hands(lane_config(slots=0, rpm=1))
    hands.arrive(family="opus")
    held = hands.arrive(family="opus")
    assert held.in_queue
    assert hands.arrive(family="haiku").state is TicketState.IN_FLIGHT


def test_a_lane_has_a_gate_a_level_and_a_circuit_of_its_own() -> None:
    """Trouble on one credential leaves another alone."""
    hands = Hands(lane_config(slots=4))
    other = hands.scheduler.open_lane(0.0, "up/2", lane_config(slots=4))
    for _ in range(4):
        hands.arrive("a")
    hands.fail(hands.arrive("b", lane="up/2"), failure(FailureKind.RATE_LIMITED, delay_s=60.0))
    assert (hands.lane.aimd.level, other.aimd.level) == (4.0, 2.0)
    assert hands.lane.gate.active == 4
    assert hands.lane.closed_until(0.0) == math.inf
    assert other.paused_family_until("m") == 60.0


def test_estimates_are_a_models_own() -> None:
    """Tokenizers differ."""
    estimators = Hands().lane.estimators
    estimators.learn(request(family="a", size=1000), Usage(500, 0, 0, 10))
    assert estimators.models["a"].input_tokens(400) != estimators._general("b").input_tokens(400)


def test_no_more_than_so_many_are_staggered() -> None:
    """Later tickets meet a lane at work."""
    hands = Hands(lane_config(slots=0))
    hands.lane.pause(0.0, 5.0, "429")
    tickets = [hands.arrive(f"a{n}") for n in range(MOST_STAGGERED + 30)]
    hands.until(5.0 + 0.05 * (MOST_STAGGERED - 1) + 0.001)
    assert sum(ticket.state is TicketState.IN_FLIGHT for ticket in tickets) == MOST_STAGGERED
    hands.until(7.0)
    assert all(ticket.state is TicketState.IN_FLIGHT for ticket in tickets)


def test_headers_reach_the_window_of_the_tickets_family() -> None:
    """And the plan's shares are kept, which hold nothing without a pace."""
    hands = Hands(lane_config(slots=0, rpm=10))
    ticket = hands.arrive()
    plan = (Utilisation("5h", 1.0, 60.0, "rejected"),)
    hands.scheduler.headers(0.0, ticket, (WindowReading(WindowKind.REQUESTS, 100, 99, 50.0),), plan)
    state = lane_state(hands.lane, 0.0, paused=False)
    assert [(window.limit, window.remaining, window.source) for window in state.windows] == [(100, 99, "headers")]
    assert [(each.name, each.used, each.reset_in_s, each.status) for each in state.plan] == [
        ("5h", 1.0, 60.0, "rejected")
    ]
    assert hands.arrive("b").state is TicketState.IN_FLIGHT


def test_the_gauges_tell_of_pause_and_circuit() -> None:
    """What the screen shows while a lane stands still."""
    hands = Hands(lane_config(slots=4))
    hands.lane.pause(0.0, 30.0, "429")
    hands.lane.circuit.force("open")
    hands.lane.aimd.pin(2.0)
    state = lane_state(hands.lane, 10.0, paused=True)
    assert (state.lane, state.rate_limited_for_s, state.paused) == (LANE, 20.0, True)
    assert (state.circuit, state.circuit_forced, state.circuit_reopens_in_s) == ("open", True, None)
    assert (state.level, state.pinned, state.ceiling, state.floor) == (2.0, True, 4.0, 1.0)


def test_lanes_at_rest_make_room() -> None:
    """A credential that is renewed again and again doesn't fill the memory; what is in use or was set by hand stays."""
    hands = Hands()
    scheduler = hands.scheduler
    hands.arrive("a")
    held = next(iter(scheduler.lanes))
    scheduler.open_lane(0.0, "forced", lane_config())
    scheduler.apply(0.0, SetCircuit("closed", "forced"), "you")
    for number in range(3 * KEPT):
        scheduler.open_lane(float(number), f"key-{number}", lane_config()).proven = True
    assert len(scheduler.lanes) <= KEPT
    assert {held, "forced", f"key-{3 * KEPT - 1}"} <= scheduler.lanes.keys()


def test_a_forgotten_lane_tells_no_more_of_its_circuit() -> None:
    """It may have been opened anew since, with another circuit."""
    hands = Hands()
    while hands.lane.circuit.reopens_at is None:
        hands.fail(hands.arrive(), failure(retryable=False))
    for number in range(KEPT):
        hands.scheduler.open_lane(hands.now, f"key-{number}", lane_config()).used_at = 1.0
    assert LANE not in hands.scheduler.lanes
    hands.scheduler.open_lane(hands.now, LANE, lane_config())
    hands.log.clear()
    hands.wait(1000.0)
    assert not [event for event in hands.log if isinstance(event, CircuitChanged)]


def test_made_up_credentials_displace_no_real_ones() -> None:
    """A lane on which nothing was ever answered is forgotten before those that are known to be good."""
    hands = Hands()
    scheduler = hands.scheduler
    for number in range(40):
        scheduler.open_lane(0.0, f"real-{number}", lane_config())
        hands.succeed(hands.arrive(lane=f"real-{number}"))
    for number in range(3 * KEPT):
        scheduler.open_lane(1.0, f"made-up-{number}", lane_config())
        refused = hands.arrive(lane=f"made-up-{number}")
        hands.fail(refused, failure(FailureKind.CLIENT_ERROR, retryable=False))
    kept = [key.partition("-")[0] for key in scheduler.lanes]
    assert kept.count("real") == 40
    assert kept.count("made") <= UNPROVEN_KEPT

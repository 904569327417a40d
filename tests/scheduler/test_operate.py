"""An operator's commands."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import LANE, Hands, failure, lane_config

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.events import CircuitChanged, Commanded, LaneReleased, Refused
from hivemind.scheduler.ticket import TicketState
from hivemind.scheduler.types import FailureKind, Priority


def apply(hands: Hands, command: cmd.Command) -> None:
    hands.scheduler.apply(hands.now, command, "you")
    hands.gather()


@pytest.mark.parametrize(
    ("command", "name", "arguments"),
    [
        (cmd.SetPriority("a", Priority.HIGH), "SetPriority", {"agent": "a", "priority": "high"}),
        (cmd.Tune("aimd.beta", 0.7, "up"), "Tune", {"knob": "aimd.beta", "value": 0.7, "upstream": "up"}),
        (cmd.PinLevel(2.5, LANE), "PinLevel", {"level": 2.5, "lane": LANE}),
        (cmd.PinLevel(None), "PinLevel", {"level": None, "lane": None}),
        (cmd.SetCircuit("probe"), "SetCircuit", {"mode": "probe", "lane": None}),
        (cmd.PauseAdmissions(True), "PauseAdmissions", {"paused": True}),
        (cmd.PauseAgent("a", True), "PauseAgent", {"agent": "a", "paused": True}),
        (cmd.ReleaseLane(LANE), "ReleaseLane", {"lane": LANE}),
        (cmd.Drain(True), "Drain", {"draining": True}),
    ],
)
def test_what_was_carried_out_is_an_event(command: cmd.Command, name: str, arguments: dict[str, object]) -> None:
    """With who asked and for what, so that a replay shows the hand on the dial."""
    hands = Hands()
    hands.arrive("a")
    apply(hands, command)
    assert hands.seen(Commanded) == [Commanded(0.0, "you", name, arguments)]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (cmd.SetPriority("zoe", Priority.HIGH), "no agent named 'zoe'; known: a"),
        (cmd.PauseAgent("zoe", True), "no agent named 'zoe'; known: a"),
        (
            cmd.EndAgent("a", 2**32),
            "exit_code: must be one that a process can end with, or the number of a signal, negative",
        ),
        (
            cmd.EndAgent("a", -(2**63)),
            "exit_code: must be one that a process can end with, or the number of a signal, negative",
        ),
        (cmd.PinLevel(0.5), "level 0.5: must be from 1 to 10,000"),
        (cmd.PinLevel(math.nan), "level nan: must be from 1 to 10,000"),
        (cmd.PinLevel(10_001), "level 10001: must be from 1 to 10,000"),
        (cmd.PinLevel(2, "x"), f"no lane 'x'; known: {LANE}"),
        (cmd.SetCircuit("open", "x"), f"no lane 'x'; known: {LANE}"),
        (cmd.ReleaseLane("x"), f"no lane 'x'; known: {LANE}"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(command: cmd.Command, text: str) -> None:
    """The text says what was wrong and what would be right; no event claims that anything happened."""
    hands = Hands()
    hands.arrive("a")
    hands.log.clear()
    with pytest.raises(cmd.Rejected) as rejected:
        apply(hands, command)
    assert str(rejected.value) == text
    assert hands.log == []


def test_known_names_are_listed_within_bounds() -> None:
    """Eight of them and an ellipsis; `none yet` where there are none."""
    hands = Hands(lane_config(slots=0))
    with pytest.raises(cmd.Rejected, match="known: none yet"):
        apply(hands, cmd.PauseAgent("zoe", True))
    for n in range(9):
        hands.arrive(f"a{n}")
    with pytest.raises(cmd.Rejected, match=r"a7 …$"):
        apply(hands, cmd.PauseAgent("zoe", True))


def test_without_a_lane_all_of_them_are_meant() -> None:
    """And with one, only that."""
    hands = Hands(lane_config(slots=8))
    hands.scheduler.open_lane(0.0, "other", lane_config(slots=8))
    apply(hands, cmd.PinLevel(2))
    apply(hands, cmd.PinLevel(4, "other"))
    assert [lane.gate.limit for lane in hands.scheduler.lanes.values()] == [2.0, 4.0]


def test_paused_admissions_hold_everything_but_requests_in_flight() -> None:
    """Until they are resumed; then as many are sent as fit."""
    hands = Hands(lane_config(slots=2))
    in_flight = hands.arrive("a")
    apply(hands, cmd.PauseAdmissions(True))
    waiting = [hands.arrive(name) for name in "bcd"]
    hands.content(in_flight)
    hands.succeed(in_flight)
    hands.wait(60.0)
    assert hands.granted == []
    apply(hands, cmd.PauseAdmissions(False))
    assert hands.granted == waiting[:2]


def test_a_paused_agents_requests_wait_while_slots_are_free() -> None:
    """Including those that it sends later."""
    hands = Hands(lane_config(slots=5))
    hands.succeed(hands.arrive("a"))
    apply(hands, cmd.PauseAgent("a", True))
    held = hands.arrive("a")
    assert hands.arrive("b").state is TicketState.IN_FLIGHT
    assert held.in_queue
    apply(hands, cmd.PauseAgent("a", False))
    assert held.state is TicketState.IN_FLIGHT


def test_a_priority_given_between_attempts_counts_for_the_next() -> None:
    """A ticket that waits for its retry isn't in the queue and still moves."""
    hands = Hands()
    ticket = hands.arrive("a")
    hands.fail(ticket)
    apply(hands, cmd.SetPriority("a", Priority.CRITICAL))
    assert ticket.priority is Priority.CRITICAL
    hands.wait(5.0)
    assert ticket.state is TicketState.IN_FLIGHT


@pytest.mark.parametrize(("mode", "state"), [("open", "open"), ("closed", "closed"), ("probe", "half_open")])
def test_steering_the_circuit(mode: str, state: str) -> None:
    """The change is an event that names who did it."""
    hands = Hands()
    apply(hands, cmd.SetCircuit(mode))  # type: ignore[arg-type]
    (event,) = hands.seen(CircuitChanged)
    assert (event.state, event.cause, event.reopens_in_s) == (state, "by you", None)


def test_a_circuit_forced_open_turns_away_until_it_is_given_back() -> None:
    """Waiting and later requests, since it is unknown for how long."""
    hands = Hands(lane_config(slots=1))
    hands.arrive("a")
    waiting = hands.arrive("b")
    apply(hands, cmd.SetCircuit("open"))
    assert waiting.refusal is not None
    assert waiting.refusal.reason == "circuit_open"
    assert hands.arrive("c").refusal is not None
    apply(hands, cmd.SetCircuit("auto"))
    assert hands.arrive("d").refusal is None


def test_a_probe_by_hand_lets_one_request_through() -> None:
    """The others wait for what becomes of it."""
    hands = Hands(lane_config(slots=5))
    apply(hands, cmd.SetCircuit("probe"))
    states = [hands.arrive(name).state for name in "abc"]
    assert states == [TicketState.IN_FLIGHT, TicketState.QUEUED, TicketState.QUEUED]


def test_a_pause_that_the_provider_asked_for_can_be_ended() -> None:
    """The lane goes on at once."""
    hands = Hands(lane_config(slots=2))
    ticket = hands.arrive("a")
    hands.fail(ticket, failure(FailureKind.RATE_LIMITED, delay_s=100.0))
    apply(hands, cmd.ReleaseLane(LANE))
    assert ticket.state is TicketState.IN_FLIGHT
    assert len(hands.seen(LaneReleased)) == 1


def test_draining_refuses_all_but_requests_in_flight() -> None:
    """Waiting, later and failed requests; what is in flight finishes."""
    hands = Hands(lane_config(slots=2))
    in_flight, failing, waiting = (hands.arrive(name) for name in "abc")
    hands.log.clear()
    apply(hands, cmd.Drain(True))
    assert [type(event) for event in hands.log] == [Commanded, Refused]
    coming = hands.arrive("d")
    assert [ticket.refusal and ticket.refusal.reason for ticket in (waiting, coming)] == ["draining"] * 2
    assert hands.fail(failing) is None
    hands.succeed(in_flight)
    assert in_flight.refusal is None
    assert hands.granted == []

"""Knobs that are turned while everything runs."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import LANE, Hands, circuit_lane, failure, lane_config

from hivemind.records import replace
from hivemind.scheduler.commands import PinLevel, Rejected, SetCircuit, Tune
from hivemind.scheduler.config import LaneConfig, SchedulerConfig
from hivemind.scheduler.events import CircuitChanged, Commanded, LevelChanged
from hivemind.scheduler.explain import lane_state
from hivemind.scheduler.operator.knobs import KNOBS
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.ticket import TicketState
from hivemind.scheduler.types import Usage, WindowKind, WindowReading


def turn(hands: Hands, knob: str, value: float, upstream: str | None = None) -> None:
    hands.scheduler.apply(hands.now, Tune(knob, value, upstream), "you")
    hands.gather()


def knob(hands: Hands, name: str) -> float:
    return lane_state(hands.lane, hands.now, paused=False).knobs[name]


def read(hands: Hands, limit: int, remaining: int, reset_in_s: float = 30.0) -> None:
    """A reply whose headers say this of the requests."""
    ticket = hands.arrive()
    reading = WindowReading(WindowKind.REQUESTS, limit, remaining, reset_in_s)
    hands.scheduler.headers(hands.now, ticket, (reading,))
    hands.succeed(ticket, Usage(10, 0, 0, 10))


REJECTED = {
    "a slip": (Tune("aimd.bta", 0.5), "no knob named 'aimd.bta'; did you mean aimd.beta?"),
    "another thing": (Tune("colour", 1), f"no knob named 'colour'; there are {', '.join(KNOBS)}"),
    "too low": (Tune("aimd.beta", 0.01), "aimd.beta 0.01: must be a number from 0.05 to 0.99"),
    "too high": (Tune("retry.max_s", 3601), "retry.max_s 3,601: must be a number from 0.01 to 3,600"),
    "not a number": (Tune("aimd.alpha", math.nan), "aimd.alpha nan: must be a number from 0.01 to 100"),
    "infinite": (Tune("tpm", math.inf), "tpm inf: must be a whole number from 1 to 1,000,000,000, or 0 for no limit"),
    "not whole": (Tune("rpm", 2.5), "rpm 2.5: must be a whole number from 1 to 1,000,000, or 0 for no limit"),
    "no window": (Tune("circuit.window", 0), "circuit.window 0: must be a whole number from 1 to 10,000"),
    "a stranger": (Tune("rpm", 5, "x"), "no upstream named 'x'; known: up"),
    "a stranger's share": (Tune("retry.max_attempts", 5, "x"), "no upstream named 'x'; known: up"),
    "floor above": (Tune("aimd.floor", 9), "aimd.floor 9: must be at most max_concurrency, which is 8 (up)"),
    "ceiling below": (Tune("max_concurrency", 1), "max_concurrency 1: must be at least aimd.floor, which is 2 (up)"),
    "base above": (Tune("retry.base_s", 40), "retry.base_s 40: must be at most retry.max_s, which is 30"),
    "longest below": (Tune("retry.max_s", 0.5), "retry.max_s 0.5: must be at least retry.base_s, which is 1"),
}


@pytest.mark.parametrize(("command", "text"), REJECTED.values(), ids=list(REJECTED))
def test_what_does_not_go_is_said_and_changes_nothing(command: Tune, text: str) -> None:
    """The text says what was wrong and what would be right; no lane, no later one and no event knows of it."""
    hands = Hands(lane_config(slots=8))
    turn(hands, "aimd.floor", 2)
    before, settings, seen = hands.lane.config, hands.scheduler.config, len(hands.log)
    with pytest.raises(Rejected) as rejected:
        turn(hands, command.knob, command.value, command.upstream)
    assert str(rejected.value) == text
    hands.gather()
    assert (hands.lane.config, hands.scheduler.config, len(hands.log)) == (before, settings, seen)
    later = hands.scheduler.open_lane(hands.now, "later", lane_config(slots=8))
    assert later.config == before


def test_what_is_tuned_before_the_first_lane_is_remembered() -> None:
    """Of all upstreams, since none is known by name yet."""
    scheduler = Scheduler(SchedulerConfig(), lambda: 0.0)
    scheduler.apply(0.0, Tune("rpm", 5), "you")
    assert scheduler.open_lane(0.0, LANE, lane_config()).config == replace(lane_config(), rpm=5, rpm_binding=True)


@pytest.mark.parametrize("name", KNOBS)
def test_every_knob_can_be_read_where_it_was_turned(name: str) -> None:
    """A lane's state has each knob's value now, and 0 where there is no limit."""
    hands = Hands(lane_config(slots=0))
    assert lane_state(hands.lane, 0.0, paused=False).knobs.keys() == KNOBS.keys()
    values = [KNOBS[name].highest, *([0] if KNOBS[name].zero_is_none else [])]
    if name != "retry.base_s":
        values.append(max(KNOBS[name].lowest, 1.0 if name == "retry.max_s" else 0.0))
    else:
        turn(hands, "retry.max_s", KNOBS["retry.max_s"].highest)
    for value in values:
        turn(hands, name, value)
        assert knob(hands, name) == value


@pytest.mark.parametrize(
    ("upstream", "values"), [("up", [2.0, 0.5, 2.0, 0.5]), ("other", [0.5, 2.0, 0.5, 2.0]), (None, [2.0] * 4)]
)
def test_an_upstreams_lanes_are_turned_together_and_later_ones_with_them(
    upstream: str | None, values: list[float]
) -> None:
    """A renewed credential opens a lane that begins with what was tuned; without an upstream all are meant."""
    hands = Hands()
    other = replace(lane_config(), upstream="other")
    lanes = [hands.lane, hands.scheduler.open_lane(0.0, "other/1", other)]
    turn(hands, "aimd.alpha", 2, upstream)
    lanes += [hands.scheduler.open_lane(0.0, "up/2", lane_config())]
    lanes += [hands.scheduler.open_lane(0.0, "other/2", other)]
    assert [lane.aimd.config.alpha for lane in lanes] == values


def test_the_last_word_holds_for_lanes_to_come() -> None:
    """What was said of all upstreams after one of them had its own goes for that one too, and the other way about."""
    hands = Hands()
    turn(hands, "aimd.alpha", 2, "up")
    turn(hands, "aimd.alpha", 3)
    assert hands.scheduler.open_lane(0.0, "up/2", lane_config()).aimd.config.alpha == 3
    turn(hands, "aimd.alpha", 4, "up")
    assert hands.scheduler.open_lane(0.0, "up/3", lane_config()).aimd.config.alpha == 4
    stranger = replace(lane_config(), upstream="new")
    assert hands.scheduler.open_lane(0.0, "new/1", stranger).aimd.config.alpha == 3


@pytest.mark.parametrize(("ceiling", "level"), [(2, 2.0), (20, 20.0), (0, math.inf)])
def test_the_ceiling_acts_at_once(ceiling: int, level: float) -> None:
    """The level goes with it to the gate, and the change of the level is an event of its own, by the operator."""
    hands = Hands(lane_config(slots=8))
    turn(hands, "max_concurrency", ceiling)
    assert hands.lane.gate.limit == level
    assert [(event.level, event.cause) for event in hands.seen(LevelChanged)] == [(level, "operator")]


def test_a_lower_ceiling_ends_nothing_in_flight() -> None:
    """What is in flight goes on; the next one waits until as many have ended."""
    hands = Hands(lane_config(slots=3))
    in_flight = [hands.arrive(name) for name in "abc"]
    turn(hands, "max_concurrency", 1)
    assert [ticket.state for ticket in in_flight] == [TicketState.IN_FLIGHT] * 3
    waiting = hands.arrive("d")
    for ticket in in_flight[:2]:
        hands.succeed(ticket)
        assert waiting.in_queue
    hands.succeed(in_flight[2])
    assert waiting.state is TicketState.IN_FLIGHT


def test_the_floor_lifts_the_level() -> None:
    """At once, also one that is pinned below it; otherwise the level doesn't move, and no event says so."""
    hands = Hands(lane_config(slots=8))
    turn(hands, "aimd.floor", 2)
    assert hands.seen(LevelChanged) == []
    hands.scheduler.apply(0.0, PinLevel(3), "you")
    hands.gather()
    hands.log.clear()
    turn(hands, "aimd.floor", 4)
    assert (hands.lane.gate.limit, hands.lane.aimd.pinned) == (4.0, True)
    assert [event.level for event in hands.seen(LevelChanged)] == [4.0]


def test_the_latency_target_acts_from_the_next_sample() -> None:
    """A mean that was well under the old target is over the new one."""
    hands = Hands(lane_config(slots=4))
    hands.content(quick := hands.arrive())
    hands.succeed(quick)  # of which is learned that it takes nothing alone
    ticket, _ = hands.arrive(), hands.arrive("b")
    hands.wait(2.5)
    turn(hands, "aimd.latency_target_s", 1.0)
    assert hands.seen(LevelChanged) == []
    hands.content(ticket)
    assert [(event.level, event.cause) for event in hands.seen(LevelChanged)] == [(2.0, "latency")]


def test_a_shorter_circuit_window_keeps_the_newest_results() -> None:
    """Of three good results and two bad ones the last two remain; the next bad one opens the circuit."""
    hands = Hands(circuit_lane(window=10))
    in_flight = [hands.arrive(f"a{n}") for n in range(6)]
    for ticket in in_flight[:3]:
        hands.succeed(ticket)
    for ticket in in_flight[3:5]:
        hands.fail(ticket, failure(retryable=False))
    turn(hands, "circuit.window", 2)
    state = lane_state(hands.lane, hands.now, paused=False)
    assert (state.circuit_errors, state.circuit_results, state.circuit_window) == (2, 2, 2)
    assert state.circuit == "closed"
    hands.fail(in_flight[5], failure(retryable=False))
    assert hands.lane.circuit.state.value == "open"


def test_a_longer_circuit_window_asks_for_more_results() -> None:
    """Those it had still count."""
    hands = Hands(circuit_lane(window=2))
    hands.fail(hands.arrive(), failure(retryable=False))
    turn(hands, "circuit.window", 3)
    hands.fail(hands.arrive(), failure(retryable=False))
    assert hands.lane.circuit.state.value == "closed"
    hands.fail(hands.arrive(), failure(retryable=False))
    assert hands.lane.circuit.state.value == "open"


def test_a_shorter_cooldown_ends_one_that_has_lasted_as_long() -> None:
    """The circuit goes to its probe at once, which a waiting ticket becomes."""
    hands = Hands(circuit_lane(window=1))
    hands.fail(hands.arrive(), failure(retryable=False))
    waiting = hands.arrive("b")
    hands.wait(4.0)
    turn(hands, "circuit.cooldown_s", 3)
    assert hands.seen(CircuitChanged)[-1].state == "half_open"
    assert waiting.state is TicketState.IN_FLIGHT


def test_retry_limits_act_on_the_next_failure() -> None:
    """They are the scheduler's own: every lane has them, the budget that saves up retries too."""
    hands = Hands(lane_config(slots=4))
    turn(hands, "retry.max_attempts", 2)
    ticket = hands.arrive()
    assert hands.fail(ticket) is not None
    hands.wait(5.0)
    assert ticket.state is TicketState.IN_FLIGHT
    assert hands.fail(ticket) is None
    turn(hands, "retry.budget_ratio", 7)
    assert hands.lane.retries.config.budget_ratio == 7
    later = hands.scheduler.open_lane(hands.now, "later", lane_config())
    assert (
        later.retries.config.budget_ratio,
        lane_state(later, hands.now, paused=False).knobs["retry.max_attempts"],
    ) == (7, 2)


@pytest.mark.parametrize("upstream", [None, "up"])
def test_what_is_shared_is_turned_for_all(upstream: str | None) -> None:
    """Whichever upstream was named when turning it."""
    hands = Hands()
    other = hands.scheduler.open_lane(0.0, "other/1", replace(lane_config(), upstream="other"))
    turn(hands, "retry.deadline_s", 5, upstream)
    assert (knob(hands, "retry.deadline_s"), lane_state(other, hands.now, paused=False).knobs["retry.deadline_s"]) == (
        5,
        5,
    )
    assert hands.scheduler.config.retry.deadline_s == 5


def test_retry_budget_keeps_its_balance() -> None:
    """What was spent before stays spent."""
    hands = Hands()
    for _ in range(20):
        hands.lane.retries.spend(0.0)
    turn(hands, "retry.budget_ratio", 0)
    assert hands.lane.retries.spend(0.0) == 1.0


LIMITED: dict[str, LaneConfig] = {
    "a profile's": lane_config(slots=50, rpm=10, tpm=100_000),
    "a user's": lane_config(slots=50, rpm=10, tpm=100_000, rpm_binding=True),
}


@pytest.mark.parametrize("lane", LIMITED.values(), ids=list(LIMITED))
def test_a_lower_rate_counts_what_was_used(lane: LaneConfig) -> None:
    """Four of ten were sent, so a limit of five leaves one, until the minute is over."""
    hands = Hands(lane)
    for n in range(4):
        hands.arrive(f"a{n}")
    turn(hands, "rpm", 5)
    assert hands.arrive("b").state is TicketState.IN_FLIGHT
    held = hands.arrive("c")
    assert held.in_queue
    hands.wait(60.0)
    assert held.state is TicketState.IN_FLIGHT


def test_a_higher_rate_lets_them_go_at_once() -> None:
    """As many as it has room for."""
    hands = Hands(lane_config(slots=50, rpm=2))
    tickets = [hands.arrive(f"a{n}") for n in range(6)]
    turn(hands, "rpm", 4)
    assert [ticket.state for ticket in tickets].count(TicketState.IN_FLIGHT) == 4


def test_no_rate_takes_our_limit_away_and_keeps_count() -> None:
    """Everything is sent; a limit that comes back later finds it counted."""
    hands = Hands(lane_config(slots=50, rpm=2))
    tickets = [hands.arrive(f"a{n}") for n in range(6)]
    turn(hands, "rpm", 0)
    assert [ticket.state for ticket in tickets].count(TicketState.IN_FLIGHT) == 6
    assert [window.kind for window in lane_state(hands.lane, 0.0, paused=False).windows] == []
    turn(hands, "rpm", 8)
    (window,) = lane_state(hands.lane, 0.0, paused=False).windows
    assert (window.limit, window.used, window.source) == (8, 6, "settings")


def test_a_limit_where_there_was_none() -> None:
    """It binds from the next request on."""
    hands = Hands(lane_config(slots=50))
    hands.arrive("a")
    turn(hands, "tpm", 1000)
    assert hands.arrive("b").state is TicketState.IN_FLIGHT
    assert hands.arrive("c", size=4000).in_queue


def test_a_tuned_rate_holds_whatever_the_headers_say() -> None:
    """As one that was set at the start; without it the headers' own remains."""
    hands = Hands(lane_config(slots=50, rpm=10))
    read(hands, limit=1000, remaining=999)
    turn(hands, "rpm", 3)
    assert [hands.arrive(f"a{n}").state for n in range(3)] == [TicketState.IN_FLIGHT] * 2 + [TicketState.QUEUED]
    read_later = hands.granted[:]
    turn(hands, "rpm", 0)
    assert len(hands.granted) == len(read_later) + 1
    (window,) = lane_state(hands.lane, hands.now, paused=False).windows
    assert (window.limit, window.source) == (1000, "headers")


def test_an_assumed_limit_that_headers_replaced_reads_as_none() -> None:
    """What the knob shows is the limit of ours that holds now, so setting it to that changes nothing."""
    hands = Hands(lane_config(slots=50, rpm=10))
    assert knob(hands, "rpm") == 10
    read(hands, limit=1000, remaining=999)
    assert knob(hands, "rpm") == 0
    turn(hands, "rpm", 7)
    assert knob(hands, "rpm") == 7
    read(hands, limit=1000, remaining=990)
    assert knob(hands, "rpm") == 7


def test_another_knob_leaves_an_assumption_that_was_dropped_alone() -> None:
    """The profile's guess of all tokens doesn't come back when alpha is turned."""
    hands = Hands(lane_config(slots=50, tpm=100))
    ticket = hands.arrive(size=4)
    hands.scheduler.headers(0.0, ticket, (WindowReading(WindowKind.INPUT, 10**6, 10**6, 30.0),))
    turn(hands, "aimd.alpha", 2)
    assert hands.arrive("b", size=4000).state is TicketState.IN_FLIGHT


def test_turned_while_nothing_can_be_granted_it_wakes_the_next() -> None:
    """A command that changes what is allowed is followed by grants, on the lanes it is about."""
    hands = Hands(lane_config(slots=1))
    hands.arrive("a")
    waiting = hands.arrive("b")
    turn(hands, "max_concurrency", 2, "up")
    assert hands.granted == [waiting]
    assert hands.seen(Commanded)[-1].arguments == {"knob": "max_concurrency", "value": 2, "upstream": "up"}


def test_a_circuit_steered_by_hand_stays_so() -> None:
    """Turning its knobs doesn't give it back to itself."""
    hands = Hands()
    hands.scheduler.apply(0.0, SetCircuit("closed", LANE), "you")
    turn(hands, "circuit.threshold", 0.9)
    assert hands.lane.circuit.forced == "closed"

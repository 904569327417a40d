"""500s that are their request's own fault, beside those of an upstream that fails."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, circuit_lane, lane_config

from hivemind.scheduler import events as ev
from hivemind.scheduler.config import CircuitConfig, LaneConfig
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Failure, FailureKind

PARSER = 1
"""What the error of a request that always fails says."""


def error(request: int, words: int = PARSER, *, at_home: bool = False) -> Failure:
    return Failure(FailureKind.SERVER_ERROR, True, 500, message="500", words=(request, words), at_home=at_home)


def again(hands: Hands, ticket: Ticket) -> bool:
    """Wait until the ticket is sent again; False: it is done."""
    while ticket.waiting:
        hands.wait(0.1)
    return ticket.state is TicketState.IN_FLIGHT


def served(hands: Hands, agent: str = "good", takes_s: float = 0.01) -> float:
    """Have one request answered. Return how long it waited."""
    hands.wait(0.01)
    came, ticket = hands.now, hands.arrive(agent)
    assert again(hands, ticket)
    waited_s = hands.now - came
    hands.wait(takes_s)
    hands.succeed(ticket)
    return waited_s


@pytest.mark.parametrize("bad", [1, 6, 12])
def test_requests_that_always_fail_hold_up_nobody(bad: int) -> None:
    """Beside good ones they are told at the third attempt, and have left no mark on circuit, level and retry budget."""
    hands = Hands(lane_config(slots=16), draw=lambda: 0.99)
    served(hands)
    came = hands.now
    failing = {number: hands.arrive(f"bad{number}") for number in range(bad)}
    told_s = []
    while failing:
        for number, ticket in list(failing.items()):
            if ticket.state is TicketState.IN_FLIGHT and hands.fail(ticket, error(number)) is None:
                told_s.append(hands.now - came)
                assert (ticket.attempts, ticket.at_fault) == (3, True)
                del failing[number]
        assert served(hands) == 0
        hands.wait(0.05)
    lane = hands.lane
    assert max(told_s) < 10
    assert (lane.circuit.errors, lane.aimd.level) == (0, 16)
    assert bad > 6 or not hands.seen(ev.CircuitChanged)
    assert min(event.level for event in hands.seen(ev.LevelChanged)) == 8, "one cut for them all"
    assert hands.seen(ev.AttemptFailed)[-1].message.endswith("as whenever this request is sent")
    hands.fail(known := hands.arrive("bad0"), error(0))
    assert (known.state, known.attempts) == (TicketState.DONE, 1), "the same request again is known"
    hands.fail(new := hands.arrive("bad0"), error(99))
    assert new.state is not TicketState.DONE


@pytest.mark.parametrize("bad", [1, 6, 30, 60])
def test_a_server_at_home_needs_no_good_ones(bad: int) -> None:
    """There they are told at the third attempt though nobody is answered, within seconds however many they are, and
    nothing else is held up meanwhile or after."""
    hands = Hands(LaneConfig("up", "llamacpp", 0, 0, 0), draw=lambda: 0.99)
    failing = {number: hands.arrive(f"bad{number}") for number in range(bad)}
    while failing:
        for number, ticket in list(failing.items()):
            if ticket.state is TicketState.IN_FLIGHT and hands.fail(ticket, error(number, at_home=True)) is None:
                assert (ticket.attempts, ticket.at_fault) == (3, True)
                del failing[number]
        assert hands.now < 5
        hands.wait(0.05)
    assert not hands.seen(ev.CircuitChanged)
    assert not hands.seen(ev.LevelChanged)
    assert hands.lane.circuit.errors == 0
    assert served(hands) == 0


def test_a_server_at_home_in_ever_other_words() -> None:
    """That is no request's own fault: the circuit opens, and retries are as few as in any outage."""
    hands = Hands(LaneConfig("up", "llamacpp", 0, 0, 0), draw=lambda: 0.99)
    tickets = [hands.arrive(f"a{number}") for number in range(30)]
    sent = 0
    while hands.now < 60:
        for ticket in tickets:
            if ticket.state is TicketState.IN_FLIGHT:
                sent += 1
                assert hands.fail(ticket, error(ticket.id, sent, at_home=True)) is not None
        hands.wait(0.05)
    assert hands.lane.circuit.state.value == "open"
    assert sent < 80


def test_many_that_always_fail_beside_good_ones() -> None:
    """What is known not to be an outage uses up none of the retries that an outage may have."""
    hands = Hands(lane_config(slots=64), draw=lambda: 0.99)
    served(hands)
    came = hands.now
    failing = {number: hands.arrive(f"bad{number}") for number in range(20)}
    while failing:
        for number, ticket in list(failing.items()):
            if ticket.state is TicketState.IN_FLIGHT and hands.fail(ticket, error(number)) is None:
                del failing[number]
        served(hands)
        hands.wait(0.05)
    assert hands.now - came < 5


def test_one_good_answer_that_takes_long_is_waited_for() -> None:
    """Nobody was answered so far, but a request is in flight that may be: what has failed before isn't counted anew."""
    hands = Hands(lane_config(slots=16), draw=lambda: 0.0)
    good = hands.arrive("good")
    failing = [hands.arrive(f"bad{number}") for number in range(6)]
    for _ in range(4):
        for number, ticket in enumerate(failing):
            assert again(hands, ticket)
            hands.wait(0.01)
            assert hands.fail(ticket, error(number)) is not None
    assert hands.lane.circuit.errors == 6
    hands.succeed(good)
    served(hands)
    for number, ticket in enumerate(failing):
        assert again(hands, ticket)
        assert hands.fail(ticket, error(number)) is None
    assert hands.lane.circuit.state.value == "closed"


@pytest.mark.parametrize("others", [0, 9], ids=["alone", "crowd"])
def test_an_outage_in_the_same_words_is_survived(others: int) -> None:
    """Every request gets the same 500 for two minutes, from the middle of good traffic on: none is told, the circuit
    opens, and no answer that was under way before makes a failure a request's own, nor the first one after."""
    hands = Hands(LaneConfig("up", "generic", 16, 0, 0, circuit=CircuitConfig()), draw=lambda: 0.5)
    for _ in range(5):
        served(hands)
    slow = hands.arrive("slow")
    tickets = [hands.arrive(f"a{number}") for number in range(others + 1)]
    for ticket in tickets:
        hands.fail(ticket, error(ticket.id))
    hands.succeed(slow)
    ends = hands.now + 120
    while hands.now < ends:
        hands.wait(0.05)
        for ticket in tickets:
            if ticket.state is TicketState.IN_FLIGHT:
                assert hands.fail(ticket, error(ticket.id)) is not None
    flaps = True
    while waiting := [ticket for ticket in tickets if ticket.state is not TicketState.DONE]:
        hands.wait(0.05)
        for ticket in waiting:
            if ticket.state is not TicketState.IN_FLIGHT:
                continue
            if flaps and len(waiting) < len(tickets):
                flaps = False
                assert hands.fail(ticket, error(ticket.id)) is not None
            else:
                hands.succeed(ticket)
    assert not hands.seen(ev.Refused)


def test_words_by_chance_take_longer() -> None:
    """Where requests are answered after the same words, three in a row may be bad luck."""
    hands = Hands(lane_config(slots=16), draw=lambda: 0.0)
    lucky = hands.arrive("lucky")
    hands.fail(lucky, error(1))
    assert again(hands, lucky)
    hands.succeed(lucky)
    ticket = hands.arrive("unlucky")
    fails = 0
    while again(hands, ticket):
        fails += 1
        hands.fail(ticket, error(2))
        served(hands)
    assert fails == 6


@pytest.mark.parametrize(
    "kinds",
    [
        [Failure(FailureKind.SERVER_ERROR, True, 502)],
        [Failure(FailureKind.OVERLOADED, True, 529)],
        [error(1, words) for words in range(10)],
    ],
    ids=["502", "529", "other words"],
)
def test_other_failures_are_retried_as_before(kinds: list[Failure]) -> None:
    """Only what comes in the same words is a request's own."""
    hands = Hands(lane_config(slots=16), draw=lambda: 0.0)
    ticket = hands.arrive("a")
    for number in range(9):
        assert again(hands, ticket)
        assert hands.fail(ticket, kinds[number % len(kinds)]) is not None
        served(hands)


def test_a_cut_for_another_reason_stays() -> None:
    """What is taken back is what the request's own failures did, not congestion after them."""
    hands = Hands(lane_config(slots=16))
    bad, busy = hands.arrive("bad"), None
    hands.fail(bad, error(1))
    assert hands.lane.aimd.level == 8
    hands.wait(0.1)
    served(hands)
    busy = hands.arrive("busy")
    hands.fail(busy, Failure(FailureKind.OVERLOADED, True, 529))
    assert hands.lane.aimd.level == 4
    assert again(hands, bad)
    hands.fail(bad, error(1))
    assert hands.lane.aimd.level == 4


def test_a_probe_is_one_that_has_not_failed() -> None:
    """Else the one that failed longest ago; and where those that failed may be at fault themselves, a new request needs
    no cooldown."""
    hands = Hands(circuit_lane())
    failing = [hands.arrive(f"a{number}") for number in range(4)]
    for ticket in failing:
        hands.wait(0.01)
        hands.fail(ticket, Failure(FailureKind.SERVER_ERROR, True, 502))
    new = hands.arrive("z")
    assert new.state is not TicketState.DONE
    hands.granted.clear()
    hands.wait(11)
    assert hands.granted == [new]
    hands.fail(new, Failure(FailureKind.SERVER_ERROR, True, 502))
    for ticket in [*failing, new, failing[0]]:
        hands.granted.clear()
        hands.wait(11)
        assert hands.granted == [ticket]
        hands.fail(ticket, error(ticket.id, ticket.id))
    hands.granted.clear()
    hands.arrive("y")
    assert hands.now < (hands.lane.circuit._opened_at + 10)
    assert hands.lane.circuit.state.value == "half_open"

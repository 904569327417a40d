"""Limits that are only assumed, and limits that all lanes of an upstream share."""

from __future__ import annotations

import math

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scheduler.driving import Hands, failure, lane_config

from hivemind.records import replace
from hivemind.scheduler.commands import PauseAdmissions, Tune
from hivemind.scheduler.config import AimdConfig, LaneConfig, SchedulerConfig
from hivemind.scheduler.events import AssumedLimitChanged, Hold, LaneOpened, WindowState
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import FailureKind, WindowKind, WindowReading

UNKNOWN = LaneConfig(
    "up", "generic", max_concurrency=0, begin_at=5, rpm=60, tpm=0, grows=True, aimd=AimdConfig(latency_target_s=10.0)
)


def window(hands: Hands) -> WindowState:
    (found,) = hands.scheduler.sample(hands.now).lanes[0].windows
    return found


def serve(hands: Hands, requests: int, *, allows: float = math.inf, at_once: float = math.inf) -> tuple[int, int]:
    """Have requests come together to an upstream that refuses more than it allows, in a minute or at once. Return how
    many were answered, and how often it refused, within two minutes."""
    tickets = [hands.arrive(f"a{number % 24}") for number in range(requests)]
    served: list[float] = []
    refused = 0
    while hands.now < 120 and any(ticket.state is not TicketState.DONE for ticket in tickets):
        in_flight = [ticket for ticket in tickets if ticket.state is TicketState.IN_FLIGHT]
        hands.wait(0.5 if in_flight else 0.1)
        for number, ticket in enumerate(in_flight):
            served = [at for at in served if at > hands.now - 60]
            if len(served) < allows and number < at_once:
                served.append(hands.now)
                hands.succeed(ticket)
            else:
                refused += 1
                hands.fail(ticket, failure(FailureKind.RATE_LIMITED))
    return sum(ticket.state is TicketState.DONE for ticket in tickets), refused


def test_an_assumed_window_grows_while_it_holds_requests_up() -> None:
    """An upstream without limits gets what it serves: 600 requests take seconds and not ten minutes, and the log says
    whose limit it was."""
    hands = Hands(UNKNOWN)
    assert serve(hands, 600) == (600, 0)
    assert hands.now < 60
    assert (window(hands).source, window(hands).limit >= 600) == ("assumed", True)
    changes = hands.seen(AssumedLimitChanged)
    assert changes[0].limit == 75
    assert not any(change.refused for change in changes)
    assert hands.lane.aimd.level > 5


def test_a_refusal_is_knowledge() -> None:
    """Where more is refused, what was answered is the limit from then on, and it is tried again a little at a time."""
    hands = Hands(UNKNOWN)
    answered, refused = serve(hands, 600, allows=100)
    assert 180 <= answered <= 200 + 5
    assert refused < 40
    assert window(hands).source == "refused"
    assert 60 <= window(hands).limit <= 140
    assert any(change.refused for change in hands.seen(AssumedLimitChanged))


def test_a_refusal_at_a_nearly_empty_window_isnt_about_it() -> None:
    """Of a few requests at once, a refusal says nothing of a limit a minute."""
    hands = Hands(UNKNOWN)
    first, second = hands.arrive("a"), hands.arrive("b")
    hands.fail(first, failure(FailureKind.RATE_LIMITED))
    hands.succeed(second)
    assert (window(hands).limit, window(hands).source) == (60, "assumed")


def test_a_refusal_of_too_many_at_once_is_left_to_the_level() -> None:
    """An upstream that serves so many at once, and any number a minute, is refused by the level's steps alone."""
    hands = Hands(UNKNOWN)
    answered, refused = serve(hands, 200, at_once=7)
    assert (answered, refused > 0) == (200, True)
    assert not any(change.refused for change in hands.seen(AssumedLimitChanged))


def test_a_refusal_by_a_stated_window_isnt_about_an_assumed_one() -> None:
    """Where replies state requests a minute and none is left, the assumed tokens a minute stay."""
    hands = Hands(LaneConfig("up", "generic", 0, begin_at=5, rpm=60, tpm=1000, grows=True))
    first = hands.arrive(size=2400)
    hands.scheduler.headers(hands.now, first, (WindowReading(WindowKind.REQUESTS, 60, 0, 60.0),))
    hands.fail(first, failure(FailureKind.RATE_LIMITED))
    assert not hands.seen(AssumedLimitChanged)


@pytest.mark.parametrize("known", ["settings", "headers", "operator", "fixed"])
def test_what_is_known_never_grows(known: str) -> None:
    """A limit that the user set, that replies state or that a provider's profile has isn't grown."""
    lane = {
        "settings": LaneConfig("up", "generic", 0, begin_at=5, rpm=60, tpm=0, grows=True, rpm_binding=True),
        "fixed": LaneConfig("up", "anthropic", 5, rpm=60, tpm=0),
    }.get(known, UNKNOWN)
    hands = Hands(lane)
    if known == "headers":
        first: Ticket = hands.arrive()
        reading = WindowReading(WindowKind.REQUESTS, 60, 59, 60.0)
        hands.scheduler.headers(hands.now, first, (reading,))
        hands.succeed(first)
    if known == "operator":
        hands.apply(Tune("rpm", 60))
    for number in range(80):
        ticket = hands.arrive(f"a{number}")
        if ticket.state is TicketState.IN_FLIGHT:
            hands.wait(0.01)
            hands.succeed(ticket)
    assert window(hands).limit == 60
    assert not hands.seen(AssumedLimitChanged)


def test_a_server_that_is_recognised_has_no_limits() -> None:
    """What waits for an assumed limit is sent at once when it turns out that there is none; what was tuned stays."""
    hands = Hands(UNKNOWN)
    tickets = [hands.arrive(f"a{number}") for number in range(10)]
    assert sum(ticket.state is TicketState.IN_FLIGHT for ticket in tickets) == 5
    hands.apply(Tune("aimd.beta", 0.9))
    hands.scheduler.reconfigure(hands.now, LaneConfig("up", "llamacpp", 0, rpm=0, tpm=0))
    hands.gather()
    assert all(ticket.state is TicketState.IN_FLIGHT for ticket in tickets)
    assert hands.lane.config.aimd.beta == 0.9
    assert hands.lane.config.provider == "llamacpp"
    assert [event.recognised for event in hands.seen(LaneOpened)] == [False, True]


KEYS = ("up/a", "up/b", "up/c")


def shared(total: int, *, slots: int = 4, upstream: str = "up") -> LaneConfig:
    """A lane of an upstream with so many requests in all."""
    return replace(lane_config(slots=slots), upstream=upstream, max_concurrency_per_upstream=total)


def several(total: int, *, slots: int = 4, config: SchedulerConfig | None = None) -> Hands:
    """Three lanes of one upstream."""
    hands = Hands(shared(total, slots=slots), config=config)
    for key in KEYS:
        hands.scheduler.open_lane(0.0, key, shared(total, slots=slots))
    return hands


def ask(hands: Hands, key: str, agent: str = "") -> Ticket:
    return hands.arrive(agent or key, lane=key)


def in_flight(hands: Hands) -> dict[str, int]:
    return {key: hands.scheduler.lanes[key].gate.active for key in KEYS}


def test_another_upstream_is_another_matter() -> None:
    """Its lanes have a limit of their own, or none."""
    hands = several(1)
    hands.scheduler.open_lane(0.0, "other/a", shared(1, upstream="other"))
    hands.scheduler.open_lane(0.0, "free/a", lane_config(slots=2))
    keys = ("up/a", "up/b", "other/a", "other/a", "free/a", "free/a", "free/a")
    states = [ask(hands, key).state is TicketState.IN_FLIGHT for key in keys]
    assert states == [True, False, True, False, True, True, False]


@pytest.mark.parametrize("end", ["succeed", "fail", "leave"])
def test_what_is_given_back_goes_to_a_lane_that_waits(end: str) -> None:
    """However an attempt ends, and though nothing else happens on that lane."""
    hands = several(1)
    first, second = ask(hands, "up/a"), ask(hands, "up/b")
    if end == "fail":
        hands.fail(first, failure(FailureKind.CLIENT_ERROR, retryable=False))
    else:
        {"succeed": hands.succeed, "leave": hands.leave}[end](first)
    assert second.state is TicketState.IN_FLIGHT
    assert hands.granted == [second]


def test_each_lane_gets_as_much_as_the_others() -> None:
    """One that asks for much more than the others gets no more of the upstream, and what they leave."""
    hands = several(6, slots=6)
    greedy = [ask(hands, "up/a") for _ in range(30)]
    others = [ask(hands, key) for key in KEYS[1:] for _ in range(4)]
    for ticket in greedy[:6]:
        hands.succeed(ticket)
    for _ in range(2):
        assert in_flight(hands) == dict.fromkeys(KEYS, 2)
        for ticket in [each for each in others if each.state is TicketState.IN_FLIGHT]:
            hands.succeed(ticket)
    assert in_flight(hands) == {"up/a": 6, "up/b": 0, "up/c": 0}


def test_turns_with_a_single_place() -> None:
    """Lanes take turns though each has nothing in flight when the place comes free."""
    hands = several(1)
    for key in KEYS * 3:
        ask(hands, key)
    order = []
    for _ in range(9):
        (in_flight,) = [t for a in hands.scheduler.agents.values() for t in a.tickets.values() if not t.waiting]
        order.append(in_flight.request.lane)
        hands.succeed(in_flight)
    assert order == [*KEYS] * 3


def test_a_lane_that_is_held_by_something_else_leaves_its_turn() -> None:
    """A pause of one key isn't the others'."""
    hands = several(1)
    first, held, free = ask(hands, "up/a"), ask(hands, "up/b"), ask(hands, "up/c")
    hands.scheduler.lanes["up/b"].pause(hands.now, 30.0, "429")
    hands.succeed(first)
    assert (held.waiting, free.waiting) == (True, False)
    hands.succeed(free)
    hands.wait(30.0)
    assert not held.waiting


def test_it_is_shown_as_a_gate() -> None:
    """A slot of the lane's is free, but none of the upstream's; how long that takes is unknown."""
    hands = several(1)
    ask(hands, "up/a")
    waiting, behind = ask(hands, "up/b"), ask(hands, "up/a")
    states = {state.lane: state for state in hands.scheduler.sample(hands.now).lanes}
    assert states["up/b"].upcoming == (Hold(waiting.id, "upstream", None, None),)
    assert [hold.gate for hold in states["up/a"].upcoming] == ["upstream"]
    assert (states["up/b"].upstream_active, states["up/b"].upstream_limit) == (1, 1)
    hands.apply(PauseAdmissions(True))
    states = {state.lane: state for state in hands.scheduler.sample(hands.now).lanes}
    assert [hold.gate for hold in states["up/a"].upcoming] == ["paused"]
    assert behind.waiting


def test_a_full_lane_is_shown_first() -> None:
    """Where neither it nor the upstream has a slot."""
    hands = several(1, slots=1)
    ask(hands, "up/a")
    waiting = ask(hands, "up/a")
    states = {state.lane: state for state in hands.scheduler.sample(hands.now).lanes}
    assert [(hold.ticket, hold.gate) for hold in states["up/a"].upcoming] == [(waiting.id, "slot")]


def test_it_goes_with_the_concurrency_limit() -> None:
    """Where that is switched off, so is this."""
    hands = several(1, config=SchedulerConfig(admission=False))
    assert [ask(hands, key).state for key in KEYS] == [TicketState.IN_FLIGHT] * 3


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(["ask", "end", "fail", "leave"]), st.integers(0, 20)), max_size=60))
def test_never_more_and_never_idle(steps: list[tuple[str, int]]) -> None:
    """Whatever happens: no more in flight than there may be, and no place stays empty while a lane could take it."""
    hands = several(2, slots=2)
    tickets: list[Ticket] = []
    for what, number in steps:
        open_ones = [ticket for ticket in tickets if ticket.state is not TicketState.DONE]
        sent = [ticket for ticket in open_ones if ticket.state is TicketState.IN_FLIGHT]
        if what == "ask":
            tickets.append(ask(hands, KEYS[number % 3], f"agent-{number % 5}"))
        elif what == "leave" and open_ones:
            hands.leave(open_ones[number % len(open_ones)])
        elif what == "fail" and sent:
            hands.fail(sent[number % len(sent)], failure(FailureKind.CLIENT_ERROR, retryable=False))
        elif what == "end" and sent:
            hands.succeed(sent[number % len(sent)])
        hands.wait(0.1)
        active = sum(in_flight(hands).values())
        waiting = sum(lane.queue.waiting for lane in hands.scheduler.lanes.values())
        assert active <= 2
        assert active == 2 or not waiting

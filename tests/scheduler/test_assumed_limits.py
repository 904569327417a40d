"""Limits that are only assumed: where they begin, how they grow, and what a refusal makes of them."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import Hands, failure

from hivemind.scheduler.commands import Tune
from hivemind.scheduler.config import AimdConfig, LaneConfig
from hivemind.scheduler.events import AssumedLimitChanged, LaneOpened, WindowState
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

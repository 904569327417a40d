"""Of requests with one new long prefix one writes it to the provider's cache, and the others read it."""

from __future__ import annotations

import pytest
from scheduler.driving import Hands, failure

from hivemind.scheduler.admission.first_writes import LONGEST_S
from hivemind.scheduler.commands import PauseAgent
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import FailureKind, Usage

WROTE = Usage(0, 0, 100_000, 1)


def fleet(provider: str = "anthropic", others: int = 19) -> tuple[Hands, Ticket, list[Ticket]]:
    """A first request, and others with the same prefix, at once."""
    hands = Hands(LaneConfig("up", provider, 32, 0, 0))
    first, *rest = [hands.arrive(f"a{n}", size=400_000, prefix=7) for n in range(others + 1)]
    return hands, first, rest


def sent(tickets: list[Ticket]) -> int:
    return sum(ticket.state is TicketState.IN_FLIGHT for ticket in tickets)


def test_one_of_twenty_writes() -> None:
    """The others go when its answer begins, at once, and a later one doesn't wait."""
    hands, first, rest = fleet()
    hands.wait(3.0)
    assert (first.state, sent(rest)) == (TicketState.IN_FLIGHT, 0)
    hands.scheduler.first_content(hands.now, first, WROTE)
    hands.gather()
    assert sent(rest) == 19
    hands.wait(100.0)
    assert hands.arrive("late", size=400_000, prefix=7).state is TicketState.IN_FLIGHT


@pytest.mark.parametrize("how", ["fails", "leaves", "takes long", "isn't kept", "whole"])
def test_the_others_wait_for_no_more_than_that(how: str) -> None:
    """Whatever becomes of the first, another one follows; what no cache keeps needs no order."""
    hands, first, rest = fleet()
    hands.wait(3.0)
    if how == "fails":
        hands.fail(first, failure(FailureKind.CLIENT_ERROR, retryable=False))
        assert sent(rest) == 1
    elif how == "leaves":
        hands.leave(first)
        assert sent(rest) == 1
    elif how == "takes long":
        hands.wait(LONGEST_S - 3.0)
        assert sent(rest) == 19
    elif how == "isn't kept":
        hands.scheduler.first_content(hands.now, first, Usage(100_000, 0, 0, 1))
        hands.gather()
        hands.wait(1000.0)
        assert [hands.arrive("b", size=400_000, prefix=7).state for _ in range(2)] == [TicketState.IN_FLIGHT] * 2
    else:
        hands.succeed(first, WROTE)
        assert sent(rest) == 19


def test_only_those_wait_that_would_write() -> None:
    """Not requests with another prefix or none, nor any where nothing is kept of prompts; an agent in hold stays so."""
    hands, first, rest = fleet(others=2)
    others = [hands.arrive("b", size=400_000, prefix=8), hands.arrive("c", size=400_000)]
    assert sent(others) == 2
    hands.apply(PauseAgent("a1", paused=True))
    hands.leave(rest[1])
    hands.scheduler.first_content(hands.now, first, WROTE)
    hands.gather()
    assert sent(rest) == 0
    hands.apply(PauseAgent("a1", paused=False))
    assert sent(rest) == 1
    assert sent(fleet("ollama")[2]) == 19

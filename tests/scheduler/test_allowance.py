"""The rate windows of one lane and model family, taken and settled together."""

from __future__ import annotations

import pytest
from scheduler.driving import lane_config

from hivemind.scheduler.admission.allowance import Allowance
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.ticket import Agent, Ticket
from hivemind.scheduler.types import Priority, Request, Usage, WindowKind, WindowReading


def reading(kind: WindowKind, limit: int, remaining: int) -> WindowReading:
    return WindowReading(kind, limit, remaining, 50.0)


def sized(tokens_in: int, tokens_out: int, max_out: int | None) -> Ticket:
    request = Request("agent", "lane", "m", "m", 0, max_out, stream=True)
    ticket = Ticket(1, request, Agent("agent", 0.0), "p", Priority.NORMAL, 0.0, 0.0, 60.0)
    ticket.estimated_input, ticket.estimated_output = tokens_in, tokens_out
    return ticket


def remaining(allowance: Allowance) -> dict[WindowKind, float]:
    return {kind: window.remaining(0.0) for kind, window in allowance.windows.items()}


@pytest.mark.parametrize(("rpm", "tpm"), [(1, 0), (0, 300), (1, 300)])
def test_every_window_must_have_room(rpm: int, tpm: int) -> None:
    """Requests or tokens, whichever is used up first."""
    allowance = Allowance(lane_config(rpm=rpm, tpm=tpm))
    assert allowance.delay_s(0.0, sized(100, 100, None)) == 0
    allowance.take(0.0, sized(100, 100, None))
    assert allowance.delay_s(0.0, sized(100, 100, None)) == pytest.approx(60.0)


@pytest.mark.parametrize(
    ("reserves", "max_out", "left"), [(False, 5000, 9800), (True, 5000, 5000), (True, None, 9800), (True, 20, 9800)]
)
def test_max_tokens_are_reserved_only_where_the_provider_does(reserves: bool, max_out: int | None, left: int) -> None:
    """OpenAI charges the larger of max_tokens and its estimate at the start; Anthropic doesn't."""
    allowance = Allowance(lane_config(tpm=10_000, reserve_max_tokens=reserves))
    allowance.take(0.0, sized(100, 100, max_out))
    assert remaining(allowance) == {WindowKind.TOKENS: left}


@pytest.mark.parametrize(
    ("usage", "sent", "tokens", "requests"),
    [(Usage(50, 0, 0, 30), True, 9920, 9), (None, True, 9800, 9), (None, False, 10_000, 10)],
)
def test_settles_with_what_was_used(usage: Usage | None, sent: bool, tokens: int, requests: int) -> None:
    """With the real usage where it is known, with the estimate where it isn't, with nothing where nothing was sent."""
    allowance = Allowance(lane_config(rpm=10, tpm=10_000))
    reservation = allowance.take(0.0, sized(100, 100, None))
    allowance.settle(0.0, reservation, usage, sent=sent)
    assert remaining(allowance) == {WindowKind.REQUESTS: requests, WindowKind.TOKENS: tokens}


@pytest.mark.parametrize(("counts", "left"), [(True, 9000 - 10), (False, 9900 - 10)])
def test_cache_reads_count_where_the_provider_counts_them(counts: bool, left: int) -> None:
    """Not Anthropic's; cache writes always do."""
    allowance = Allowance(LaneConfig("up", "p", rpm=0, tpm=10_000, count_cache_reads=counts))
    reservation = allowance.take(0.0, sized(100, 100, None))
    allowance.settle(0.0, reservation, Usage(60, 900, 40, 10))
    assert remaining(allowance) == {WindowKind.TOKENS: left}


def test_input_and_output_readings_retire_the_guess_on_their_sum() -> None:
    """The provider counts them apart, so a profile's limit on both together means nothing any more."""
    allowance = Allowance(lane_config(tpm=100))
    assert allowance.delay_s(0.0, sized(500, 500, None)) == 0
    allowance.take(0.0, sized(500, 500, None))
    assert allowance.delay_s(0.0, sized(500, 500, None)) > 0
    allowance.read(0.0, (reading(WindowKind.INPUT, 10_000, 9000), reading(WindowKind.OUTPUT, 8000, 8000)), 0.0, None)
    assert allowance.delay_s(0.0, sized(500, 500, None)) == 0
    assert {state.kind for state in allowance.states(dict.fromkeys(allowance.windows.values(), "m"), 0.0)} == {
        WindowKind.INPUT,
        WindowKind.OUTPUT,
    }


def test_a_limit_of_the_users_on_the_sum_is_not_retired() -> None:
    """It was asked for."""
    allowance = Allowance(LaneConfig("up", "p", rpm=0, tpm=1000, tpm_binding=True))
    allowance.read(0.0, (reading(WindowKind.INPUT, 10_000, 9000),), 0.0, None)
    allowance.take(0.0, sized(500, 500, None))
    assert allowance.delay_s(0.0, sized(500, 500, None)) > 0


def test_input_and_output_are_charged_apart() -> None:
    """Each window takes its own part of the estimate."""
    allowance = Allowance(lane_config())
    allowance.read(0.0, (reading(WindowKind.INPUT, 1000, 1000), reading(WindowKind.OUTPUT, 1000, 1000)), 0.0, None)
    allowance.take(0.0, sized(300, 200, 900))
    assert remaining(allowance) == {WindowKind.INPUT: 700, WindowKind.OUTPUT: 800}

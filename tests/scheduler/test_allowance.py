"""The rate windows of one lane, and when they will have let through one ticket after another."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.admission.allowance import Allowance
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.explain import Opening, Outlook
from hivemind.scheduler.limits import BUCKET_PROOF, Window
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


def waits(window: Window, now: float, *amounts: float) -> list[float]:
    opening = Opening(window, now)
    return [opening.after(amount) for amount in amounts]


def told(limit: int, remaining: int, reset_in_s: float, *, often: int = 1, at: float = 0.0) -> Window:
    """A window of which headers said this, `often` enough to know a bucket for one."""
    window = Window(WindowKind.TOKENS, None)
    for _ in range(often):
        window.read(at, WindowReading(WindowKind.TOKENS, limit, remaining, reset_in_s), at, None)
    return window


def test_what_was_taken_comes_free_a_minute_later() -> None:
    """Piece by piece, in the order in which it was taken."""
    window = Window(WindowKind.TOKENS, 100)
    for at in (0.0, 10.0, 20.0):
        window.take(at, 30)
    assert waits(window, 25.0, 10, 30, 30, 20) == [0.0, 35.0, 45.0, 55.0]


def test_what_takes_its_place_comes_free_a_minute_after_that() -> None:
    """More than a whole window's worth takes as many minutes more."""
    window = Window(WindowKind.REQUESTS, 2)
    window.take(0.0, 1)
    window.take(10.0, 1)
    assert waits(window, 20.0, 1, 1, 1, 1, 1) == [40.0, 50.0, 100.0, 110.0, 160.0]


def test_a_limit_that_was_lowered_below_what_is_used() -> None:
    """Nothing goes before enough has come free to be below it."""
    window = Window(WindowKind.REQUESTS, 4)
    for at in range(4):
        window.take(float(at), 1)
    window.set_limit(2, binding=True)
    assert waits(window, 4.0, 1, 1) == [58.0, 59.0]


def test_a_request_larger_than_the_window_counts_as_much_of_it_as_it_needs() -> None:
    """Which is what it waits for before it is sent."""
    window = Window(WindowKind.TOKENS, 100)
    window.take(0.0, 50)
    assert waits(window, 20.0, 10_000) == [40.0]


def test_a_fixed_window_is_whole_again_at_its_reset() -> None:
    """And once more every minute from then on."""
    window = told(100, 30, 50.0)
    assert waits(window, 0.0, 30, 40, 60, 1) == [0.0, 50.0, 50.0, 110.0]


def test_a_bucket_drips() -> None:
    """So it lets through one after another rather than all at a time."""
    window = told(600, 0, 60.0, often=BUCKET_PROOF)
    assert waits(window, 0.0, 10, 10, 480) == [1.0, 2.0, 50.0]


def test_the_stricter_of_two_limits() -> None:
    """Our own and the headers'."""
    window = told(1000, 1000, 60.0)
    window.set_limit(50, binding=True)
    assert waits(window, 0.0, 40, 40) == [0.0, 60.0]
    window.set_limit(None, binding=False)
    assert waits(window, 0.0, 40, 40) == [0.0, 0.0]


def ask(outlook: Outlook, *tickets: Ticket) -> list[float]:
    return [outlook.after(ticket) for ticket in tickets]


@pytest.mark.parametrize(("rpm", "tpm", "expected"), [(2, 0, [0.0, 0.0, 60.0]), (0, 1300, [0.0, 60.0, 120.0])])
def test_tickets_take_requests_and_tokens(rpm: int, tpm: int, expected: list[float]) -> None:
    """Each what it is estimated at; the longest wait of its windows is what counts."""
    hands = Hands(lane_config(slots=1))
    tickets = [hands.arrive(size=4000) for _ in range(3)]
    outlook = Outlook(Allowance(lane_config(rpm=rpm, tpm=tpm)), tickets[0], 0.0)
    assert ask(outlook, *tickets) == expected
    assert outlook.held is None


def test_a_family_without_windows() -> None:
    """Nothing holds it."""
    ticket = Hands().arrive()
    outlook = Outlook(Allowance(lane_config()), ticket, 0.0)
    assert (outlook.held, ask(outlook, ticket, ticket)) == (None, [0.0, 0.0])
    assert Opening(Window(WindowKind.INPUT, None), 0.0).after(math.inf) == 0.0

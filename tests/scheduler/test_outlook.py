"""When rate windows will have let through one ticket after another."""

from __future__ import annotations

import math

import pytest
from scheduler.driving import Hands, lane_config

from hivemind.scheduler.admission.allowance import Allowance
from hivemind.scheduler.explain import Opening, Outlook
from hivemind.scheduler.limits import BUCKET_PROOF, Window
from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import WindowKind, WindowReading


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

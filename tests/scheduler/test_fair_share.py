"""What an agent was served, and what it owes."""

from __future__ import annotations

from hivemind.scheduler.admission.fair_share import OWED_S, Tally


def flown(tally: Tally, guessed: float, real: float, level: float, now: float, *, contended: bool = True) -> None:
    """One request from its grant to its end."""
    tally.take(guessed, now, contended=contended)
    tally.settle(guessed, real, level, now, contended=contended)


def test_one_request_in_turn_owes_nothing() -> None:
    """It is ahead by what it used, however wrong the guess was."""
    tally = Tally(1000.0)
    flown(tally, 10.0, 700.0, 1000.0, 0.0)
    assert (tally.served, tally.owed, tally.in_flight) == (1700.0, 0.0, 0.0)


def test_what_others_found_in_the_air_is_owed_beyond_one_request() -> None:
    """Four at once, each dearer than was guessed: it is ahead by one and owes three."""
    tally = Tally(0.0)
    for _ in range(4):
        tally.take(10.0, 0.0, contended=False)
    for _ in range(4):
        tally.settle(10.0, 100.0, 0.0, 1.0, contended=True)
    assert (tally.served, tally.owed) == (100.0, 300.0)


def test_use_without_competition_is_not_owed() -> None:
    """A hundred requests while no other ticket of the class waited leave it one request ahead."""
    tally = Tally(0.0)
    for n in range(100):
        flown(tally, 100.0, 100.0, 0.0, n * 1.0, contended=False)
    assert (tally.served, tally.owed) == (100.0, 0.0)


def test_debts_are_paid_at_half_speed() -> None:
    """Each request counts twice until nothing is owed, and paying makes no new debt."""
    tally = Tally(0.0)
    tally.owed, tally.owed_at = 250.0, 0.0
    ahead = []
    for n in range(4):
        level = tally.served
        flown(tally, 100.0, 100.0, level, float(n))
        ahead.append(tally.served - level)
    assert ahead == [200.0, 200.0, 150.0, 100.0]
    assert tally.owed == 0.0


def test_debts_are_forgotten() -> None:
    """After OWED_S in which no more was owed."""
    tally = Tally(0.0)
    tally.owed, tally.owed_at = 250.0, 0.0
    flown(tally, 100.0, 100.0, 0.0, OWED_S + 1.0)
    assert (tally.served, tally.owed) == (100.0, 0.0)


def test_being_away_buys_nothing_and_costs_nothing() -> None:
    """An agent behind the level is brought up to it; one ahead stays there."""
    behind, ahead = Tally(0.0), Tally(900.0)
    for each in (behind, ahead):
        each.catch_up(500.0)
    assert (behind.served, ahead.served) == (500.0, 900.0)

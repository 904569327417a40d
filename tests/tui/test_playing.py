"""The clock of a replay: speeds, stops, loops and ends, without a journal and without waiting."""

from __future__ import annotations

import pytest

from hivemind_tui.sources.playback import SPEEDS, Transport


def playing(at: float = 100.0, *, ends_at: float = 200.0) -> Transport:
    transport = Transport(100.0, ends_at)
    transport.go(at)
    transport.play()
    transport.tick(0.0)
    return transport


def test_time_goes_by_at_the_speed() -> None:
    """A tenth of a second is a tenth at x1, and 6.4 seconds at x64; none at all while it stands."""
    transport = playing()
    assert transport.tick(0.1) == pytest.approx(100.1)
    for _ in SPEEDS:
        transport.change_speed(1)
    assert transport.speed == 64
    assert transport.tick(0.2) == pytest.approx(106.5)
    transport.playing = False
    assert transport.tick(0.3) == pytest.approx(106.5)


def test_a_program_that_was_stopped_goes_on_where_it_was() -> None:
    """An hour in which nothing ran isn't played in one step."""
    transport = playing()
    assert transport.tick(3600.0) < 101.0


def test_a_loop_is_played_over_and_over() -> None:
    """Whoever comes to its end is at its beginning; whoever is past it already isn't caught."""
    transport = playing(110.0)
    transport.set_loop(0)
    transport.go(110.3)
    transport.set_loop(1)
    assert transport.loop == (110.0, 110.3)
    assert transport.tick(0.1) == 110.0
    transport.go(150.0)
    assert transport.tick(0.2) == pytest.approx(150.1)
    transport.unloop()
    assert transport.loop is None


def test_the_edges_of_a_loop_stay_in_order() -> None:
    """An edge set beyond the other one takes that away; an end alone makes a loop from the beginning."""
    transport = Transport(100.0, 200.0)
    transport.set_loop(1)
    assert transport.loop is None
    transport.go(150.0)
    transport.set_loop(1)
    assert transport.loop == (100.0, 150.0)
    transport.go(180.0)
    transport.set_loop(0)
    assert (transport.loop_from, transport.loop_to) == (180.0, None)
    transport.go(120.0)
    transport.set_loop(1)
    assert transport.loop == (100.0, 120.0)


def test_nothing_lies_beyond_the_ends() -> None:
    """A step over an end goes to that end, also where the end is found to be nearer than was thought."""
    transport = Transport(100.0, 200.0)
    assert (transport.go(-5.0), transport.go(500.0)) == (100.0, 200.0)
    transport.reaches(150.0)
    assert transport.at == 150.0
    transport.reaches(300.0)
    assert transport.go(500.0) == 300.0

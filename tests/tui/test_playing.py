"""The time of a replay: moments as people type them, and the clock with its speeds, stops, loops and ends."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemind.errors import UsageError
from hivemind_tui.sources.playback import SPEEDS, Playback, Transport, moment_of


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


WALL = 1_795_269_600.0
"""14:00:00 UTC."""
NOW = Playback("journal", begins_at=1000.0, ends_at=1600.0, at=1100.0, wall_offset_s=WALL - 1000.0)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("14:02", 1120.0),
        ("14:02:30", 1150.0),
        (" 14:02:30.5 ", 1150.5),
        ("2026-11-21T14:05:00", 1300.0),
        ("+90s", 1190.0),
        ("+90", 1190.0),
        ("-1m", 1040.0),
        ("- 30 s", 1070.0),
        ("2m", 1120.0),
        ("90s", 1090.0),
        ("50%", 1300.0),
        ("0%", 1000.0),
        ("100 %", 1600.0),
        ("150%", 1600.0),
        ("-1h", 1000.0),
        ("+5h", 1600.0),
    ],
)
def test_what_is_understood(text: str, at: float) -> None:
    """Times of day, steps, lengths from the beginning and shares; a step over an end goes to it."""
    assert moment_of(text, NOW) == pytest.approx(at)


@pytest.mark.parametrize("text", ["", "noon", "25:00", "14:61", "+", "+noon", "%", "14:02:30:10", "\x1b[2J"])
def test_what_isnt(text: str) -> None:
    """Anything else is told as such, with what would be right."""
    with pytest.raises(UsageError, match=r"14:02|18:05|90s"):
        moment_of(text, NOW)


def test_a_time_that_isnt_in_the_recording() -> None:
    """It is told from when to when it goes."""
    with pytest.raises(UsageError, match="15:30 isn't in the recording, which goes from 14:00:00 to 14:10:00"):
        moment_of("15:30", NOW)


@given(st.text("0129:+-%smh. ab\x1b", max_size=60))
def test_anything_may_be_typed(text: str) -> None:
    """A moment of the recording comes out, or that it is none."""
    with suppress(UsageError):
        assert NOW.begins_at <= moment_of(text, NOW) <= NOW.ends_at

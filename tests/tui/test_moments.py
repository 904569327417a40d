"""Moments of a recording as people type them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemind.errors import UsageError
from hivemind_tui.sources.playback import Playback, moment_of

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

"""Moments by which something has to be done."""

from __future__ import annotations

import time

import pytest

from hivemind.text.deadlines import FORMS, parse_deadline

WALL = 1_790_000_000.0


@pytest.mark.parametrize(
    ("text", "in_s"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("2 h 5 min", 7500.0),
        (" 1.5d ", 129_600.0),
        ("1790000060", 60.0),
        (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(WALL + 3600)), 3600.0),
        ("2026-09-21T14:13:30Z", 10.0),
        ("2026-09-21 16:13:30+02:00", 10.0),
        (time.strftime("%H:%M", time.localtime(WALL + 3600)), 3600 - WALL % 60),
        (time.strftime("%H:%M:%S", time.localtime(WALL - 3600)), 82_800.0),
    ],
)
def test_what_states_a_deadline(text: str, in_s: float) -> None:
    """A span, a time of day, a date with a time, seconds since the epoch."""
    assert parse_deadline(text, WALL) - WALL == pytest.approx(in_s)


@pytest.mark.parametrize("text", ["", "soon", "25:00", "1h30", "-5", "2026-13-01T10:00", "1e3", "١h", "nan"])
def test_what_states_none(text: str) -> None:
    """The message says which forms there are."""
    with pytest.raises(ValueError, match="must be a span") as raised:
        parse_deadline(text, WALL)
    assert str(raised.value) == FORMS


@pytest.mark.parametrize("text", ["0", "0s", "2026-09-21T14:13:10Z", "400d", "2029-01-01T00:00"])
def test_what_is_past_or_too_far(text: str) -> None:
    with pytest.raises(ValueError, match="from now on, within a year"):
        parse_deadline(text, WALL)


def test_what_has_passed_and_may_have() -> None:
    """As in a plan whose batch has begun: within a year."""
    assert parse_deadline("2026-09-21T14:13:10Z", WALL, passed=True) == WALL - 10
    with pytest.raises(ValueError, match="within a year"):
        parse_deadline("2024-09-21T14:13:10Z", WALL, passed=True)

"""Moments and lengths of time."""

from __future__ import annotations

import pytest

from hivemind.providers.times import LONGEST_S, clocks, parse_duration, parse_moment, parse_number, seconds_until

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("6m0s", 360.0),
        ("1h2m", 3720.0),
        ("20ms", 0.02),
        ("12.5s", 12.5),
        ("1m30.5s", 90.5),
        ("900µs", 0.0009),
        ("1s", 1.0),
        ("", None),
        ("6", None),
        ("6m!", None),
        ("s", None),
        ("1s" * 60, None),
    ],
)
def test_durations(value: str, seconds: float | None) -> None:
    """Go durations in seconds; anything else is None."""
    assert parse_duration(value) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    "value",
    [
        *("2026-09-21T14:13:20Z", "2026-09-21T16:13:20.000000000+02:00", "2026-09-21T14:13:20"),
        "Mon, 21 Sep 2026 14:13:20 GMT",
    ],
)
def test_moments(value: str) -> None:
    """RFC 3339 with any zone and precision, and HTTP dates; without a zone it is UTC."""
    assert parse_moment(value) == NOW


@pytest.mark.parametrize("value", ["", "soon", "2026-99-99", "9", "x" * 100, "Mon, 99"])
def test_no_moment(value: str) -> None:
    """What isn't a moment is None."""
    assert parse_moment(value) is None


@pytest.mark.parametrize(
    ("value", "number"),
    [("12", 12.0), (" 1.5 ", 1.5), ("-1", -1.0), ("1e3", 1000.0), ("nan", None), ("0x1", None), ("", None)],
)
def test_numbers(value: str, number: float | None) -> None:
    """Plain decimals only: no NaN, no infinity."""
    assert parse_number(value) == number


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("6m0s", 360.0),
        (str(int(NOW) + 90), 90.0),
        (str((int(NOW) + 90) * 1000), 90.0),
        ("2026-09-21T14:14:20Z", 60.0),
        ("2026-09-21T14:00:00Z", 0.0),
        ("later", None),
        ("9" * 60, LONGEST_S),
        ("9" * 60 + "h", LONGEST_S),
        ("1e99", LONGEST_S),
        ("1e400", None),
        ("inf", None),
        ("-1e99", 0.0),
    ],
)
def test_seconds_until(value: str, seconds: float | None) -> None:
    """Every form of a reset: a moment, a length of time, the epoch in seconds or milliseconds; the past is now."""
    assert seconds_until(value, (NOW,)) == seconds


def test_the_provider_s_clock_is_trusted_against_skew() -> None:
    """The reply's Date counts only where the clocks differ by more than the age of a reply."""
    assert clocks([(b"date", b"Mon, 21 Sep 2026 14:13:21 GMT")], NOW) == (NOW,)
    assert clocks([(b"date", b"Mon, 21 Sep 2026 14:23:20 GMT")], NOW) == (NOW + 600, NOW)
    assert clocks([(b"date", b"garbage")], NOW) == (NOW,)
    assert clocks([], NOW) == (NOW,)


@pytest.mark.parametrize("reset_at", ["2026-09-21T14:14:20Z", str(int(NOW) + 60)])
@pytest.mark.parametrize(
    ("date", "own_wall"),
    [
        ("Fri, 31 Dec 9999 23:59:59 GMT", NOW),
        ("Thu, 01 Jan 1970 00:00:00 GMT", NOW),
        ("Mon, 21 Sep 2026 14:13:20 GMT", 0.0),
        ("Mon, 21 Sep 2026 14:13:20 GMT", NOW - 300),
        ("Mon, 21 Sep 2026 14:13:20 GMT", NOW + 300),
    ],
)
def test_the_clock_that_makes_sense_of_a_moment_counts(reset_at: str, date: str, own_wall: float) -> None:
    """Whether the Date is absurd or our own clock is off, a minute from now is a minute from now."""
    assert seconds_until(reset_at, clocks([(b"date", date.encode())], own_wall)) == 60.0


def test_a_moment_that_no_clock_makes_sense_of_stays_far_away() -> None:
    """Nobody knows what it means; the scheduler refuses it."""
    absurd = seconds_until("9999-12-31T23:59:59Z", clocks([(b"date", b"Thu, 01 Jan 1970 00:00:00 GMT")], NOW))
    assert absurd is not None
    assert absurd > 1e11

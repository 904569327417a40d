"""Parsing times, durations and delays in headers and error bodies."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

from hivemind.providers.base import Headers
from hivemind.providers.encoding import header

MAX_SKEW_S = 2.0
"""A larger difference between `Date` and our clock means that the clocks disagree."""
DAY_S = 86400.0
LONGEST_S = 1e12
"""Longer times (this is some 30,000 years) are limited to it, so that they can be calculated with and shown."""
_LONGEST = 64
"""Longest value in characters that is parsed."""
_EPOCH_FROM_S = 1e9
_EPOCH_FROM_MS = 1e12
_UNITS = {"w": 604800.0, "d": DAY_S, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|us|µs|ns|w|d|h|m|s)")
_DURATION = re.compile(rf"(?:{_PART.pattern})+")
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,2})?")


def parse_number(value: str) -> float | None:
    """Return a plain decimal number, or None."""
    value = value.strip()
    return float(value) if len(value) <= _LONGEST and _NUMBER.fullmatch(value) else None


def parse_duration(value: str) -> float | None:
    """Return the seconds of a duration of Go's (`6m0s`, `20ms`, `1.5s`; with days too: `1d2h`) or ISO 8601's (`PT36S`,
    without years and months)."""
    value = value.strip().lower()
    if value[:1] == "p":
        value = value[1:].replace("t", "", 1)
    if len(value) > _LONGEST or not _DURATION.fullmatch(value):
        return None
    return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(value))


@lru_cache(maxsize=256)  # replies of one second share their Date, and often their resets
def parse_moment(value: str) -> float | None:
    """Return an RFC 3339 time or HTTP date in seconds since the epoch; a time without a zone is UTC."""
    value = value.strip()
    if not value or len(value) > _LONGEST:
        return None
    try:
        moment = datetime.fromisoformat(value) if value[0].isdigit() else parsedate_to_datetime(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


Clocks = tuple[float, ...]
"""Current times in seconds since the epoch, the most trusted first."""


def clocks(headers: Headers, now_wall_s: float) -> Clocks:
    """Return the clocks that absolute times may refer to: the reply's `Date` if it differs from our clock by more
    than :data:`MAX_SKEW_S`, and our clock."""
    date = parse_moment(header(headers, b"date"))
    return (date, now_wall_s) if date is not None and abs(date - now_wall_s) > MAX_SKEW_S else (now_wall_s,)


def seconds_until(value: str, by: Clocks, within_s: float = DAY_S) -> float | None:
    """Return the seconds from the reply to a stated time, or of a stated duration, from 0 to :data:`LONGEST_S`.

    Understands RFC 3339, HTTP dates, Go durations, seconds, and seconds or milliseconds since the epoch.

    A time is relative to the first clock that puts it within `within_s` of now, because either clock may be wrong by
    years: a machine without a battery for its clock starts in 1970, and a `Date` is whatever the upstream says. A time
    in the past is now. If only our clock can be used and is wrong, the result is too; the scheduler never waits longer
    for it than a rate window may last.
    """
    amount, absolute = _stated(value)
    if amount is None:
        return None
    if absolute:
        spans = [amount - clock for clock in by]
        amount = next((span for span in spans if abs(span) <= within_s), spans[0])
    return min(max(0.0, amount), LONGEST_S)


@lru_cache(maxsize=256)
def _stated(value: str) -> tuple[float | None, bool]:
    """Return seconds, and whether they count from the epoch."""
    amount = parse_number(value)
    if amount is not None:
        if amount >= _EPOCH_FROM_MS:
            return amount / 1000, True
        return amount, amount >= _EPOCH_FROM_S
    amount = parse_duration(value)
    return (amount, False) if amount is not None else (parse_moment(value), True)


def header_delay(headers: Headers, now_wall_s: float) -> float | None:
    """Return the seconds requested by `retry-after-ms` or `retry-after` (seconds, a duration or a date), from 0 to
    :data:`~hivemind.providers.times.LONGEST_S`."""
    milliseconds = parse_number(header(headers, b"retry-after-ms"))
    if milliseconds is not None and milliseconds >= 0:
        return min(milliseconds / 1000, LONGEST_S)
    stated = header(headers, b"retry-after")
    if not stated:
        return None
    if (parse_number(stated) or 0) < 0:
        return None
    return seconds_until(stated, clocks(headers, now_wall_s))


def duration_delay(value: str) -> float | None:
    """Return the seconds of a protobuf or Go duration: `34s`, `34.07s`, `900ms` (Google's RetryInfo)."""
    seconds = parse_duration(value)
    return None if seconds is None else min(seconds, LONGEST_S)

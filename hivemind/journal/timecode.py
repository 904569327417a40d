"""Moments in a journal, as people type them."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

from hivemind.errors import UsageError
from hivemind.providers.times import parse_duration, parse_number

_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d{1,6})?))?")
_RIGHT = "a time is 18:05, 18:05:30, 2026-11-21T18:05, or so long after the beginning: 90s, 5m, 1h30m"


def parse_moment(text: str, began: float) -> float:
    """Seconds since the epoch: of a time of day (local, the first from the beginning on), of a day and time, or of so
    long after the beginning.

    `began` is when the journal did. Raises: UsageError: it is none of these.
    """
    asked = text.strip()
    span = parse_number(asked.removesuffix("s")) if asked.removesuffix("s").isdecimal() else parse_duration(asked)
    try:
        if span is not None:
            return began + span
        if clock := _TIME.fullmatch(asked):
            return _time_of_day(int(clock[1]), int(clock[2]), float(clock[3] or 0), began)
        return datetime.fromisoformat(asked).timestamp()
    except (ValueError, OverflowError, OSError):
        shown = "".join(letter if letter.isprintable() else "?" for letter in text[:40])
        raise UsageError(f"{shown}: no moment; {_RIGHT}") from None


def _time_of_day(hour: int, minute: int, second: float, began: float) -> float:
    """Raises: ValueError, OverflowError, OSError."""
    day = date.fromtimestamp(began)
    at = datetime(day.year, day.month, day.day, hour, minute, int(second), round(second % 1 * 1e6))
    # The minute in which it began counts as after the beginning.
    if at.timestamp() < began // 60 * 60:
        at += timedelta(days=1)
    return at.timestamp()

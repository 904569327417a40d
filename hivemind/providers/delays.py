"""Delays that a provider asks for."""

from __future__ import annotations

import re

from hivemind.providers.base import Headers
from hivemind.providers.encoding import header
from hivemind.providers.times import LONGEST_S, clocks, parse_duration, parse_moment, parse_number, seconds_until

_IN_WORDS = re.compile(r"(?:retry|try again)\s+(?:in|after)\s+((?:\d+(?:\.\d+)?\s?(?:ms|h|m|s)(?![a-z])\s?)+)", re.I)
_IN_SECONDS = re.compile(r"(?:retry|try again)\s+(?:in|after)\s+(\d+(?:\.\d+)?)\s+(milli)?seconds?", re.I)
_SEARCHED = 2000
"""Characters of a message that are searched."""


def header_delay(headers: Headers, now_wall_s: float) -> float | None:
    """Return the seconds requested by `retry-after-ms` or `retry-after` (seconds or an HTTP date), from 0 to
    :data:`~hivemind.providers.times.LONGEST_S`."""
    milliseconds = parse_number(header(headers, b"retry-after-ms"))
    if milliseconds is not None and milliseconds >= 0:
        return min(milliseconds / 1000, LONGEST_S)
    stated = header(headers, b"retry-after")
    if not stated:
        return None
    seconds = parse_number(stated)
    if seconds is not None:
        return min(seconds, LONGEST_S) if seconds >= 0 else None
    return None if parse_moment(stated) is None else seconds_until(stated, clocks(headers, now_wall_s))


def duration_delay(value: str) -> float | None:
    """Return the seconds of a protobuf or Go duration: `34s`, `34.07s`, `900ms` (Google's RetryInfo)."""
    seconds = parse_duration(value)
    return None if seconds is None else min(seconds, LONGEST_S)


def worded_delay(message: str) -> float | None:
    """Return the seconds named in a message: "Please retry in 12.3s", "try again in 6m0s", "retry after 26 seconds"."""
    message = message[:_SEARCHED]
    if found := _IN_SECONDS.search(message):
        return min(float(found[1]) / (1000 if found[2] else 1), LONGEST_S)
    found = _IN_WORDS.search(message)
    return duration_delay(re.sub(r"\s", "", found[1])) if found else None

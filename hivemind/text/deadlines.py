"""Moments by which something has to be done, as people and programs state them."""

from __future__ import annotations

import re
import time
from datetime import datetime

from hivemind.text.humanise import span_of

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
_LONGEST_S = 366 * 86_400.0
FORMS = "must be a span of time (90s, 1h30m), a time of day (18:00), or a date with a time (2026-12-24T18:00)"


def parse_deadline(text: str, wall: float, *, passed: bool = False) -> float:
    """Return the moment, in seconds since the epoch, that a text states: a span from `wall` on, a bare number of
    seconds, the next time that the local clock shows a time of day, or a date with a time, which without a zone is
    local. With `passed`, it may lie in the past year.

    Raises: ValueError: it states none, one that has passed, or one that is a year away.
    """
    at = moment_of(text, wall)
    if at is None:
        raise ValueError(FORMS)
    if not (wall - _LONGEST_S if passed else wall) < at <= wall + _LONGEST_S:
        raise ValueError("must be a moment from now on, within a year")
    return at


def moment_of(text: str, wall: float) -> float | None:
    """Return what :func:`parse_deadline` does, be it in the past; None: the text states no moment."""
    given, span_s = text.strip(), span_of(text)
    if span_s is not None:
        return span_s if span_s >= 1e9 else wall + span_s
    if clock := _CLOCK.fullmatch(given):
        today = time.localtime(wall)
        hour, minute, second = (int(part or 0) for part in clock.groups())
        days = [(*today[:2], today.tm_mday + more, hour, minute, second, 0, 0, -1) for more in (0, 1)]
        return next((at for at in map(time.mktime, days) if at > wall), None)
    try:
        return datetime.fromisoformat(given).timestamp() if given[4:5] == "-" else None
    except (ValueError, OverflowError):
        return None

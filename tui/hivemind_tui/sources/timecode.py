"""Moments of a recording as people type them: `14:02:30`, `+90s`, `-2m`, `50%`."""

from __future__ import annotations

import re

from hivemind.errors import UsageError
from hivemind.journal.files import parse_moment
from hivemind.providers.times import parse_duration
from hivemind_tui.render.format import clean, clock
from hivemind_tui.sources.playback import Playback

HOW = "14:02, 14:02:30, +90s, -2m, 5m after the beginning, 50%"
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_STEP = re.compile(r"([+-])\s*(\d+(?:\.\d+)?)\s*s?")
_MINUTE_S = 60.0


def moment_of(text: str, now: Playback) -> float:
    """Return the moment that a text means, on the recording's clock; for a step beyond an end, that end.

    Raises: UsageError: it can't be parsed, or lies outside the recording.
    """
    text = text.strip()
    if share := _SHARE.fullmatch(text):
        at = now.begins_at + min(100.0, float(share[1])) / 100 * (now.ends_at - now.begins_at)
    elif text[:1] in ("+", "-"):
        at = now.at + _step(text)
    else:
        at = _parse_time(text, now)
    return max(now.begins_at, min(now.ends_at, at))


def _step(text: str) -> float:
    plain = _STEP.fullmatch(text)
    length_s = float(plain[2]) if plain is not None else parse_duration(text[1:].strip())
    if length_s is None:
        raise UsageError(f"{clean(text[:40])}: not a length of time; try +90s or -2m")
    return length_s if text[0] == "+" else -length_s


def _parse_time(text: str, now: Playback) -> float:
    """Parse a time of day, or a time after the beginning."""
    begins, ends = now.begins_at + now.wall_offset_s, now.ends_at + now.wall_offset_s
    wall = parse_moment(text, begins)
    if not begins - _MINUTE_S < wall < ends + _MINUTE_S:
        raise UsageError(f"{clean(text[:40])} isn't in the recording, which goes from {clock(begins)} to {clock(ends)}")
    return wall - now.wall_offset_s

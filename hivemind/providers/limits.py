"""Reading the rate-limit headers of every provider.

Anthropic: `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}` and, for
subscriptions, `anthropic-ratelimit-unified-*`. OpenAI, Azure: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`,
OpenAI also `...-project-tokens` and `...-tokens_usage_based`; others spoken to in its format name the time
(`...-requests-day`, `...-tokens-per-minute`). Google and Ollama send none.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from hivemind.providers.base import Headers, Limits
from hivemind.providers.times import DAY_S, Clocks, clocks, parse_number, seconds_until
from hivemind.scheduler.types import Utilisation, WindowKind, WindowReading

_ANTHROPIC = "anthropic-ratelimit-"
_UNIFIED = "anthropic-ratelimit-unified-"
_OPENAI = "x-ratelimit-"
_KINDS = {
    "requests": WindowKind.REQUESTS,
    "tokens": WindowKind.TOKENS,
    "project-tokens": WindowKind.TOKENS,
    "tokens_usage_based": WindowKind.TOKENS,
    "input-tokens": WindowKind.INPUT,
    "output-tokens": WindowKind.OUTPUT,
    "requests-minute": WindowKind.REQUESTS,
    "tokens-minute": WindowKind.TOKENS,
    "requests-day": WindowKind.REQUESTS_DAY,
    "tokens-day": WindowKind.TOKENS_DAY,
    "tokens-per-minute": WindowKind.TOKENS,
    "tokens-per-day": WindowKind.TOKENS_DAY,
}
_FIELDS = ("limit", "remaining", "reset")
_PLAN_FIELDS = ("utilization", "status", "reset")
_LONGEST_PLAN_S = 366 * DAY_S
"""No plan's limit lasts longer than a year; a later reset is ignored."""
_NOTHING = Limits()

Stated = dict[str, dict[str, str]]
"""The fields that a reply states for one window."""


def read_limits(headers: Headers, now_wall_s: float) -> Limits:
    """Read what a reply's headers say about rate windows. Never raises.

    `now_wall_s` is seconds since the epoch. Absolute resets are relative to the reply's `Date` if the clocks
    disagree and it is plausible (:func:`~hivemind.providers.times.seconds_until`). A limit of 0 or -1 is ignored.
    If a reply states a window twice (an organization's and a project's tokens), the tighter one counts.
    """
    windows: Stated = {}
    plan: Stated = {}
    for name, value in headers:
        if b"-ratelimit-" in name and (place := _place(name)):
            unified, window, field = place
            (plan if unified else windows).setdefault(window, {})[field] = value.decode("latin-1").strip()
    if not windows and not plan:
        return _NOTHING
    by = clocks(headers, now_wall_s)
    readings = (_reading(window, stated, by) for window, stated in windows.items())
    shares = (_utilisation(name, stated, by) for name, stated in plan.items())
    return Limits(_tightest(readings), tuple(share for share in shares if share))


@lru_cache(maxsize=256)
def _place(raw: bytes) -> tuple[bool, str, str] | None:
    """Parse a header's name: whether it is a plan's, its window or claim, and its field."""
    name = raw.decode("latin-1")
    if name.startswith(_UNIFIED):
        claim, _, field = name[len(_UNIFIED) :].rpartition("-")
        return (True, claim, field) if claim and field in _PLAN_FIELDS else None
    if name.startswith(_ANTHROPIC):
        window, _, field = name[len(_ANTHROPIC) :].rpartition("-")
    elif name.startswith(_OPENAI):
        field, _, window = name[len(_OPENAI) :].partition("-")
    else:
        return None
    return (False, window, field) if window in _KINDS and field in _FIELDS else None


def _reading(window: str, stated: dict[str, str], by: Clocks) -> WindowReading | None:
    limit, remaining = _whole(stated.get("limit", "")), _whole(stated.get("remaining", ""))
    if remaining is not None and remaining < 0:
        remaining = None
    if ("limit" in stated and (limit is None or limit <= 0)) or (limit is None and remaining is None):
        return None
    return WindowReading(_KINDS[window], limit, remaining, seconds_until(stated.get("reset", ""), by))


def _tightest(readings: Iterable[WindowReading | None]) -> tuple[WindowReading, ...]:
    """Return one reading per kind: the one with the least remaining."""
    kept: dict[WindowKind, WindowReading] = {}
    for reading in readings:
        if reading and (reading.kind not in kept or _room(reading) < _room(kept[reading.kind])):
            kept[reading.kind] = reading
    return tuple(kept.values())


def _room(reading: WindowReading) -> float:
    room = reading.remaining if reading.remaining is not None else reading.limit
    return float("inf") if room is None else room


def _utilisation(name: str, stated: dict[str, str], by: Clocks) -> Utilisation | None:
    used = parse_number(stated.get("utilization", ""))
    if used is None:
        return None
    reset_in_s = seconds_until(stated.get("reset", ""), by, _LONGEST_PLAN_S)
    if reset_in_s is not None and reset_in_s > _LONGEST_PLAN_S:
        reset_in_s = None
    return Utilisation(name, min(1.0, max(0.0, used)), reset_in_s, stated.get("status", ""))


def _whole(value: str) -> int | None:
    if value.isdecimal() and len(value) <= 15:
        return int(value)  # the usual spelling
    amount = parse_number(value)
    return None if amount is None or abs(amount) > 1e15 else int(amount)

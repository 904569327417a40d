"""Reading the rate-limit headers of every provider.

Their names say it in words: `[vendor-]ratelimit-`, and in any order what is stated (limit, remaining, used, reset), of
what (requests, tokens, input or prompt tokens, output or generated tokens; where none is named, requests), in which
time (a minute where none is named, hour, day, month), and perhaps whose it is. A name with any other word isn't read,
but for those in the rows of :mod:`hivemind.providers.known`. Beside them are the IETF's `RateLimit` and
`RateLimit-Policy`, and the long windows of plans (Anthropic's `anthropic-ratelimit-unified-*`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from hivemind.providers.base import Headers, Limits
from hivemind.providers.known import providers
from hivemind.providers.table import compiled
from hivemind.providers.times import DAY_S, Clocks, clocks, parse_number, seconds_until
from hivemind.scheduler.types import Utilisation, WindowKind, WindowReading

_UNIFIED = "anthropic-ratelimit-unified-"
_LIMITS = re.compile(r"^(?P<whose>.*?)rate-?limits?(?:-(?P<words>.+))?$")
_FIELDS = {"limit": "limit", "max": "limit", "remaining": "remaining", "used": "used", "reset": "reset"}
_UNITS = {
    **dict.fromkeys(("requests", "request", "reqs", "req"), WindowKind.REQUESTS),
    **dict.fromkeys(("tokens", "token"), WindowKind.TOKENS),
    **dict.fromkeys(("input", "prompt"), WindowKind.INPUT),
    **dict.fromkeys(("output", "generated", "completion"), WindowKind.OUTPUT),
}
_MINUTE_S, _MONTH_S = 60.0, 30 * DAY_S
_HOUR_S = 3600.0
_SHORTEST_S = 5.0
"""A shorter window is whole again before a reply about it is read."""
_PERIODS = {
    **dict.fromkeys(("second", "sec", "s"), 1.0),
    **dict.fromkeys(("minute", "min", "m"), _MINUTE_S),
    **dict.fromkeys(("hourly", "hour", "hr", "h"), _HOUR_S),
    **dict.fromkeys(("daily", "day", "d"), DAY_S),
    **dict.fromkeys(("weekly", "week", "w"), 7 * DAY_S),
    **dict.fromkeys(("monthly", "month"), _MONTH_S),
}
_PERIOD = re.compile(rf"(?:(\d{{1,3}})|(?=[a-z]{{3}}))({'|'.join(_PERIODS)})s?")
_RATES = {f"{unit}p{period}": (unit, period) for unit in "rt" for period in "mhd"}  # rpm, tpd …
_ASIDE = frozenset(
    ("per", "usage", "based", "after", "in", "api", "key", "user", "team", "org", "organization", "project", "model")
)
"""Words that say whose limit it is, or nothing."""
_POLICIES = frozenset({"ratelimit", "ratelimit-policy", "x-ratelimit", "x-ratelimit-policy"})
_ITEM = re.compile(r'(?:"[^"]*"|[^,"])+')
_AMOUNT = re.compile(r"[,;]")
_LONGEST_POLICY = 1024  # characters of one that is read
_PLAN_FIELDS = ("utilization", "status", "reset")
_NUMBERS = {"five": 5, "seven": 7}
"""Of `five_hour` and `seven_day`."""
_MONTHLY = ("overage", "premium", "chat", "completions")
"""Words in names of long windows that are a month's: Anthropic's extra usage, Copilot's requests."""
_OF_ALL = frozenset(
    (
        *_NUMBERS,
        "overage",
        "premium",
        "interactions",
        "chat",
        "session",
        "primary",
        "secondary",
        "tokens",
        "requests",
        "a",
    )
)
"""Words in such names that name no model, beside periods."""
_LONGEST_PLAN_S = 366 * DAY_S
"""No plan's limit lasts longer than a year; a later reset is ignored."""
_NOTHING = Limits()
_UNIT_WORDS = r"(?P<unit>(?:input |output |prompt |completion )?tokens|requests) per min"
_IN_WORDS = (
    re.compile(rf"limit of (?P<limit>\d[\d,]{{0,14}}) {_UNIT_WORDS}", re.I),
    re.compile(rf"{_UNIT_WORDS}(?:ute)?[^:]{{0,20}}: limit:? (?P<limit>\d[\d,]{{0,14}})\b", re.I),
)
"""How refusals state a limit of a minute: Anthropic's; OpenAI's and Groq's, as of the rows in
:mod:`hivemind.providers.known`."""

_Place = tuple[str, WindowKind | None, str]
"""Of a header: a name for its window, what that counts (None: a plan's), and the field."""
Stated = dict[tuple[str, WindowKind | None], dict[str, str]]
"""The fields that a reply states for one window."""


def read_limits(headers: Headers, now_wall_s: float) -> Limits:
    """Read what a reply's headers say about rate windows. Never raises.

    `now_wall_s` is seconds since the epoch. Absolute resets are relative to the reply's `Date` if the clocks
    disagree and it is plausible (:func:`~hivemind.providers.times.seconds_until`). A limit of 0 or -1 is ignored.
    If a reply states a window twice (an organization's and a project's tokens), the tighter one counts.
    """
    stated: Stated = {}
    policies: dict[str, str] = {}
    for raw, value in headers:
        place = _place(raw)
        if place is None:
            continue
        window, kind, field = place
        text = value.decode("latin-1").strip()
        if field == "policy":
            policies[window] = text[:_LONGEST_POLICY]
        elif field == "quota":
            stated.setdefault((window, None), {}).update(_snapshot(text))
        else:
            stated.setdefault((window, kind), {})[field] = text
    if not stated and not policies:
        return _NOTHING
    by = clocks(headers, now_wall_s)
    if policies:
        _read_policies(policies, stated)
    readings = (_reading(kind, fields, by) for (_, kind), fields in stated.items() if kind is not None)
    shares = (_utilisation(name, fields, by) for (name, kind), fields in stated.items() if kind is None)
    return Limits(_tightest(readings), tuple(share for share in shares if share))


def limits_in_words(text: str) -> tuple[WindowReading, ...]:
    """Return the limit of a minute that the text of a refusal states, as far as it does."""
    found = next(filter(None, (form.search(text) for form in _IN_WORDS)), None)
    limit = 0 if found is None else int(found["limit"].replace(",", ""))
    if found is None or not limit:
        return ()
    return (WindowReading(_UNITS[found["unit"].lower().split()[0]], limit, None, None),)


@lru_cache(maxsize=1024)
def _place(raw: bytes) -> _Place | None:
    """Parse a header's name; None: it states no limit, or in words that aren't known."""
    name = raw.decode("latin-1").lower()
    if name.startswith(_UNIFIED):
        claim, _, field = name[len(_UNIFIED) :].rpartition("-")
        return (claim, None, field) if claim and field in _PLAN_FIELDS else None
    if name in _POLICIES:
        return name.removeprefix("x-"), None, "policy"
    for row in (row for provider in providers() for row in provider.limits if row.header):
        if found := compiled(row.header).fullmatch(name):
            named = found.groupdict()
            return (
                named.get("window", row.window),
                next((kind for kind in WindowKind if kind.value == row.window), None),
                dict(row.fields).get(named["field"], named["field"]),
            )
    found = _LIMITS.match(name)
    return None if found is None or not found["words"] else _in_words(found["whose"], found["words"])


def _in_words(whose: str, text: str) -> _Place | None:
    field, units, period_s, rest = "", set[WindowKind](), _MINUTE_S, list[str]()
    for word in re.split(r"[-_]", text):
        if word in _FIELDS:
            field = field if field == "reset" else _FIELDS[word]
        elif word in _UNITS:
            units.add(_UNITS[word])
        elif lasts := _PERIOD.fullmatch(word):
            period_s = int(lasts[1] or 1) * _PERIODS[lasts[2]]
        elif word in _RATES:
            unit, period = _RATES[word]
            units.add(WindowKind.REQUESTS if unit == "r" else WindowKind.TOKENS)
            period_s = _PERIODS[period]
        elif word in _ASIDE:
            rest.append(word)
        else:
            return None
    kind = _counted(units)
    if not field or kind is None or period_s < _SHORTEST_S:
        return None
    if period_s > DAY_S:
        return f"{kind.value} a month", None, field
    return f"{whose}{period_s:g}{rest}", _lasting(kind, period_s), field


def _lasting(kind: WindowKind, period_s: float) -> WindowKind:
    """Return the kind of a window that counts the same and lasts so long."""
    if period_s <= _MINUTE_S:
        return kind
    if period_s <= _HOUR_S:
        return WindowKind.REQUESTS_HOUR if kind.counts_requests else WindowKind.TOKENS_HOUR
    return WindowKind.REQUESTS_DAY if kind.counts_requests else WindowKind.TOKENS_DAY


def _counted(units: set[WindowKind]) -> WindowKind | None:
    """Return what is counted where these are named; None: that can't be told."""
    if len(units) > 1:
        units = units - {WindowKind.TOKENS}  # "input tokens"
    return WindowKind.REQUESTS if not units else units.pop() if len(units) == 1 else None


def _read_policies(policies: dict[str, str], stated: Stated) -> None:
    """Take in the IETF's `RateLimit: "a";r=5;t=30` and `RateLimit-Policy: "a";q=60;w=60`, and older drafts of them:
    `limit=60, remaining=5, reset=30`, and `60;w=60` beside `RateLimit-Limit`."""
    windows: dict[str, dict[str, str]] = {}
    for part in _ITEM.findall(",".join(policies.values())):
        first, *parameters = (each.strip() for each in part.split(";"))
        name, found = first.strip('"'), {}
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            found[key.strip()] = value.strip().strip('"')
        key, _, value = first.partition("=")
        if value:
            name, found = "", {key.strip(): value.strip()}
        elif first.isdecimal():
            name, found["q"] = "", first
        windows.setdefault(name, {}).update(found)
    for name, found in windows.items():
        units = {
            _UNITS[word] for word in re.split(r"[^a-z]+", f"{name} {found.get('qu', '')}".lower()) if word in _UNITS
        }
        kind = _counted(units)
        if kind is None or "byte" in found.get("qu", "") or "concurrent" in found.get("qu", ""):
            continue
        limit, left, reset = (found.get(short, found.get(word)) for short, word in _SHORT)
        fields = {"limit": limit, "remaining": left, "reset": reset}
        told = {field: value for field, value in fields.items() if value}
        lasts_s = parse_number(found.get("w", "")) or 0.0
        if 0 < lasts_s < _SHORTEST_S:
            continue
        if lasts_s > _MINUTE_S:
            kind = _lasting(kind, lasts_s)
            if not name:  # of the headers of an older draft beside it
                told = {**next((stated.pop(each) for each in [*stated] if each[1] is WindowKind.REQUESTS), {}), **told}
        if told.keys() != {"limit"}:
            stated[f"policy {name}", kind] = told


_SHORT = (("q", "limit"), ("r", "remaining"), ("t", "reset"))


def _snapshot(text: str) -> dict[str, str]:
    """Read Copilot's `ent=300&rem=75.3&rst=2026-12-01T00:00:00Z`: what is left, in percent."""
    found = dict(part.partition("=")[::2] for part in text[:_LONGEST_POLICY].split("&"))
    left = parse_number(found.get("rem", ""))
    told = {} if left is None else {"percent": f"{100 - min(max(left, 0.0), 100.0):g}"}
    return {**told, "reset": found.get("rst", "").replace("%3A", ":").replace("%3a", ":")}


def _reading(kind: WindowKind, stated: dict[str, str], by: Clocks) -> WindowReading | None:
    limit, remaining = _whole(stated.get("limit", "")), _whole(stated.get("remaining", ""))
    if remaining is None and limit is not None and (used := _whole(stated.get("used", ""))) is not None:
        remaining = max(0, limit - used)
    if remaining is not None and remaining < 0:
        remaining = None
    if ("limit" in stated and (limit is None or limit <= 0)) or (limit is None and remaining is None):
        return None
    return WindowReading(kind, limit, remaining, seconds_until(stated.get("reset", ""), by))


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
    if used is None and (percent := parse_number(stated.get("percent", ""))) is not None:
        used = percent / 100
    if used is None and (limit := _whole(stated.get("limit", ""))) and "remaining" in stated:
        used = 1 - (_whole(stated["remaining"]) or 0) / limit
    if used is None:
        return None
    reset_in_s = seconds_until(stated.get("reset", ""), by, _LONGEST_PLAN_S)
    if reset_in_s is not None and reset_in_s > _LONGEST_PLAN_S:
        reset_in_s = None
    lasts_s, model = _lasts(name)
    length_s = (parse_number(stated.get("minutes", "")) or 0.0) * _MINUTE_S or lasts_s
    return Utilisation(name, min(1.0, max(0.0, used)), reset_in_s, stated.get("status", ""), length_s, model)


@lru_cache(maxsize=256)
def _lasts(name: str) -> tuple[float | None, str]:
    """Return how long a window of this name lasts, such as `7d_opus`, `five_hour` or `tokens a month`, and the models
    that it counts; empty: all."""
    length_s, number, model = None, 1, list[str]()
    for word in re.split(r"[-_ ]", name):
        if lasts := _PERIOD.fullmatch(word):
            length_s = number * int(lasts[1] or 1) * _PERIODS[lasts[2]]
        elif word not in _OF_ALL:
            model.append(word)
        if word in _MONTHLY:
            length_s = _MONTH_S
        number = _NUMBERS.get(word, 1)
    return length_s, "-".join(model)


def _whole(value: str) -> int | None:
    if value.isdecimal() and len(value) <= 15:
        return int(value)  # the usual spelling
    amount = parse_number(_AMOUNT.split(value, maxsplit=1)[0])  # an older draft appends policies: `60, 60;w=60`
    return None if amount is None or abs(amount) > 1e15 else int(amount)

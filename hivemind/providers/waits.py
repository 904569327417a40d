"""How long a refusal asks to wait, wherever it says so: in headers, in fields of its body, or in words.

Nothing here names a provider. A wait is a number of seconds from the reply on; several may be stated, of which the
nearest counts (:func:`stated_wait`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from hivemind.providers.base import Headers
from hivemind.providers.encoding import header
from hivemind.providers.json_fields import anything
from hivemind.providers.table import Provider, compiled
from hivemind.providers.times import LONGEST_S, Clocks, clocks, header_delay, parse_number

_SEARCHED = 1500
"""Characters of a text that are searched."""
_JUST_PASSED_S = 5.0
"""Wait where the stated moment has just passed: the clocks differ, or the provider is late."""
_LATEST_S = 300.0
"""A moment that passed longer ago says nothing."""
_DEEPEST = 8
_LEAST_JSON = 8

Leaf = tuple[str, object, dict[str, object]]
"""A member that is no object or array: its name, its value, and the object that it is a member of."""


def leaves(value: object, name: str = "", depth: int = 0, within: dict[str, object] | None = None) -> Iterator[Leaf]:
    """Yield the members of decoded JSON at any depth, and those of JSON that is quoted in its strings."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, str(key), depth + 1, value)
        return
    if isinstance(value, list):
        for each in value:
            yield from leaves(each, name, depth + 1, within)
        return
    yield name, value, within or {}
    if isinstance(value, str) and len(value) >= _LEAST_JSON and 0 <= (begin := value.find("{")) < value.rfind("}"):
        quoted = anything(value[begin : value.rfind("}") + 1].encode())
        yield from leaves(quoted, name, depth + 1) if isinstance(quoted, dict) else ()


def stated_wait(
    headers: Headers, found: Iterable[Leaf], text: str, now_wall_s: float, provider: Provider | None
) -> float | None:
    """Return the seconds that a refusal asks to wait; None if it doesn't say.

    `Retry-After` counts first, then the body, then what headers say of a limit that is used up. A time that has passed
    says nothing.
    """
    if (delay_s := header_delay(headers, now_wall_s)) is not None:
        return delay_s
    by = clocks(headers, now_wall_s)
    zone_h = provider.zone_h if provider is not None else 0.0
    stated = [*_in_fields(found, by, zone_h), *waits_in_words(text, by, zone_h)] or [
        *_in_headers(headers, by, provider)
    ]
    ahead = [each for each in stated if each > 0]
    return min(ahead) if ahead else _JUST_PASSED_S if stated else None


# --- In fields and headers --------------------------------------------------------------------------------------------

_FIELD = re.compile(
    r"(?:retry|try_?again|cool_?down|back_?off|next_?(?:retry|reset|available|attempt|request)|available|reset)s?"
    r"(?:_?(?:after|in|at|on|delay|time|timestamp|date|until|from_now|wait|duration|requests|tokens))*"
    r"|wait(?:_?(?:for|time|s|seconds))?|(?:retry|quota|usage|limit|rate_?limit)_?(?:retry|reset|resets)\w*"
    r"|x_?rate_?limit_?reset\w*|rate_?limit_?reset\w*|time_?(?:to|until)_?(?:reset|retry)"
)
"""Names of fields that state a wait, in snake case and without a unit."""
_UNIT = re.compile(r"_(ms|millis|milliseconds|msec|s|sec|secs|seconds|m|min|mins|minutes|h|hours)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FACTORS = {"m": 1e-3, "s": 1.0, "h": 3600.0}
_LIMIT_RESET = re.compile(r"(?:x-)?rate-?limit-reset(?:-after|-in)?(-[a-z0-9_-]+)?")
_DRAFT = re.compile(r"(?:^|[;,]\s*)(r|t|remaining|reset)\s*=\s*(\d+)")


def _factor(unit: str) -> float:
    """Return the seconds of a unit's name."""
    if unit in ("m", "min", "mins", "minutes", "minute"):
        return 60.0
    return _FACTORS[unit[0]]


def _in_fields(found: Iterable[Leaf], by: Clocks, zone_h: float) -> Iterator[float]:
    for name, value, within in found:
        plain = _CAMEL.sub("_", name).lower().replace("-", "_")
        unit = _UNIT.search(plain)
        if not _FIELD.fullmatch(plain[: unit.start()] if unit else plain) or not _is_used_up(name, within):
            continue
        seconds = _amount(value, by, zone_h, _factor(unit[1]) if unit else 1.0)
        if seconds is not None:
            yield seconds


def _amount(value: object, by: Clocks, zone_h: float, factor: float) -> float | None:
    """Return the seconds that a value states: a number, also as text, of that unit; a duration, or a moment."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    number = parse_number(str(value))
    if number is not None and number < 1e9:
        return min(number * factor, LONGEST_S) if number > 0 else None
    if number is not None:
        return next(iter(_future([number / 1000 if number >= 1e12 else number], by)), None)
    text = str(value)[:_SEARCHED]
    moments = [span for found in compiled(_MOMENT).finditer(text) for span in _spans(found, by, zone_h)]
    return min(moments or [_seconds(found[1]) for found in compiled(_LASTING).finditer(text)], default=None)


def _is_used_up(name: str, within: dict[str, object]) -> bool:
    """Return whether a limit's reset tells of the refusal: whether nothing remains of it, as far as is said."""
    low = name.lower()
    if "reset" not in low:
        return True
    others = {key.lower(): each for key, each in within.items()}
    remaining = others.get(low.replace("reset", "remaining"))
    return remaining is None or parse_number(str(remaining)) in (0.0, None)


def _in_headers(headers: Headers, by: Clocks, provider: Provider | None) -> Iterator[float]:
    said: dict[str, object] = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    for wait in () if provider is None else provider.waits:
        told = wait.given is None or re.search(wait.given[1], str(said.get(wait.given[0], "")), re.I)
        if told and (seconds := _amount(said.get(wait.header), by, 0.0, 1.0)) is not None:
            yield seconds
    for name, value in said.items():
        # The reset of a window that has a name tells of the refusal only where it is said to be used up.
        if (found := _LIMIT_RESET.fullmatch(name)) is None or not _is_used_up(name, said):
            continue
        if found[1] and name.replace("reset", "remaining") not in said:
            continue
        if (seconds := _amount(value, by, 0.0, 1.0)) is not None:
            yield seconds
    # draft-ietf-httpapi-ratelimit-headers: `"default";r=0;t=6`, earlier `limit=5, remaining=0, reset=6`.
    for policy in re.split(r',\s*(?=")', header(headers, b"ratelimit")):
        fields = dict(_DRAFT.findall(policy))
        if (fields.get("r") or fields.get("remaining")) == "0" and (reset := fields.get("t") or fields.get("reset")):
            yield float(reset)


# --- In words ---------------------------------------------------------------------------------------------------------

_UNITS = {
    1e-3: r"ms|millis(?:econds?)?|毫秒",
    1.0: r"s|secs?|seconds?|秒钟?",
    60.0: r"m|mins?|minutes?|分钟?",
    3600.0: r"h|hrs?|hours?|小时",
    86400.0: r"d|days?|天",
    604800.0: r"w|wks?|weeks?|周",
    2592000.0: r"months?|个月",
}
_PART = rf"(\d+(?:\.\d+)?|\b(?:an?|one)\b)[ -]{{0,2}}({'|'.join(_UNITS.values())})(?![a-z])"
_ONE = rf"(?:\d+(?:\.\d+)?|\b(?:an?|one)\b)[ -]{{0,2}}(?:{'|'.join(_UNITS.values())})(?![a-z])"
_LASTING = rf"(?<![\d.:/])({_ONE}(?:(?:,|\s|and|零){{0,4}}{_ONE}){{0,5}})"
_CUE = (
    r"(?:re-?try|retries|try\b|again|wait|reset|resum|availab|renew|refresh|refill|replenish|regain|restor|unlock|until"
    r"|back\b|cool|next request|请|等待|重试|重置|恢复)"
)
_WAITS = (
    rf"{_CUE}\w*([^\d.;。]{{0,40}}?){_LASTING}"
    rf"|\bin(?: about| approximately| around| roughly|) {_LASTING}"
    rf"|{_LASTING}(?: before| until|,? (?:and|then)(?: then)? (?:re)?try| later\b| from now| remaining| left\b|之?后)"
)
_PER = r"\b(?:per|every|each|any|last|past)\b|/"
"""A duration behind this is that of a window, not of a wait."""
_COUNTED = r"\d[\d,.]*k? ?[a-z]+ ?$"
"""Before `in 60 seconds`: so many requests in that time."""
_BARE = r"retry[-_ ]?after[\"']?\s{0,3}(?:[:=]\s{0,3})?[\"']?(\d++(?:\.\d++)?)(?! ?[\w.秒分小])"
"""`Retry-After: 6`, in a text."""
_CLOCK = r"\d\d?:\d\d(?::\d\d)?"
_ZONE = r"Z\b|UTC|GMT|[+-]\d\d:?\d\d"
_RESETS = rf"{_CUE}|将"
"""A moment that has passed counts behind such a word; another may be that of the request."""
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = "|".join(_MONTHS)
_MOMENT = (
    r"(?P<y>20\d\d)[-/年](?P<mo>\d\d?)[-/月](?P<d>\d\d?)日?"
    rf"(?:[T ,]{{0,2}}(?:at )?(?P<t>{_CLOCK})(?:\.\d+)?)? ?(?P<z>{_ZONE})?"
    rf"|\b(?:(?P<d2>\d\d?) (?P<m>{_MONTH})[a-z]*|(?P<m3>{_MONTH})[a-z]*\.? (?P<d3>\d\d?)(?:st|nd|rd|th)?\b)"
    r"(?:,? (?P<y2>20\d\d))?"
    rf"(?:,? (?:at )?(?P<t2>{_CLOCK}) ?(?P<half>[AP]M)?)? ?(?P<z2>{_ZONE})?"
    r"|\b(?P<epoch>1[6-9]\d{8}(?:\d{3})?)\b"
    rf"|\b(?P<t3>{_CLOCK}) ?(?P<half3>[AP]M)? ?\(?(?P<z3>{_ZONE})"
)
"""A day, with a time or not; seconds or milliseconds since the epoch; a time of day with its zone."""
_DATED = rf"(?:{_CUE}|将[在于]|\bat\b|\bon\b|after|reached\|)[^;\n。]{{0,48}}?(?:{_MOMENT})"


def waits_in_words(text: str, by: Clocks = (), zone_h: float = 0.0) -> list[float]:
    """Return the seconds that a text names: "Please retry in 12.3s", "wait 6 seconds and try again", "Your limit will
    reset at 2026-11-29 07:41:44"; without clocks no moments.

    A time without a zone is UTC, or that of the provider's own zone if that is nearer.
    """
    text = text[:_SEARCHED]
    stated = [float(found[1]) for found in compiled(_BARE).finditer(text)]
    for found in compiled(_WAITS).finditer(text):
        if compiled(_PER).search(found[1] or "") or (
            found[3] and compiled(_COUNTED).search(text[max(0, found.start() - 24) : found.start()])
        ):
            continue
        stated.append(_seconds(found[2] or found[3] or found[4]))
    for found in compiled(_DATED).finditer(text):
        stated += [span for span in _spans(found, by, zone_h) if span or compiled(_RESETS).match(found[0])]
    return stated


def _seconds(duration: str) -> float:
    total = 0.0
    for amount, unit in compiled(_PART).findall(duration):
        factor = next(factor for factor, names in _UNITS.items() if re.fullmatch(names, unit, re.I))
        total += (float(amount[:20]) if amount[0].isdigit() else 1.0) * factor
    return min(total, LONGEST_S)


def _spans(found: re.Match[str], by: Clocks, zone_h: float) -> list[float]:
    """Return the seconds to a moment, as the nearest of its readings, if it hasn't passed."""
    if not by:
        return []
    if found["epoch"]:
        return _future([float(found["epoch"][:10])], by)
    month = (found["m"] or found["m3"] or "").lower()
    now = datetime.fromtimestamp(min(max(by[0], 0.0), 4e9), UTC)
    hour, minute, second = _time_of(found["t"] or found["t2"] or found["t3"] or "0:00", found["half"] or found["half3"])
    zone = found["z"] or found["z2"] or found["z3"] or ""
    try:
        moment = datetime(
            int(found["y"] or found["y2"] or now.year),
            int(found["mo"] or (_MONTHS.index(month) + 1 if month else now.month)),
            int(found["d"] or found["d2"] or found["d3"] or now.day),
            hour,
            minute,
            second,
            tzinfo=UTC,
        )
    except ValueError:
        return []
    if found["t3"] and moment < now:
        moment += timedelta(days=1)
    if zone[:1] in ("+", "-"):
        return _future(
            [moment.timestamp() - (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 3600 + int(zone[-2:]) * 60)], by
        )
    at = moment.timestamp()
    return _future([at] if zone or not zone_h else [at, at - zone_h * 3600], by)


def _time_of(text: str, half: str | None) -> tuple[int, int, int]:
    parts = [*map(int, text.split(":")), 0][:3]
    hour = parts[0] % 12 + (12 if half.upper() == "PM" else 0) if half else parts[0]
    return hour, parts[1], parts[2]


def _future(moments: list[float], by: Clocks) -> list[float]:
    """Return the seconds to the nearest of the moments that lie in the future; 0 for one that has just passed."""
    spans = [max(0.0, span) for moment in moments if -_LATEST_S < (span := moment - by[0]) < LONGEST_S]
    return [min(spans)] if spans else []

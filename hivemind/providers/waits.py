"""How long a refusal asks to wait, wherever it says so: in headers, in fields of its body, or in words.

Nothing here names a provider. A wait is a number of seconds from the reply on; several may be stated, of which the
nearest counts (:func:`stated_wait`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

from hivemind.providers.base import Headers
from hivemind.providers.encoding import header
from hivemind.providers.json_fields import anything
from hivemind.providers.table import SEARCHED, Provider, compiled
from hivemind.providers.times import DAY_S, LONGEST_S, Clocks, clocks, header_delay, parse_duration, parse_number

_JUST_PASSED_S = 5.0
"""Wait where the stated moment has just passed: the clocks differ, or the provider is late."""
_LATEST_S = 300.0
"""A moment that passed longer ago says nothing."""
_BEFORE = 48
"""Characters before a duration or a moment in which a word must say that it is that of a wait."""
_MOST = 32
"""Durations and moments of a text that are looked at."""
_DEEPEST = 8
_LEAST_JSON = 8

Leaf = tuple[str, object, dict[str, object]]
"""A member that is no object or array: its name, its value, and the object that it is a member of."""


def leaves(value: object, name: str = "", depth: int = 0, within: dict[str, object] | None = None) -> Iterator[Leaf]:
    """Yield the members of decoded JSON at any depth, and those of JSON that is quoted in its strings."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict) and value.keys() <= {"seconds", "nanos"}:
        value = value.get("seconds")  # a duration of protobuf's
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
    if delay_s := header_delay(headers, now_wall_s):
        return delay_s
    by = clocks(headers, now_wall_s)
    zone_h = provider.zone_h if provider is not None else 0.0
    stated = [*_in_fields(found, by, zone_h), *waits_in_words(text, by, zone_h)] or [
        *_in_headers(headers, by, provider)
    ]
    ahead = [each for each in stated if each > 0]
    return min(ahead) if ahead else _JUST_PASSED_S if stated else delay_s


# --- In fields and headers --------------------------------------------------------------------------------------------

_UNIT = r"ms|millis|milliseconds|msec|s|secs?|seconds|mins?|minutes|hrs|hours"
_SURE = r"resets?|cool_?down|back_?off|wait|until"
_WAITING = rf"{_SURE}|retry|try_?again|available|next|refills?|renews?|refresh|replenish|resumes?|unlocks?"
_AT = rf"after|in|at|delay|interval|duration|time|time_?stamp|date|epoch|unix|from_now|{_UNIT}"
_FIELD = (
    rf"(?=.*?(?:{_WAITING}))(?=.*?(?P<sure>{_SURE}|(?<=[a-z]_)(?:{_AT})(?:$|_)|after|delay))?"
    rf"(?:(?:{_WAITING}|attempt|blocked|locked|banned|paused|rate|limit(?:ed)?s?|quota|usage|window|tokens?|requests?"
    rf"|on|to|for|allowed|suggested|recommended|estimated|x|utc|{_AT})_?)+"
)
"""Names of fields that state a wait, in snake case: they have a word of waiting, and no unknown word. A number alone is
only one where the name is `sure` to state a time."""
_FIELD_UNIT = rf"(?:^|_)({_UNIT})(?:$|_(?:until|to|before)_)"
_LONGEST_NAME = 40
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_RESET = re.compile(r"resets?(?:_(?:after|in|at|time|timestamp))?(?=_|$)")
_LIMITS = re.compile(r"rate-?limit|quota")
_NAMED = re.compile(r"^(?!(?:x-)?(?:rate-?limit|quota)(?:-(?:reset|after|in|at|time|timestamp|ms|seconds))+$)")
"""Names of headers that say of which window they are."""
_RETRY_AFTER = re.compile(rf"(?:.*-)?retry-after(?:-(?:{_UNIT}))?")
_DRAFT = re.compile(r"(?:^|[;,]\s*)(r|t|remaining|reset)\s*=\s*(\d+)")


def _plain(name: str) -> str:
    return _CAMEL.sub("_", name[: 2 * _LONGEST_NAME]).lower().replace("-", "_")


def _factor(plain_name: str) -> float:
    """Return the seconds of the unit that a name ends in, or that it says before `until`; 1 without one."""
    found = compiled(_FIELD_UNIT).search(plain_name)
    unit = found[1] if found is not None else "s"
    return 1e-3 if unit.startswith(("ms", "mil")) else {"m": 60.0, "h": 3600.0}.get(unit[0], 1.0)


def _in_fields(found: Iterable[Leaf], by: Clocks, zone_h: float) -> Iterator[float]:
    for name, value, within in found:
        plain = _plain(name)
        named = compiled(_FIELD).fullmatch(plain) if len(plain) <= _LONGEST_NAME else None
        if named is None or not _is_used_up(plain, within):
            continue
        if named["sure"] is None and (parse_number(str(value)) or 1e9) < 1e9:
            continue
        if (seconds := _amount(value, by, zone_h, _factor(plain))) is not None:
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
    text = str(value)[:SEARCHED]
    if "://" in text:
        return None
    if (seconds := parse_duration(text)) is not None:
        return min(seconds, LONGEST_S)
    moments = [span for found in islice(compiled(_MOMENT).finditer(text), _MOST) for span in _spans(found, by, zone_h)]
    return min(moments or [_seconds(found[0]) for found in compiled(_LASTING).finditer(text)], default=None)


def _is_used_up(plain: str, within: dict[str, object]) -> bool:
    """Return whether a limit's reset tells of the refusal: whether nothing remains of it, as far as is said."""
    if "reset" not in plain:
        return True
    remaining = _remaining(plain, within)
    return remaining is None or parse_number(str(remaining)) in (0.0, None)


def _remaining(plain: str, within: dict[str, object]) -> object:
    """Return what remains of the limit of which this is the reset's name; None: that isn't said."""
    names = (_RESET.sub("remaining", plain), plain.replace("reset", "remaining"))
    return next((each for name, each in within.items() if _plain(name) in names), None)


def _in_headers(headers: Headers, by: Clocks, provider: Provider | None) -> Iterator[float]:
    said: dict[str, object] = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    for wait in () if provider is None else provider.waits:
        told = wait.given is None or re.search(wait.given[1], str(said.get(wait.given[0], "")), re.I)
        if told and (seconds := _amount(said.get(wait.header), by, 0.0, 1.0)) is not None:
            yield seconds
    for name, value in said.items():
        if not _RETRY_AFTER.fullmatch(name):
            # The reset of a window that has a name tells of the refusal only where it is said to be used up.
            if "reset" not in name or not _LIMITS.search(name):
                continue
            plain = _plain(name)
            if not _is_used_up(plain, said) or (_NAMED.search(name) and _remaining(plain, said) is None):
                continue
        if (seconds := _amount(value, by, 0.0, 1e-3 if name.endswith("-ms") else 1.0)) is not None:
            yield seconds
    # draft-ietf-httpapi-ratelimit-headers: `"default";r=0;t=6`, earlier `limit=5, remaining=0, reset=6`.
    for policy in re.split(r',\s*(?=")', header(headers, b"ratelimit")):
        fields = dict(_DRAFT.findall(policy))
        if (fields.get("r") or fields.get("remaining")) == "0" and (reset := fields.get("t") or fields.get("reset")):
            yield float(reset)


# --- In words ---------------------------------------------------------------------------------------------------------

_UNITS = {
    1e-3: r"ms|millis(?:econds?)?|毫秒",
    1.0: r"s|secs?|se[ck](?:ond[eo]?|und?)[ens]{0,2}|segundos?|秒[钟鐘]?|초",
    60.0: r"m|mins?|min[uú]t[eo]?[ns]?|分[钟鐘]?|분",
    3600.0: r"h|hrs?|hours?|heures?|horas?|stunden?|小时|小時|時間|시간",
    86400.0: r"d|days?|jours?|d[ií]as?|tage?n?|天|日|일",
    604800.0: r"w|wks?|weeks?|周|週間?",
    2592000.0: r"months?|个月|個月",
}
_AMOUNT = r"\d++(?:\.\d++)?|\b(?:an?|one)(?=[ -]{1,2}[dhmsw])"
_UNIT_NAME = "|".join(_UNITS.values())
_ONE = rf"(?:{_AMOUNT})[ -]{{0,2}}(?:more )?(?:{_UNIT_NAME})(?![a-z])"
_PART = rf"({_AMOUNT})[ -]{{0,2}}(?:more )?({_UNIT_NAME})(?![a-z])"
_LASTING = rf"(?<![\d.:/]){_ONE}(?:(?:,|\s|and|零){{0,4}}{_ONE}){{0,5}}|(?<=\bin )\d\d?:\d\d:\d\d"
_CUE = (
    r"(?:re-?try|retries|try\b|again|wait|reset|resum|availab|renew|refresh|refill|replenish|regain|restor|unlock|until"
    r"|back\b|cool|next|frees? up|continue|请|請|等待|重试|重試|重置|恢复|恢復|wiederhol|erneut|réessay|inténtel)"
)
_CLAUSE = r"[\d.;。]"
_IN = r"\b(?:in|dans|en)(?: about| approximately| around| roughly|)[ ~≈]{1,2}$"
_BEHIND = (
    r" (?:before|until|left\b|later\b|remaining|from now)|,? (?:and|then)(?: then)? (?:re)?try"
    r"|(?:之|以)?[后後]| ?후"
)
_PER = r"\b(?:per|every|each|any|last|past)\b|/"
"""A duration behind this is that of a window, not of a wait."""
_COUNTED = r"\d[\d,.]*k? ?[a-z]+ ?$"
"""Before `in 60 seconds`: so many requests in that time."""
_BARE = r"retry[-_ ]?after[\"']?\s{0,3}(?:[:=]\s{0,3})?[\"']?(\d++(?:\.\d++)?)(?! ?[\w.秒分小:-])"
"""`Retry-After: 6`, in a text."""
_CLOCK = r"(?:\d\d?:\d\d(?::\d\d)?(?:\.\d{1,9})?(?: ?[ap]\.?m\b)?|\d\d? ?[ap]\.?m\b|midnight|noon)"
_ZONE = r"Z\b|UTC|GMT|[+-]\d\d:?\d\d|[a-z]{3,12}/[a-z_/]{2,24}|pacific|eastern|[pe][sd]?t\b"
_ZONES = {"p": "America/Los_Angeles", "e": "America/New_York"}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = "|".join(_MONTHS)
_TH = "(?:st|nd|rd|th)?"
_MOMENT = (
    r"(?<![\w-])(?P<y>20\d\d)[-/年](?P<mo>\d\d?)[-/月](?P<d>\d\d?)日?"
    rf"(?:[T ,]{{0,2}}(?:at )?(?P<t>{_CLOCK}))? ?\(?(?P<z>{_ZONE})?"
    r"|(?<![\w/-])(?P<mo4>[01]?\d)/(?P<d4>[0-3]?\d)/(?P<y4>20\d\d)\b"
    rf"|\b(?:(?P<d2>\d\d?){_TH} (?P<m>{_MONTH})[a-z]*|(?P<m3>{_MONTH})[a-z]*\.? (?P<d3>\d\d?){_TH}\b)"
    r"(?:,? (?P<y2>20\d\d))?"
    rf"(?:,? (?:at )?(?P<t2>{_CLOCK}))? ?\(?(?P<z2>{_ZONE})?"
    r"|\b(?P<epoch>1[6-9]\d{8}(?:\d{3})?)\b"
    rf"|(?<![\d:])(?P<t3>{_CLOCK}) ?\(?(?P<z3>{_ZONE})"
)
"""A day, with a time or not; seconds or milliseconds since the epoch; a time of day with its zone."""
_DATED = rf"{_CUE}|将|\blifts?\b|reached\|"
"""Words before a moment that a refusal lasts to; another may be that of the request."""
_SPACES = str.maketrans({"\u202f": " ", "\xa0": " "})


def waits_in_words(text: str, by: Clocks = (), zone_h: float = 0.0) -> list[float]:
    """Return the seconds that a text names: "Please retry in 12.3s", "wait 6 seconds and try again", "Your limit will
    reset at 2026-11-29 07:41:44"; without clocks no moments.

    A time without a zone is UTC, or that of the provider's own zone if that is nearer.
    """
    text = text[:SEARCHED].translate(_SPACES)
    stated = [float(found[1]) for found in islice(compiled(_BARE).finditer(text), _MOST)]
    for found in islice(compiled(_LASTING).finditer(text), _MOST):
        if _is_wait(text[max(0, found.start() - _BEFORE) : found.start()], text[found.end() : found.end() + _BEFORE]):
            stated.append(_seconds(found[0]))
    for found in islice(compiled(_MOMENT).finditer(text), _MOST) if by else ():
        clause = re.split(r"[;\n。]", text[max(0, found.start() - _BEFORE - 8) : found.start()])[-1]
        if compiled(_DATED).search(clause):
            stated += _spans(found, by, zone_h)
    return stated


def _is_wait(before: str, behind: str) -> bool:
    """Return whether a duration between these texts is that of a wait."""
    clause = compiled(_CLAUSE).split(before)[-1]
    if cue := compiled(_CUE).search(clause):
        return not compiled(_PER).search(clause, cue.end())
    if within := compiled(_IN).search(before):
        return not compiled(_COUNTED).search(before[: within.start()])
    return compiled(_BEHIND).match(behind) is not None


def _seconds(duration: str) -> float:
    if ":" in duration:
        hours, minutes, seconds = map(int, duration.split(":"))
        return hours * 3600.0 + minutes * 60 + seconds
    total = 0.0
    for amount, unit in compiled(_PART).findall(duration):
        factor = next(factor for factor, names in _UNITS.items() if compiled(names).fullmatch(unit))
        total += (float(amount[:20]) if amount[0].isdigit() else 1.0) * factor
    return min(total, LONGEST_S)


def _spans(found: re.Match[str], by: Clocks, zone_h: float) -> list[float]:
    """Return the seconds to a moment, as the nearest of its readings, if it hasn't passed."""
    if not by:
        return []
    if found["epoch"]:
        return _future([float(found["epoch"][:10])], by)
    stated = found["z"] or found["z2"] or found["z3"]
    zone = _zone(stated or "UTC")
    if zone is None and found["t3"]:
        return []
    now = datetime.fromtimestamp(min(max(by[0], 0.0), 4e9), zone := zone or UTC)
    year, day = found["y"] or found["y2"] or found["y4"], found["d"] or found["d2"] or found["d3"] or found["d4"]
    name = (found["m"] or found["m3"] or "").lower()
    month = int(found["mo"] or found["mo4"] or (_MONTHS.index(name) + 1 if name else now.month))
    try:
        moment = datetime(
            int(year or now.year + (month + 6 < now.month)),  # January, said in December, is the next one
            month,
            int(day or now.day),
            *_time_of((found["t"] or found["t2"] or found["t3"] or "0:00").lower()),
            tzinfo=zone,
        )
    except ValueError:
        return []
    at = moment.timestamp()
    if found["t3"] and at < now.timestamp() - _LATEST_S:
        at += DAY_S
    return _future([at] if stated or not zone_h else [at, at - zone_h * 3600], by)


def _zone(name: str) -> tzinfo | None:
    """Return the zone of a name or an offset; None: unknown."""
    low = name.lower()
    if low in ("z", "utc", "gmt"):
        return UTC
    if low[0] in "+-":
        return timezone((1 if low[0] == "+" else -1) * timedelta(hours=int(low[1:3]) % 24, minutes=int(low[-2:]) % 60))
    try:
        return ZoneInfo(name if "/" in name else _ZONES[low[0]])
    except (KeyError, ValueError, OSError):
        return None


def _time_of(text: str) -> tuple[int, int, int]:
    if text in ("midnight", "noon"):
        return (12 if text == "noon" else 0), 0, 0
    hour, minute, second = ([int(part) for part in re.findall(r"\d+", text.split(".")[0])] + [0, 0])[:3]
    if text.rstrip("m.")[-1] in "ap":
        hour = hour % 12 + (12 if "p" in text else 0)
    return hour, minute, second


def _future(moments: list[float], by: Clocks) -> list[float]:
    """Return the seconds to the nearest of the moments that lie in the future; 0 for one that has just passed."""
    spans = [max(0.0, span) for moment in moments if -_LATEST_S < (span := moment - by[0]) < LONGEST_S]
    return [min(spans)] if spans else []

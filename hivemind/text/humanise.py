"""Durations, counts, sizes and money as people read them.

The plain names are for sentences and tables of the command line; the `short_` ones take a fixed number of terminal
cells, for the columns of a screen.
"""

from __future__ import annotations

import math
import re
import signal
import time
from collections.abc import Iterable

NOTHING = "—"
"""Shown for an unknown value."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def duration(seconds: float) -> str:
    """`30 ms`, `1.42 s`, `5 min 10 s`, `3 h 20 min`, `2 d 4 h`: three figures or two units."""
    if seconds < 0.0005:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.3g} s"
    if math.isinf(seconds):
        return "for ever"
    whole = round(seconds)
    if whole < _HOUR:
        return _two_units(whole, _MINUTE, "min", 1, "s")
    return _two_units(whole, _HOUR, "h", _MINUTE, "min") if whole < _DAY else _two_units(whole, _DAY, "d", _HOUR, "h")


def _two_units(whole: int, large_s: int, large: str, small_s: int, small: str) -> str:
    rest = whole % large_s // small_s
    return f"{whole // large_s:,} {large}" + (f" {rest} {small}" if rest else "")


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SPAN = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,9})?)\s*(ms|s|min|m|h|d|w)\s*")


def span_of(text: str) -> float | None:
    """Return the seconds of `30m`, `1h30m`, `2.5s` or a bare number; None: it is no span of time."""
    given = text.strip().lower()
    if re.fullmatch(r"[0-9]{1,10}(?:\.[0-9]{1,9})?", given):
        return float(given)
    parts = _SPAN.findall(given)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts and not _SPAN.sub("", given) else None


def parse_duration(text: str) -> float:
    """Return the seconds of `90s`, `30m`, `1h30m`, `7d` or `2w`. Raises: ValueError: it is none of these."""
    seconds = span_of(text)
    if seconds is None or text.strip()[-1].isdigit():
        raise ValueError(f"{text[:40]!r} is no duration; it is a number and a unit, as 90s, 30m, 12h, 7d or 2w")
    return seconds


_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]*)?")
_DIGITS = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]{1,3})?")


def parse_number(text: str) -> float:
    """Return the number of `8`, `0.7`, `0,7`, `1,000`, `1_000_000`, `500k`, `1.5m` or `2g`; all that people type as a
    number is read by this. Raises: ValueError: it is none of these."""
    digits = text.strip().lower().replace("_", "")
    factor = _FACTORS.get(digits[-1:], 1)
    digits = digits[:-1].rstrip() if factor > 1 else digits
    if _THOUSANDS.fullmatch(digits):
        digits = digits.replace(",", "")
    elif digits.count(",") == 1 and "." not in digits:
        digits = digits.replace(",", ".")
    if not _DIGITS.fullmatch(digits) or not math.isfinite(number := float(digits) * factor):
        raise ValueError(f"{text.strip()[:40]!r} is no number; it is as in 8, 0.7, 1_000_000, 500k or 1.5m")
    return round(number, 6) if factor > 1 else number  # without the noise of binary fractions


def count(number: float) -> str:
    """`950`, `12.3k`, `4.5M`: three figures, of which none is a part of one."""
    if number < 1000:
        return f"{number:.0f}"
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor * 0.9995:
            return f"{number / factor:.3g}{unit}"
    return "1k"


def plural(number: int, one: str, many: str = "") -> str:
    """`1 agent`, `2 agents`, `1,200 agents`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def moment(wall: float, at: float) -> str:
    """`14:10`, or with its day where that isn't the day of `wall`: `Thu 14:10`, `2026-12-24 14:10`; both in seconds
    since the epoch."""
    then, today = time.localtime(at), time.localtime(wall)[:3]
    day = "" if then[:3] == today else "%a " if at - wall < 6 * 86_400 else "%Y-%m-%d "
    return time.strftime(f"{day}%H:%M", then)


def percent(share: float) -> str:
    """`23 %`, `0.4 %`, `0 %`: a share of one, in whole percent from one percent on."""
    return f"{100 * share:.1f} %" if 0.0005 <= abs(share) < 0.0095 else f"{100 * share:,.0f} %"


def level(value: float) -> str:
    """A concurrency level: `5.5`, `no limit`."""
    return "no limit" if math.isinf(value) else f"{value:.1f}"


def dollars(amount: float, unpriced: int = 0) -> str:
    """`$0.0042`, `$1.37`, `$1,204.00`; a `+` after it where some tokens have no known price, and `$?` where none
    has."""
    if unpriced and not amount:
        return "$?"
    shown = f"${amount:.4f}" if 0 < amount < 0.0995 else f"${amount:,.2f}"
    return f"{shown}{'+' if unpriced else ''}"


def cost(amount: float, unpriced: int = 0) -> str:
    """Return :func:`dollars` for a sentence: `price unknown`."""
    return "price unknown" if unpriced and not amount else dollars(amount, unpriced)


def usage(tokens: int, amount: float, unpriced: int, estimated: int = 0) -> str:
    """`45,123 tokens, $0.42`, how many tokens the dollars leave out, and how many are estimated."""
    notes = [f"and {plural(unpriced, 'token')} without a known price"] if unpriced and amount else []
    notes += [f"{plural(estimated, 'token')} estimated"] if estimated else []
    text = f"{plural(tokens, 'token')}, {cost(amount, 0 if amount else unpriced)}"
    return f"{text} ({'; '.join(notes)})" if notes else text


def rate(per_s: float) -> str:
    """`2.4/s`, or below one a second by the minute: `34/min`."""
    if per_s >= 0.95:
        return f"{per_s:.1f}/s" if per_s < 99.5 else f"{short_count(per_s)}/s"
    return f"{60 * per_s:.0f}/min" if 60 * per_s >= 9.5 or not per_s else f"{60 * per_s:.1f}/min"


def share(part: float) -> str:
    """`13 %`, `<1 %`, `0 %`: a share, 1 being all."""
    return f"{100 * part:.0f} %" if part >= 0.01 or not part else "<1 %"


def size(octets: int) -> str:
    """`950 B`, `1.5 KiB`, `3.2 MiB`."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if octets >= factor:
            return f"{octets / factor:,.1f} {unit}"
    return f"{octets} B"


def short_duration(seconds: float | None) -> str:
    """A duration in at most six cells: `0s`, `0.8s`, `42s`, `3m05s`, `2h14m`, `5d03h`."""
    if seconds is None:
        return NOTHING
    if seconds < 9.95:
        return f"{seconds:.1f}s" if seconds >= 0.05 else "0s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02d}h"


def short_span(seconds: float) -> str:
    """A length on an axis, in whole units: `0s`, `30s`, `1m30s`, `2m`, `1h`, `2h05m`."""
    whole = round(abs(seconds))
    large, small = ((86_400, "d"), (3600, "h")) if whole >= _DAY else ((3600, "h"), (60, "m"))
    if whole < _HOUR:
        large, small = (60, "m"), (1, "s")
    if whole < _MINUTE:
        return f"{whole}s"
    rest = whole % large[0] // small[0]
    return f"{whole // large[0]}{large[1]}" + (f"{rest:02d}{small[1]}" if rest else "")


def short_count(number: float | None) -> str:
    """A whole number in at most five cells: `950`, `9.8k`, `124k`, `1.2M`, `∞`."""
    if number is None:
        return NOTHING
    if math.isinf(number):
        return "∞"
    unit, units = "", iter("kMG")
    # Rounded first: 999,950 would be "1000k", and belongs to the next unit already.
    while round(number) >= 1000 and (larger := next(units, "")):
        number, unit = number / 1000, larger
    return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"


def short_plural(number: int, noun: str) -> str:
    """`1 agent`, `2 agents`, `1.2k agents`."""
    return f"{short_count(number)} {noun}{'' if number == 1 else 's'}"


def short_dollars(amount: float | None) -> str:
    """Money in at most seven cells: `$0.0042`, `$1.37`, `$1,204`."""
    if amount is None:
        return NOTHING
    if amount < 0.995:
        return "$0" if amount == 0 else f"${amount:.4f}" if amount < 0.0995 else f"${amount:.2f}"
    return (
        f"${amount:.2f}" if amount < 99.995 else f"${amount:,.0f}" if amount < 99_999.5 else f"${short_count(amount)}"
    )


def short_size(octets: int) -> str:
    """A size in at most seven cells: `12 kB`, `340 MB`."""
    return f"{octets / 1e6:.0f} MB" if octets >= 1e6 else f"{octets / 1e3:.0f} kB"


def exit_text(code: int) -> str:
    """Return `exit code 3`, or for a negative code `killed by SIGTERM`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def did_you_mean(wrong: str, names: Iterable[str], *, at_least: float = 0.6) -> str:
    """`; did you mean NAME?` where one of the names is as close as that (1: the same), else nothing."""
    from difflib import get_close_matches  # on demand: most commands have nothing to suggest

    folded = {name.lower(): name for name in names}
    close = get_close_matches(wrong.lower(), folded, n=1, cutoff=at_least)
    return f"; did you mean {folded[close[0]]}?" if close else ""


def listed(parts: Iterable[str], word: str = "or") -> str:
    """`a, b or c`, or with another word; empty parts are left out."""
    *but_last, last = [part for part in parts if part] or [""]
    return f"{', '.join(but_last)} {word} {last}" if but_last else last


def first_few(names: Iterable[str], most: int | None = None) -> str:
    """`ann, bob and 3 more`: the first names, at most so many (None: all)."""
    every = list(names)
    more = len(every) - len(every[:most])
    return ", ".join(every[:most]) + (f" and {more:,} more" if more else "")


def instead_of(wrong: str, names: Iterable[str], most: int | None = None) -> str:
    """`; did you mean NAME?`, or where none is close the names that there are, at most so many (None: all)."""
    every = list(names)
    there = "is" if len(every) == 1 else "are"
    return did_you_mean(wrong, every) or f"; there {there} {first_few(every, most) or 'none'}"

"""Requests as CSV (RFC 4180), a row each, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal

from hivemind.journal.read.lifecycle import Asked, Attempt
from hivemind.scheduler.types import Price, Usage

COLUMNS = (
    "arrived",
    "agent",
    "client",
    "model",
    "priority",
    "stream",
    "path",
    "lane",
    "end",
    "status",
    "attempts",
    "waited_s",
    "ttft_s",
    "duration_s",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "dollars",
    "faults",
)
"""`arrived` is UTC; `ttft_s` is from the last attempt's start to its first content; tokens and dollars are of all
attempts together; `faults` are of each failed attempt its status and kind."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
"""What a spreadsheet may take for the beginning of a formula."""


def rows(requests: Iterable[Asked], wall: Callable[[float], float], price: Price) -> Iterator[bytes]:
    """The lines, titles first. `wall` gives the time of day, in seconds since the epoch, of a journal's moment."""
    yield _line(COLUMNS)
    for asked in requests:
        yield _line(_cells(asked, wall, price))


def _cells(asked: Asked, wall: Callable[[float], float], price: Price) -> list[str]:
    arrived, last = asked.arrived, asked.attempts[-1] if asked.attempts else None
    usage = asked.usage
    dollars = _dollars(asked, price)
    return [
        moment(wall(arrived.at)),
        _safe(arrived.agent),
        _safe(arrived.client),
        _safe(arrived.model),
        arrived.priority.name.lower(),
        "yes" if arrived.stream else "no",
        _safe(arrived.path),
        _safe(arrived.lane),
        asked.end,
        "" if asked.status is None else str(asked.status),
        str(len(asked.attempts)),
        f"{asked.waited_s:.3f}",
        "" if last is None or last.first_at is None else f"{last.first_at - last.granted_at:.3f}",
        "" if asked.ended_at is None else f"{asked.ended_at - arrived.at:.3f}",
        *_tokens(usage),
        "" if dollars is None else f"{dollars:.6f}",
        _safe("; ".join([*map(_fault, (each for each in asked.attempts if each.kind)), *filter(None, [asked.reason])])),
    ]


def _tokens(usage: Usage | None) -> list[str]:
    if usage is None:
        return ["", "", "", ""]
    parts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)
    return [str(each) for each in parts]


def _dollars(asked: Asked, price: Price) -> float | None:
    """None: nothing was used that is known, or some of it has no known price."""
    total = None
    for attempt in asked.attempts:
        if attempt.usage is not None:
            cost = price(asked.provider, asked.arrived.model, attempt.usage)
            if cost is None:
                return None
            total = (total or 0.0) + cost
    return total


def _fault(attempt: Attempt) -> str:
    assert attempt.kind is not None
    return f"{'' if attempt.status is None else f'{attempt.status} '}{attempt.kind.value}"


def moment(wall: float, *, precision: Literal["milliseconds", "microseconds"] = "milliseconds") -> str:
    """UTC, as in `2026-11-21T18:23:41.500Z`; empty where there is no such time."""
    try:
        shown = datetime.fromtimestamp(wall, UTC).isoformat(timespec=precision)
    except (OverflowError, ValueError, OSError):
        return ""
    return shown.replace("+00:00", "Z")


def _safe(text: str) -> str:
    """A text that no spreadsheet takes for a formula: with an apostrophe before it where it looks like one."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return f"'{plain}" if text.lstrip(" ").startswith(_FORMULA) else plain


def _line(cells: Iterable[str]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue().encode("utf-8", "replace")

"""Requests as CSV (RFC 4180), a row each, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Literal

from hivemind.journal.export.requests import ExportedRequest
from hivemind.scheduler.events import AttemptFailed
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


def rows(requests: Iterable[ExportedRequest], wall: Callable[[float], float], price: Price) -> Iterator[bytes]:
    """Yield the lines, titles first. `wall` gives the time of day (seconds since the epoch) of a journal's moment."""
    yield _line(COLUMNS)
    for request in requests:
        yield _line(_cells(request, wall, price))


def _cells(request: ExportedRequest, wall: Callable[[float], float], price: Price) -> list[str]:
    arrived, last = request.arrived, request.attempts[-1] if request.attempts else None
    dollars = _dollars(request, price)
    faults = [_fault(each.failed) for each in request.attempts if each.failed is not None]
    return [
        moment(wall(arrived.at)),
        _safe(arrived.agent),
        _safe(arrived.client),
        _safe(arrived.model),
        arrived.priority.name.lower(),
        "yes" if arrived.stream else "no",
        _safe(arrived.path),
        _safe(arrived.lane),
        request.outcome,
        "" if request.status is None else str(request.status),
        str(len(request.attempts)),
        f"{request.queue_s:.3f}",
        "" if last is None or last.first_content_at is None else f"{last.first_content_at - last.granted.at:.3f}",
        "" if request.end is None else f"{request.end.at - arrived.at:.3f}",
        *_tokens(request.usage),
        "" if dollars is None else f"{dollars:.6f}",
        _safe("; ".join([*faults, *filter(None, [request.reason])])),
    ]


def _tokens(usage: Usage | None) -> list[str]:
    if usage is None:
        return ["", "", "", ""]
    parts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)
    return [str(each) for each in parts]


def _dollars(request: ExportedRequest, price: Price) -> float | None:
    """Return the cost of all attempts; None if no usage is known, or the price of some of it isn't."""
    total = None
    for attempt in request.attempts:
        if attempt.usage is not None:
            cost = price(request.provider, request.arrived.model, attempt.usage)
            if cost is None:
                return None
            total = (total or 0.0) + cost
    return total


def _fault(failed: AttemptFailed) -> str:
    return f"{'' if failed.status is None else f'{failed.status} '}{failed.kind.value}"


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

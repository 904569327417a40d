"""Heads of one request in a journal with bodies: method, path and headers, found by when it was asked and answered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from hivemind.journal.codec import BadLine, Unknown, event_of
from hivemind.journal.read.cursor import moment_of
from hivemind.journal.read.reader import LONGEST_LINE
from hivemind.journal.records import RequestBody, ResponseBody
from hivemind.scheduler.events import Event
from hivemind.world.request_view import RequestDetail

_SINCE_S, _UNTIL_S = 0.05, 5.0
"""How far from its moment a line may be: bodies are written down beside what they belong to, not in one go with it."""
_MOST_BYTES = 64 << 20
"""That are looked through for one line."""
Near = Callable[[float], tuple[int, int]]
"""For a moment a part, and a byte of it, not far behind which what happened then is told."""


def with_heads(detail: RequestDetail, parts: tuple[Path, ...], near: Near) -> RequestDetail:
    """The same with method, path and headers, credentials masked, as far as they were recorded by then.

    Takes as long as reading a few pieces of the files does. Raises: OSError: one can't be read.
    """
    view = detail.view
    asked = _line(parts, near, view.arrived_at, "RequestBody", view.ticket)
    if isinstance(asked, RequestBody):
        detail = replace(detail, method=asked.method, path=asked.path, request_headers=asked.headers)
    over = [attempt for attempt in view.attempts if attempt.ended_at is not None]
    if over and over[-1].ended_at is not None:
        number = over[-1].number
        answer = _line(parts, near, over[-1].ended_at, "ResponseBody", view.ticket, b'"attempt":%d,' % number)
        if isinstance(answer, ResponseBody):
            detail = replace(detail, response_headers=answer.headers)
    return detail


def _line(parts: tuple[Path, ...], near: Near, at: float, kind: str, ticket: int, more: bytes = b"") -> Event | None:
    """The line of that kind about this request."""
    part, offset = near(at - _SINCE_S)
    wanted = re.compile(rb'\{"v":\d+,"event":"%b","at":[^,]+,"ticket":%d,%b' % (kind.encode(), ticket, more))
    for line in _lines(parts[part:], offset):
        if wanted.match(line):
            try:
                return event_of(line)
            except (BadLine, Unknown):
                return None
        if (moment_of(line[:256]) or at) > at + _UNTIL_S:
            return None
    return None


def _lines(parts: tuple[Path, ...], offset: int) -> Iterator[bytes]:
    left = _MOST_BYTES
    for part in parts:
        with part.open("rb") as file:
            file.seek(offset)
            offset = 0
            while left > 0 and (line := file.readline(LONGEST_LINE)):
                left -= len(line)
                yield line

"""A journal's requests, each with its attempts, bodies and end, for export to other formats."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from hivemind.console import printable
from hivemind.journal.records import RequestBody, ResponseBody
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Price, Usage
from hivemind.world.lifecycle import Lifecycle, OpenRequests
from hivemind.world.state import Carried

_HELD_REQUESTS = 5000
_HELD_CHARS = 32 << 20
"""How much is held back so that requests come in the order of their arrival. Beyond that, ended ones come at once."""
_BODY_WITHIN = 200
"""The body of an answer is written after its end, by so many requests later at most."""


@dataclass(slots=True, eq=False)
class ExportedRequest(Lifecycle):
    """One request, with the bodies that were recorded of it."""

    body: RequestBody | None = None
    response_bodies: dict[int, ResponseBody] = field(default_factory=dict)
    """By attempt."""
    body_chars: int = 0
    ended_as: int = 0
    """How many requests had ended when it did, itself included."""

    @property
    def outcome(self) -> str:
        """How it ended: `answered`, `failed`, `refused`, `left`, or `open` if the events end before it does."""
        return "open" if self.end is None else self.state

    @property
    def status(self) -> int | None:
        """The status that the agent got, if it got one."""
        return None if self.end is None or isinstance(self.end, ev.Abandoned) else self.end.status

    @property
    def reason(self) -> str:
        """Why it was refused, if it was."""
        return self.end.reason if isinstance(self.end, ev.Refused) else ""

    @property
    def wait_s(self) -> float:
        """Seconds in the queue and between attempts."""
        return self.waited_after(-math.inf)


def requests(events: Iterable[ev.Event], *, bodies: bool = False) -> Iterator[ExportedRequest]:
    """Yield every request, in the order of arrival as far as that takes little memory; unended ones come last.

    `bodies`: wait for the bodies of answers.
    """
    collector = _Collector(bodies)
    for event in events:
        collector.apply(event)
        if collector.progressed:
            yield from collector.ready()
    yield from collector.held.values()


class _Collector:
    def __init__(self, bodies: bool) -> None:
        self._bodies = bodies
        self._open = OpenRequests(ExportedRequest)
        self.held: dict[int, ExportedRequest] = {}
        """By ticket, in the order of arrival."""
        self._chars = self._ended = 0
        self.progressed = False
        """A request or its last body has ended since :meth:`ready` was called."""

    def apply(self, event: ev.Event) -> None:
        """Take the next event."""
        if isinstance(event, RequestBody | ResponseBody):
            if self._bodies:
                self._body(event)
        elif isinstance(event, Carried):
            self.held |= {request.arrived.ticket: request for request in self._open.carried(event)[0]}
        elif (request := self._open.apply(event)) is not None:
            if isinstance(event, ev.Arrived):
                self.held[event.ticket] = request
            elif request.end is not None:
                self._ended += 1
                request.ended_as = self._ended
                self.progressed = True

    def ready(self) -> Iterator[ExportedRequest]:
        """Yield the oldest requests as far as they have ended, or all ended ones where too many are held."""
        self.progressed = False
        crowded = len(self.held) > _HELD_REQUESTS or self._chars > _HELD_CHARS
        found = []
        for ticket, request in self.held.items():
            if request.end is not None and (crowded or self._is_complete(request)):
                found.append(ticket)
            elif not crowded:
                break
        for ticket in found:
            request = self.held.pop(ticket)
            self._chars -= request.body_chars
            yield request

    def _is_complete(self, request: ExportedRequest) -> bool:
        if not self._bodies or not request.attempts:
            return True
        return request.attempts[-1].granted.attempt in request.response_bodies or (
            self._ended - request.ended_as > _BODY_WITHIN
        )

    def _body(self, event: RequestBody | ResponseBody) -> None:
        request = self.held.get(event.ticket)
        if request is None:
            return
        if isinstance(event, RequestBody):
            if request.body is not None:
                return
            request.body = event
        elif event.attempt in request.response_bodies:
            return
        else:
            request.response_bodies[event.attempt] = event
            self.progressed = True
        request.body_chars += len(event.body)
        self._chars += len(event.body)


COLUMNS = (
    *("arrived", "agent", "client", "model", "priority", "stream", "path", "lane"),
    *("end", "status", "attempts", "waited_s", "ttft_s", "duration_s"),
    *("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"),
    *("cache_write_1h_tokens", "estimated_tokens", "dollars", "faults", "tier"),
)
"""`arrived` is UTC; `ttft_s` is from the last attempt's start to its first content; tokens and dollars are of all
attempts together, and the last two counts are part of the others; `faults` are of each failed attempt its status and
kind; `tier` is the tier of service, empty for the standard one."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
"""What a spreadsheet may take for the beginning of a formula."""


def rows(requests: Iterable[ExportedRequest], wall: Callable[[float], float], price: Price) -> Iterator[bytes]:
    """Yield the lines, titles first. `wall` gives the time of day (seconds since the epoch) of a journal's moment."""
    yield csv_line(COLUMNS)
    for request in requests:
        yield csv_line(_cells(request, wall, price))


def _cells(request: ExportedRequest, wall: Callable[[float], float], price: Price) -> list[str]:
    arrived, last = request.arrived, request.attempts[-1] if request.attempts else None
    dollars = _dollars(request, price)
    failed = [each.failed for each in request.attempts if each.failed is not None]
    faults = [each.kind.value if each.status is None else f"{each.status} {each.kind.value}" for each in failed]
    return [
        moment(wall(arrived.at)),
        safe_cell(arrived.agent),
        safe_cell(arrived.client),
        safe_cell(arrived.model),
        arrived.priority.name.lower(),
        "yes" if arrived.stream else "no",
        safe_cell(arrived.path),
        safe_cell(arrived.lane),
        request.outcome,
        "" if request.status is None else str(request.status),
        str(len(request.attempts)),
        f"{request.wait_s:.3f}",
        "" if last is None or last.first_content_at is None else f"{last.first_content_at - last.granted.at:.3f}",
        "" if request.end is None or _untimed(request.end) else f"{request.end.at - arrived.at:.3f}",
        *_tokens(request.usage),
        "" if dollars is None else f"{dollars:.6f}",
        safe_cell("; ".join([*faults, *filter(None, [request.reason])])),
        "" if request.usage is None else request.usage.tier,
    ]


def _untimed(end: ev.Event) -> bool:
    return isinstance(end, ev.Finished) and end.duration_s is None


def _tokens(usage: Usage | None) -> list[str]:
    if usage is None:
        return [""] * 6
    parts = (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens)
    return [str(each) for each in (*parts, usage.cache_write_1h_tokens, usage.estimated_tokens)]


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


def moment(wall: float, *, precision: Literal["milliseconds", "microseconds"] = "milliseconds") -> str:
    """UTC, as in `2026-11-21T18:23:41.500Z`; empty where there is no such time."""
    try:
        shown = datetime.fromtimestamp(wall, UTC).isoformat(timespec=precision)
    except (OverflowError, ValueError, OSError):
        return ""
    return shown.replace("+00:00", "Z")


def safe_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula: with an apostrophe before it where it looks like one."""
    plain = printable(text)
    return f"'{plain}" if text.lstrip(" ").startswith(_FORMULA) else plain


def csv_line(cells: Iterable[str]) -> bytes:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue().encode("utf-8", "replace")

"""The requests of a journal, each with its time and its recorded result."""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern

from msgspec import Struct

from hivemind.journal.export.requests import ExportedRequest, requests
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage
from hivemind.world.lifecycle import Lifecycle

LEFT = "left"
"""The error of a request whose client left."""
OPEN = "not over"
"""The error of a request that wasn't over when the journal ended."""


class RequestResult(Struct, frozen=True):
    """The result of a request as its agent saw it. Seconds are from its arrival."""

    status: int | None
    """None: there was no answer."""
    error: str
    """A kind of :class:`~hivemind.scheduler.types.FailureKind` or a similar word; empty: it was answered."""
    first_s: float | None
    """To the first content."""
    took_s: float | None
    """To the end; None: it didn't end."""
    usage: Usage | None


class RecordedRequest(Struct, frozen=True):
    """A request as it was recorded."""

    ticket: int
    at_s: float
    """Arrival, since the journal began."""
    agent: str
    priority: Priority | None
    """The one that it requested."""
    provider: str
    path: str
    model: str
    size_chars: int
    max_output_tokens: int | None
    stream: bool
    recorded: RequestResult
    has_body: bool = False
    """The journal has its body."""


class Sent(Struct, frozen=True):
    """A request that was sent and is over. Times are in seconds since the first one was due."""

    request: RecordedRequest
    result: RequestResult
    at_s: float
    late_s: float
    """How much later than due it was sent."""
    real: bool
    """The recorded request itself was sent, not a synthetic one."""


def recorded_requests(events: Iterable[ev.Event], began: float) -> list[RecordedRequest]:
    """Return the requests of a journal in the order of their arrival. `began` is its beginning on its own clock."""
    found = [_recorded_request(request, began) for request in requests(events, bodies=True)]
    return sorted(found, key=lambda request: request.at_s)


def _recorded_request(request: ExportedRequest, began: float) -> RecordedRequest:
    # Interned, because there may be a million requests with few different texts.
    arrived = request.arrived
    return RecordedRequest(
        ticket=arrived.ticket,
        at_s=max(0.0, request.known_from - began),
        agent=intern(arrived.agent),
        priority=arrived.asked,
        provider=request.provider,
        path=intern(arrived.path),
        model=intern(arrived.model),
        size_chars=arrived.size_chars,
        max_output_tokens=arrived.max_output_tokens,
        stream=arrived.stream,
        recorded=_result(request),
        has_body=request.body is not None and not request.body.left_out,
    )


def _result(request: Lifecycle) -> RequestResult:
    end, began = request.end, request.known_from
    content_at = request.attempts[-1].first_content_at if request.attempts else None
    first_s = None if content_at is None or content_at < began else content_at - began
    if end is None:
        return RequestResult(None, OPEN, first_s, None, None)
    took_s = end.at - began
    if isinstance(end, ev.Refused):
        return RequestResult(end.status, intern(end.reason), first_s, took_s, None)
    if isinstance(end, ev.Finished):
        return RequestResult(end.status, "", first_s, took_s, end.usage)
    if isinstance(end, ev.Abandoned):
        return RequestResult(None, LEFT, first_s, took_s, end.usage)
    status = end.status
    if first_s is not None:
        status = 200  # the answer had begun, and was cut
    elif status is None:
        status = 504 if end.kind is FailureKind.TIMEOUT else 502
    return RequestResult(status, end.kind.value, first_s, took_s, end.usage)


def wall_s(requests: Iterable[RecordedRequest]) -> float:
    """Return the time from the first request to the last end, as recorded."""
    spans = [(request.at_s, request.at_s + (request.recorded.took_s or 0.0)) for request in requests]
    return max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else 0.0

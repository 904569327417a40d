"""The requests of a journal, each with its time and its recorded result."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from sys import intern

from hivemind.errors import UsageError
from hivemind.journal.records import RequestBody
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage, record
from hivemind.text.humanise import did_you_mean, duration
from hivemind.world.lifecycle import Lifecycle, OpenRequests
from hivemind.world.state import Carried

LEFT = "left"
"""The error of a request whose client left."""
OPEN = "not over"
"""The error of a request that wasn't over when the journal ended."""


@record
class RequestResult:
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


@record
class RecordedRequest:
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


@record
class Sent:
    """A request that was sent and is over. Times are in seconds since the first one was due."""

    request: RecordedRequest
    result: RequestResult
    at_s: float
    late_s: float
    """How much later than due it was sent."""
    real: bool
    """The recorded request itself was sent, not a synthetic one."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of a journal's requests to send."""

    agents: tuple[str, ...] = ()
    """Empty: all."""
    from_s: float | None = None
    to_s: float | None = None
    """Since the journal began."""
    most: int | None = None


Predecessor = tuple[int, float]
"""The request whose end another one waits for: its index in the plan, and the seconds between the two."""


class JournalRequests:
    """Collects the requests of a journal from its events. `began` is the beginning on the journal's own clock."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._open = OpenRequests(Lifecycle)
        self._over: list[RecordedRequest] = []
        self._bodies: set[int] = set()

    def apply(self, event: ev.Event) -> None:
        """Take the next event."""
        if isinstance(event, Carried):
            self._over += map(self._recorded_request, self._open.carried(event)[1])
        elif isinstance(event, RequestBody):
            if not event.left_out:
                self._bodies.add(event.ticket)
        else:
            request = self._open.apply(event)
            if request is not None and request.end is not None:
                self._over.append(self._recorded_request(request))

    def requests(self, selection: Selection, *, bodies: bool = True) -> tuple[RecordedRequest, ...]:
        """Return the chosen requests in the order of their arrival; without `bodies` as if the journal had none.

        Raises: UsageError: there is none, or none of an agent.
        """
        unfinished = map(self._recorded_request, self._open.by_ticket.values())
        found = sorted((*self._over, *unfinished), key=lambda request: request.at_s)
        if not found:
            raise UsageError("no request is in this journal")
        known = {request.agent for request in found}
        for name in selection.agents:
            if name not in known:
                more = f" and {len(known) - 8} more" if len(known) > 8 else ""
                hint = did_you_mean(name, known) or f"; there are {', '.join(sorted(known)[:8])}{more}"
                raise UsageError(f"--agents: {name[:80]!r} sent nothing in this journal{hint}")
        agents = selection.agents or known
        begin_s, end_s = selection.from_s or 0.0, math.inf if selection.to_s is None else selection.to_s
        chosen = [each for each in found if each.agent in agents and begin_s <= each.at_s <= end_s][: selection.most]
        if not chosen:
            length = found[-1].at_s
            raise UsageError(f"no request is chosen; the journal's come from 0 to {duration(length)} after it began")
        there = self._bodies if bodies else frozenset[int]()
        return tuple(replace(request, has_body=True) if request.ticket in there else request for request in chosen)

    def _recorded_request(self, request: Lifecycle) -> RecordedRequest:
        # Interned, because there may be a million requests with few different texts.
        arrived = request.arrived
        return RecordedRequest(
            ticket=arrived.ticket,
            at_s=max(0.0, request.known_from - self._began),
            agent=intern(arrived.agent),
            priority=arrived.asked,
            provider=request.provider,
            path=intern(arrived.path),
            model=intern(arrived.model),
            size_chars=arrived.size_chars,
            max_output_tokens=arrived.max_output_tokens,
            stream=arrived.stream,
            recorded=_result(request),
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


def predecessors(requests: Sequence[RecordedRequest]) -> list[Predecessor | None]:
    """Return for each request the one of the same agent that ended last before it arrived, if any."""
    ends: dict[str, list[tuple[float, int]]] = {}
    latest: dict[str, tuple[float, int]] = {}
    found: list[Predecessor | None] = []
    for number, request in enumerate(requests):
        waiting = ends.setdefault(request.agent, [])
        while waiting and waiting[0][0] <= request.at_s:
            latest[request.agent] = heapq.heappop(waiting)
        last = latest.get(request.agent)
        found.append(None if last is None else (last[1], request.at_s - last[0]))
        if request.recorded.took_s is not None:
            heapq.heappush(waiting, (request.at_s + request.recorded.took_s, number))
    return found


def wall_s(requests: Iterable[RecordedRequest]) -> float:
    """Return the time from the first request to the last end, as recorded."""
    spans = [(request.at_s, request.at_s + (request.recorded.took_s or 0.0)) for request in requests]
    return max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else 0.0

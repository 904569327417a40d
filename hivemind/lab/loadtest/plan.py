"""What is to be sent: the requests of a journal, each with its moment and how it went then."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from sys import intern
from typing import Any

from hivemind.errors import UsageError
from hivemind.journal.records import RequestBody
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Priority, Usage, record
from hivemind.text.suggest import did_you_mean

LEFT = "left"
"""The error of a request that its client gave up."""
OPEN = "not over"
"""The error of one that wasn't over when the journal ended."""


@record
class RequestResult:
    """How a request went, as its agent saw it. Seconds are from when it was asked."""

    status: int | None
    """Of the answer; None: there was none."""
    error: str
    """What went wrong, by the kinds of :class:`~hivemind.scheduler.types.FailureKind` and the like; empty: it was
    answered."""
    first_s: float | None
    """To the first content."""
    took_s: float | None
    """To the end; None: it had none."""
    usage: Usage | None


@record
class RecordedRequest:
    """A request as it was recorded."""

    ticket: int
    at_s: float
    """When it came, since the journal began."""
    agent: str
    priority: Priority | None
    """That it asked for."""
    provider: str
    path: str
    model: str
    size_chars: int
    max_output_tokens: int | None
    stream: bool
    then: RequestResult
    has_body: bool = False
    """The journal has what was sent."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of a journal's requests to send."""

    agents: tuple[str, ...] = ()
    """Empty: all."""
    from_s: float | None = None
    to_s: float | None = None
    """Since the journal began."""
    most: int | None = None


@record
class Predecessor:
    """After what a request comes when agents wait for their answers."""

    number: int
    """The request, by its place in the plan."""
    think_s: float
    """From its end to this request."""


@dataclass(slots=True)
class _Open:
    """A request that isn't over, while the journal is read."""

    arrived: ev.Arrived
    provider: str
    first_s: float | None = None


class JournalRequests:
    """Takes a journal's events in, in order; :meth:`asks` are its requests. `began` is when the journal did, on its own
    clock."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._open: dict[int, _Open] = {}
        self._over: list[RecordedRequest] = []
        self._bodies: set[int] = set()
        self._providers: dict[str, str] = {}
        self._folds: dict[type[ev.Event], Callable[[Any], None]] = {
            ev.LaneOpened: self._lane_opened,
            ev.Arrived: self._arrived,
            RequestBody: self._body,
            ev.FirstContent: self._first_content,
            ev.AttemptFailed: self._attempt_failed,
            ev.Finished: self._finished,
            ev.Abandoned: self._abandoned,
            ev.Refused: self._refused,
        }

    def apply(self, event: ev.Event) -> None:
        """What happened next."""
        fold = self._folds.get(type(event))
        if fold is not None:
            fold(event)

    def asks(self, selection: Selection, *, bodies: bool = True) -> tuple[RecordedRequest, ...]:
        """The chosen ones, in the order of their coming; without `bodies` as if the journal had none.

        Raises: UsageError: there is none, or none of an agent.
        """
        still = (self._ask(each, RequestResult(None, OPEN, each.first_s, None, None)) for each in self._open.values())
        found = sorted((*self._over, *still), key=lambda ask: ask.at_s)
        if not found:
            raise UsageError("no request is in this journal")
        known = {ask.agent for ask in found}
        for name in selection.agents:
            if name not in known:
                hint = did_you_mean(name, known) or f"; there are {_some(sorted(known))}"
                raise UsageError(f"--agents: {name[:80]!r} asks for nothing in this journal{hint}")
        chosen = [ask for ask in found if _wanted(ask, selection)][: selection.most]
        if not chosen:
            length = found[-1].at_s
            raise UsageError(f"no request is chosen; the journal's come from 0 to {length:.1f} s after it began")
        there = self._bodies if bodies else frozenset[int]()
        return tuple(replace(ask, has_body=True) if ask.ticket in there else ask for ask in chosen)

    def _lane_opened(self, event: ev.LaneOpened) -> None:
        self._providers[event.lane] = event.provider

    def _arrived(self, event: ev.Arrived) -> None:
        self._open[event.ticket] = _Open(event, self._providers.get(event.lane, ""))

    def _body(self, event: RequestBody) -> None:
        if not event.left_out:
            self._bodies.add(event.ticket)

    def _first_content(self, event: ev.FirstContent) -> None:
        found = self._open.get(event.ticket)
        if found is not None:
            found.first_s = event.at - found.arrived.at

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        if event.retry_in_s is not None:
            return
        found = self._open.get(event.ticket)
        status = event.status
        if found is not None and found.first_s is not None:
            status = 200  # it had begun, and was cut
        elif status is None:
            status = 504 if event.kind is FailureKind.TIMEOUT else 502
        self._ended(event.ticket, event.at, status, event.kind.value, event.usage)

    def _finished(self, event: ev.Finished) -> None:
        self._ended(event.ticket, event.at, event.status, "", event.usage)

    def _abandoned(self, event: ev.Abandoned) -> None:
        self._ended(event.ticket, event.at, None, LEFT, event.usage)

    def _refused(self, event: ev.Refused) -> None:
        if event.ticket is not None:
            self._ended(event.ticket, event.at, event.status, event.reason, None)

    def _ended(self, ticket: int, at: float, status: int | None, error: str, usage: Usage | None) -> None:
        found = self._open.pop(ticket, None)
        if found is not None:
            course = RequestResult(status, intern(error), found.first_s, at - found.arrived.at, usage)
            self._over.append(self._ask(found, course))

    def _ask(self, found: _Open, then: RequestResult) -> RecordedRequest:
        """Texts that are alike are kept once: there may be a million requests."""
        arrived = found.arrived
        return RecordedRequest(
            ticket=arrived.ticket,
            at_s=max(0.0, arrived.at - self._began),
            agent=intern(arrived.agent),
            priority=arrived.asked,
            provider=found.provider,
            path=intern(arrived.path),
            model=intern(arrived.model),
            size_chars=arrived.size_chars,
            max_output_tokens=arrived.max_output_tokens,
            stream=arrived.stream,
            then=then,
        )


def predecessors(asks: Sequence[RecordedRequest]) -> list[Predecessor | None]:
    """Of each request the one of the same agent that ended last before it; None: it waits for none."""
    ends: dict[str, list[tuple[float, int]]] = {}
    latest: dict[str, tuple[float, int]] = {}
    found: list[Predecessor | None] = []
    for number, ask in enumerate(asks):
        waiting = ends.setdefault(ask.agent, [])
        while waiting and waiting[0][0] <= ask.at_s:
            latest[ask.agent] = heapq.heappop(waiting)
        last = latest.get(ask.agent)
        found.append(None if last is None else Predecessor(last[1], ask.at_s - last[0]))
        if ask.then.took_s is not None:
            heapq.heappush(waiting, (ask.at_s + ask.then.took_s, number))
    return found


def wall_s(asks: Iterable[RecordedRequest]) -> float:
    """From the first request to the last end, as recorded."""
    spans = [(ask.at_s, ask.at_s + (ask.then.took_s or 0.0)) for ask in asks]
    return max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else 0.0


def _wanted(ask: RecordedRequest, selection: Selection) -> bool:
    if selection.agents and ask.agent not in selection.agents:
        return False
    if selection.from_s is not None and ask.at_s < selection.from_s:
        return False
    return selection.to_s is None or ask.at_s <= selection.to_s


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")

"""The fold of a request's life: arrival, queue, attempts, first content, usage, retries and end.

Every view of requests is a consumer of this fold, so one rule holds for events that begin in the middle of a run, as
those of a rotated journal's later part do, and for journals with a gap. A request is known from its `Arrived`, or from
the first `Carried` that lists it (then :attr:`Lifecycle.known_from` is that moment). `Carried` lists all requests that
are open: a known one that it leaves out has ended unrecorded. Events of unknown requests are ignored.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, TypeVar

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Usage
from hivemind.world.snapshot import IN_FLIGHT
from hivemind.world.state import AttemptState, Carried, OpenTicket

End = ev.Finished | ev.AttemptFailed | ev.Abandoned | ev.Refused
"""The event that a request ends with."""
_TICKET_FIELDS = tuple(each.name for each in fields(OpenTicket))


class Attempt(AttemptState, eq=False):
    """One try upstream, as references to the events about it."""

    end: End | None = None
    prefill: tuple[int, int] | None = None
    """Tokens of the prompt that the server has read, and all of them, where it says so."""

    def close(self, end: End) -> None:
        """End it with this event."""
        self.end, self.ended_at = end, end.at
        if type(end) is ev.AttemptFailed:
            self.failed = end

    @property
    def status(self) -> int | None:
        """The provider's status, where it answered."""
        return self.end.status if isinstance(self.end, ev.AttemptFailed | ev.Finished) else None

    @property
    def usage(self) -> Usage | None:
        """Tokens that the provider counted for it."""
        return None if self.end is None or isinstance(self.end, ev.Refused) else self.end.usage

    @property
    def queued_at(self) -> float:
        """When the request began to wait for it."""
        return self.granted.at - self.granted.waited_s


@dataclass(slots=True, eq=False)
class Lifecycle(OpenTicket):
    """One request, from its arrival to its end."""

    attempts: list[Attempt] = field(default_factory=list)
    known_from: float = 0.0
    in_flight: bool = False
    """An attempt is under way."""
    heard_at: float = 0.0
    """When something of the present attempt's answer came last, or it was sent."""
    end: End | None = None

    def __post_init__(self) -> None:
        self.priority = self.arrived.priority
        self.since = self.known_from = self.arrived.at

    def restore(self, kept: OpenTicket) -> None:
        """Take over the given state."""
        for name in _TICKET_FIELDS:
            setattr(self, name, getattr(kept, name))
        self.attempts = [
            Attempt(each.granted, each.first_content_at, each.ended_at, each.failed, each.failed)
            for each in kept.attempts
        ]
        self.notes = list(kept.notes)
        self.in_flight = kept.state in IN_FLIGHT
        self.heard_at = self.since

    @property
    def waits_since(self) -> float | None:
        """When its present wait began, or its last one if it ended in that: its arrival, or the end of an attempt that
        is retried. None: an attempt came after that."""
        if not self.attempts:
            return self.arrived.at
        failed = self.attempts[-1].failed
        return None if failed is None or failed.retry_in_s is None else failed.at

    def waited_after(self, moment: float) -> float:
        """Return the seconds that an ended request waited after this moment, its last wait included."""
        waited = self.waited_s
        if moment > self.arrived.at:
            waited = 0.0
            since: float | None = self.arrived.at
            for attempt in self.attempts:
                at, failed = attempt.granted.at, attempt.failed
                waited += max(0.0, at - max(attempt.queued_at if since is None else since, moment))
                since = None if failed is None else failed.at
        if self.end is not None and (waits_since := self.waits_since) is not None:
            waited += max(0.0, self.end.at - max(waits_since, moment))
        return waited

    def granted(self, event: ev.Granted) -> None:
        """Begin an attempt in this slot."""
        waited_s, waits_since = event.waited_s, self.waits_since
        if event.attempt > 1 and waits_since is not None and (between_s := event.at - waits_since) > waited_s:
            waited_s = between_s  # the pause before the retry, too
        self.waited_s += waited_s
        self.state, self.in_flight, self.since, self.retry_at = "waiting", True, event.at, None
        self.heard_at = event.at
        self.attempt = event.attempt
        self.attempts.append(Attempt(event))

    def sent_at_once(self, event: ev.GrantedOnArrival) -> None:
        """Begin the first attempt of a request that was granted as it arrived."""
        at = self.heard_at = event.at
        self.state, self.in_flight, self.attempt = "waiting", True, event.attempt
        self.attempts.append(Attempt(ev.Granted(at, event.ticket, event.agent, event.lane, event.attempt)))

    def first_content(self, at: float) -> None:
        """Note that the answer begins to stream."""
        self.state, self.in_flight, self.since, self.heard_at = "streaming", True, at, at
        if self.attempts:
            self.attempts[-1].first_content_at = at

    def work_left(self, at: float) -> None:
        """Note that the reply is over, and what it began isn't."""
        self.state, self.since = "background", at

    def failed(self, event: ev.AttemptFailed) -> None:
        """End the attempt, and wait for the retry if there is one."""
        self.last_error = event.message or event.kind.value.replace("_", " ")
        self._use(event.usage)
        if self.attempts:
            self.attempts[-1].close(event)
        self.in_flight = False
        if event.retry_in_s is not None:
            self.state, self.since = "retry", event.at
            self.retry_at = event.at + event.retry_in_s

    def close(self, end: End) -> None:
        """End the request with this event."""
        self.end = end
        self.in_flight, self.retry_at = False, None
        if self.attempts and (attempt := self.attempts[-1]).end is None:
            attempt.close(end)
        if isinstance(end, ev.Finished):
            self.state = "answered"
            self._use(end.usage)
        elif type(end) is ev.AttemptFailed:
            self.state = "failed"
        elif type(end) is ev.Abandoned:
            self.state = "left"
            self._use(end.usage)
        elif type(end) is ev.Refused:
            self.state = "refused"
            self.last_error = end.reason.replace("_", " ")

    def _use(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage
            self.output_tokens = self.usage.output_tokens


R = TypeVar("R", bound=Lifecycle)


class OpenRequests(Generic[R]):
    """All open requests. Each method takes an event and returns the request that it changed, None if it is unknown.

    :meth:`apply` takes events of all types except `Carried`; others than those of requests and lanes change nothing.

    `make` makes a request from its arrival and the name of its provider.
    """

    __slots__ = ("_make", "_retries", "by_ticket", "in_flight", "providers")

    def __init__(self, make: Callable[[ev.Arrived, str], R]) -> None:
        self._make = make
        self._retries: list[tuple[float, int]] = []
        """A heap of the times at which retry pauses end, and their tickets; some of them are out of date."""
        self.by_ticket: dict[int, R] = {}
        """The same dictionary for good."""
        self.in_flight = 0
        """How many of them are in flight."""
        self.providers: dict[str, str] = {}
        """By lane."""

    @property
    def waiting(self) -> int:
        """How many of them are queued or wait for a retry."""
        return len(self.by_ticket) - self.in_flight

    def apply(self, event: ev.Event) -> R | None:
        take = self._kinds.get(type(event))
        return None if take is None else take(self, event)

    def lane_opened(self, event: ev.LaneOpened) -> None:
        """Learn the name of a lane's provider."""
        self.providers[event.lane] = event.provider

    def arrived(self, event: ev.Arrived) -> R:
        if event.ticket in self.by_ticket:  # only in a damaged journal
            self._forget(self.by_ticket[event.ticket])
        request = self.by_ticket[event.ticket] = self._make(event, self.providers.get(event.lane, ""))
        return request

    def granted(self, event: ev.Granted) -> R | None:
        request = self.by_ticket.get(event.ticket)
        if request is not None:
            self.in_flight += not request.in_flight
            request.granted(event)
        return request

    def first_content(self, event: ev.FirstContent | ev.AnsweredWhole) -> R | None:
        request = self.by_ticket.get(event.ticket)
        if request is not None:
            self.in_flight += not request.in_flight
            request.first_content(event.at)
        return request

    def work_left(self, event: ev.WorkLeft) -> R | None:
        request = self.by_ticket.get(event.ticket)
        if request is not None:
            request.work_left(event.at)
        return request

    def attempt_failed(self, event: ev.AttemptFailed) -> R | None:
        """End an attempt; remove the request if there is no retry."""
        request = self.by_ticket.get(event.ticket)
        if request is None:
            return None
        if event.retry_in_s is None:
            self._forget(request)
            request.failed(event)
            request.close(event)
        else:
            self.in_flight -= request.in_flight
            request.failed(event)
            heapq.heappush(self._retries, (event.at + event.retry_in_s, event.ticket))
        return request

    def ended(self, event: ev.Finished | ev.Abandoned | ev.Refused) -> R | None:
        request = None if event.ticket is None else self.by_ticket.get(event.ticket)
        if request is not None:
            self.in_flight -= request.in_flight
            del self.by_ticket[request.arrived.ticket]
            request.close(event)
        return request

    def carried(self, event: Carried) -> tuple[list[R], list[R]]:
        """Take over the state of all open requests. Return those that are new, and those that ended unrecorded."""
        before = dict(self.by_ticket)
        self.by_ticket.clear()
        self.providers.update(event.state.providers)
        new = []
        for kept in event.state.tickets:
            request = before.pop(kept.arrived.ticket, None)
            if request is None:
                request = self._make(kept.arrived, kept.provider)
                request.known_from = event.at
                new.append(request)
            request.restore(kept)
            self.by_ticket[kept.arrived.ticket] = request
        self.in_flight = sum(each.in_flight for each in self.by_ticket.values())
        self._retries = sorted((each.retry_at, n) for n, each in self.by_ticket.items() if each.retry_at is not None)
        return new, list(before.values())

    def requeue_due(self, at: float) -> list[R]:
        """Put requests whose retry pause is over back into the queue, and return them, the first due first."""
        due = []
        while self._retries and self._retries[0][0] <= at:
            retry_at, number = heapq.heappop(self._retries)
            request = self.by_ticket.get(number)
            if request is not None and request.retry_at == retry_at:
                # No event says so.
                request.state, request.since, request.retry_at = "queued", retry_at, None
                due.append(request)
        return due

    def _forget(self, request: R) -> None:
        self.in_flight -= request.in_flight
        del self.by_ticket[request.arrived.ticket]

    _kinds: ClassVar[Mapping[type[ev.Event], Callable[[Any, Any], Any]]] = {
        ev.Arrived: arrived,
        ev.Granted: granted,
        ev.FirstContent: first_content,
        ev.WorkLeft: work_left,
        ev.AttemptFailed: attempt_failed,
        ev.Finished: ended,
        ev.Abandoned: ended,
        ev.Refused: ended,
        ev.LaneOpened: lane_opened,
    }

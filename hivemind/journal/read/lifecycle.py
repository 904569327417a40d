"""A journal's requests, each with its attempts and what became of it, from the events of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hivemind.journal.records import Carried, RequestBody, ResponseBody
from hivemind.scheduler import events as ev
from hivemind.scheduler.types import FailureKind, Usage

UNUSED: frozenset[type[ev.Event]] = frozenset({ev.Progress, ev.Sampled})
"""Frequent kinds that tell nothing here, so that they needn't be read."""
_HELD_REQUESTS = 5000
_HELD_CHARS = 32 << 20
"""What is kept so that requests come in the order in which they arrived. Where there is more, those that are over come
as they are."""
_BODY_WITHIN = 200
"""An answer is written down after its end is; by so many requests later at most."""


@dataclass(slots=True)
class Attempt:
    """One try upstream; moments are on the journal's clock."""

    number: int
    queued_at: float
    granted_at: float
    first_at: float | None = None
    """Of its first content."""
    ended_at: float | None = None
    status: int | None = None
    kind: FailureKind | None = None
    """None: it didn't fail."""
    message: str = ""
    usage: Usage | None = None
    body: ResponseBody | None = None


@dataclass(slots=True)
class Asked:
    """One request."""

    arrived: ev.Arrived
    provider: str
    queued_at: float
    """Since when it waits, or waited last."""
    attempts: list[Attempt] = field(default_factory=list)
    ended_at: float | None = None
    end: str = "open"
    """`answered`, `failed`, `refused`, `left`, or `open` where the events end before it does."""
    status: int | None = None
    """What the agent got, where it got something."""
    reason: str = ""
    """Of a refusal."""
    waited_s: float = 0.0
    """In the queue, over all attempts."""
    body: RequestBody | None = None
    closed_as: int = 0
    """How many were over before it."""

    @property
    def flying(self) -> Attempt | None:
        """The attempt that goes on."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and last.ended_at is None else None

    @property
    def usage(self) -> Usage | None:
        """All that its attempts used; None: nobody said."""
        known = [each.usage for each in self.attempts if each.usage is not None]
        if not known:
            return None
        return Usage(
            sum(each.input_tokens for each in known),
            sum(each.cache_read_tokens for each in known),
            sum(each.cache_write_tokens for each in known),
            sum(each.output_tokens for each in known),
        )

    @property
    def chars(self) -> int:
        """Of its bodies."""
        own = 0 if self.body is None else len(self.body.body)
        return own + sum(len(each.body.body) for each in self.attempts if each.body is not None)


def requests(events: Iterable[ev.Event], *, bodies: bool = False) -> Iterator[Asked]:
    """Every request, in the order of arrival as far as that takes little memory; those that never ended come last.

    `bodies`: they are wanted, so an answer's is waited for. What is told of requests that arrived before the events
    begin is left out.
    """
    book = _Book(bodies)
    for event in events:
        fold = book.folds.get(type(event))
        if fold is not None:
            fold(event)
            if book.closed:
                yield from book.settled()
    yield from book.rest()


class _Book:
    def __init__(self, bodies: bool) -> None:
        self._bodies = bodies
        self._asked: dict[int, Asked] = {}
        """By ticket, as they arrived."""
        self._providers: dict[str, str] = {}
        self._chars = self._over = 0
        self.closed = False
        """Some request has come to its end since somebody looked."""
        self.folds: dict[type[ev.Event], Callable[[Any], None]] = {
            Carried: self._carried,
            ev.LaneOpened: self._opened,
            ev.Arrived: self._arrived,
            ev.Granted: self._granted,
            ev.FirstContent: self._first,
            ev.AttemptFailed: self._failed,
            ev.Finished: self._finished,
            ev.Abandoned: self._left,
            ev.Refused: self._refused,
        }
        if bodies:
            self.folds |= {RequestBody: self._request_body, ResponseBody: self._response_body}

    def settled(self) -> Iterator[Asked]:
        """Those that can go: the oldest, as far as they are over, or, where too many are held, all that are over."""
        self.closed = False
        crowded = len(self._asked) > _HELD_REQUESTS or self._chars > _HELD_CHARS
        go = []
        for ticket, asked in self._asked.items():
            if asked.ended_at is not None and (crowded or self._is_whole(asked)):
                go.append(ticket)
            elif not crowded:
                break
        for ticket in go:
            yield self._take(ticket)

    def rest(self) -> Iterator[Asked]:
        for ticket in list(self._asked):
            yield self._take(ticket)

    def _take(self, ticket: int) -> Asked:
        asked = self._asked.pop(ticket)
        self._chars -= asked.chars
        return asked

    def _is_whole(self, asked: Asked) -> bool:
        last = asked.attempts[-1] if asked.attempts else None
        return not self._bodies or last is None or last.body is not None or self._over - asked.closed_as > _BODY_WITHIN

    def _carried(self, event: Carried) -> None:
        self._providers |= dict(event.state.providers)

    def _opened(self, event: ev.LaneOpened) -> None:
        self._providers[event.lane] = event.provider

    def _arrived(self, event: ev.Arrived) -> None:
        self._asked[event.ticket] = Asked(event, self._providers.get(event.lane, ""), event.at)

    def _granted(self, event: ev.Granted) -> None:
        asked = self._asked.get(event.ticket)
        if asked is not None and asked.ended_at is None:
            queued_at = event.at - event.waited_s
            asked.waited_s += event.waited_s
            asked.attempts.append(Attempt(event.attempt, queued_at, event.at))

    def _first(self, event: ev.FirstContent) -> None:
        asked = self._asked.get(event.ticket)
        if asked is not None and (flying := asked.flying) is not None:
            flying.first_at = event.at

    def _failed(self, event: ev.AttemptFailed) -> None:
        asked = self._asked.get(event.ticket)
        if asked is None:
            return
        flying = asked.flying
        if flying is not None:
            flying.ended_at, flying.status, flying.kind = event.at, event.status, event.kind
            flying.message, flying.usage = event.message, event.usage
        if event.retry_in_s is None:
            self._close(asked, event.at, "failed", event.status)
        else:
            asked.queued_at = event.at + event.retry_in_s

    def _finished(self, event: ev.Finished) -> None:
        asked = self._asked.get(event.ticket)
        if asked is not None:
            self._land(asked, event.at, event.status, event.usage)
            self._close(asked, event.at, "answered", event.status)

    def _left(self, event: ev.Abandoned) -> None:
        asked = self._asked.get(event.ticket)
        if asked is not None:
            self._land(asked, event.at, None, event.usage)
            self._close(asked, event.at, "left", None)

    def _refused(self, event: ev.Refused) -> None:
        asked = None if event.ticket is None else self._asked.get(event.ticket)
        if asked is not None:
            self._land(asked, event.at, None, None)
            asked.reason = event.reason
            self._close(asked, event.at, "refused", event.status)

    def _land(self, asked: Asked, at: float, status: int | None, usage: Usage | None) -> None:
        flying = asked.flying
        if flying is not None:
            flying.ended_at, flying.status, flying.usage = at, status, usage
        else:
            asked.waited_s += max(0.0, at - asked.queued_at)

    def _close(self, asked: Asked, at: float, end: str, status: int | None) -> None:
        if asked.ended_at is None:
            asked.ended_at, asked.end, asked.status = at, end, status
            self._over += 1
            asked.closed_as = self._over
            self.closed = True

    def _request_body(self, event: RequestBody) -> None:
        asked = self._asked.get(event.ticket)
        if asked is not None and asked.body is None:
            asked.body = event
            self._chars += len(event.body)

    def _response_body(self, event: ResponseBody) -> None:
        asked = self._asked.get(event.ticket)
        attempts = [] if asked is None else asked.attempts
        attempt = next((each for each in attempts if each.number == event.attempt and each.body is None), None)
        if attempt is not None:
            attempt.body = event
            self._chars += len(event.body)
            self.closed = True

"""The request log: every open request and the newest ended ones by their last change, and the decisions about each."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from operator import attrgetter
from typing import cast

from hivemind.scheduler.events import AnsweredWhole, AttemptFailed, Finished, GrantedOnArrival, Refused
from hivemind.scheduler.types import Price, Usage
from hivemind.text.humanise import duration, plural
from hivemind.world.gates import GATES
from hivemind.world.lifecycle import Attempt
from hivemind.world.lines import words
from hivemind.world.snapshot import DECISIONS_KEPT, REQUESTS_KEPT, REQUESTS_PAGE, Decision, RequestDetail, Requests
from hivemind.world.state import Note
from hivemind.world.tickets import TicketFold


class RequestLog:
    """Requests with a revision each. A change only enters the request into :attr:`changed`; revisions and views are
    made on the next query."""

    def __init__(self) -> None:
        self.changed: dict[int, TicketFold] = {}
        """By ticket, those that changed since the last query."""
        self._order: dict[int, TicketFold] = {}
        """All others, in the order of their last change."""
        self._over: deque[TicketFold] = deque()
        self.ended: deque[TicketFold | tuple[GrantedOnArrival, AnsweredWhole, str]] = deque()
        """Requests that ended since the last query. One with nothing between its two events is these and its provider:
        it is made when somebody looks."""
        self._revision = 0
        self._oldest: int | None = None
        """The lowest ticket; None: not computed yet."""

    def over(self, ticket: TicketFold) -> None:
        """Keep an ended request, and forget the one that ended first if there are too many."""
        self.changed[ticket.arrived.ticket] = ticket
        self._end(ticket)

    def answered(self, arrived: GrantedOnArrival, answered: AnsweredWhole, provider: str) -> None:
        """Keep a request of two events, as :meth:`over` does."""
        self._end((arrived, answered, provider))

    def _end(self, ended: TicketFold | tuple[GrantedOnArrival, AnsweredWhole, str]) -> None:
        self.ended.append(ended)
        if len(self.ended) > REQUESTS_KEPT:
            first = self.ended.popleft()
            if isinstance(first, TicketFold):
                self._forget(first)

    def _make_ended(self) -> None:
        while self.ended:
            ticket = self.ended.popleft()
            if not isinstance(ticket, TicketFold):
                arrived, answered, provider = ticket
                ticket = self.changed[arrived.ticket] = TicketFold(arrived, provider)
                ticket.sent_at_once(arrived)
                ticket.attempts[0].first_content_at = answered.at
                ticket.close(answered)
            self._over.append(ticket)
            if len(self._over) > REQUESTS_KEPT:
                self._forget(self._over.popleft())

    def reopen(self, tickets: Mapping[int, TicketFold]) -> None:
        """Forget open requests that aren't among these, and note that these changed."""
        self._make_ended()
        for number, ticket in (*self._order.items(), *self.changed.items()):
            if ticket.end is None and number not in tickets:
                self._forget(ticket)
        self.changed.update(tickets)
        self._oldest = None

    def reconsider_all(self) -> None:
        """Note that all requests changed, as when prices become known."""
        self.changed.update(self._order)

    def since(self, revision: int, price: Price | None) -> Requests:
        """Return the requests that changed after this revision, the first :data:`REQUESTS_PAGE` of them."""
        self._number()
        found: list[TicketFold] = []
        for ticket in reversed(self._order.values()):
            if ticket.revision <= revision <= self._revision:
                break
            found.append(ticket)
        page = found[-REQUESTS_PAGE:]
        reached = page[0].revision if page else self._revision
        if self._oldest is None:
            self._oldest = min(self._order, default=0)
        page.sort(key=attrgetter("arrived.ticket"))
        return Requests(reached, self._oldest, tuple([ticket.request_view(price) for ticket in page]))

    def detail(self, number: int, price: Price | None) -> RequestDetail | None:
        """Return everything known about one request; None if it is forgotten."""
        self._number()
        ticket = self._order.get(number)
        if ticket is None:
            return None
        arrived = ticket.arrived
        return RequestDetail(
            view=ticket.request_view(price),
            client=arrived.client,
            parent=arrived.parent,
            family=arrived.family,
            estimated_input=arrived.estimated_input,
            estimated_output=arrived.estimated_output,
            decisions=decisions(ticket),
            method="",
            path="",
            request_headers=(),
            response_headers=(),
        )

    def _number(self) -> None:
        self._make_ended()
        order = self._order
        for number, ticket in self.changed.items():
            self._revision += 1
            ticket.revision = self._revision
            ticket.view = None
            order.pop(number, None)
            order[number] = ticket
        self.changed.clear()

    def _forget(self, ticket: TicketFold) -> None:
        number = ticket.arrived.ticket
        for kept in (self.changed, self._order):
            if kept.get(number) is ticket:
                del kept[number]
        if number == self._oldest:
            self._oldest = None


def decisions(ticket: TicketFold) -> tuple[Decision, ...]:
    """Return the decisions, oldest first; the first and the last of them if there are too many."""
    arrived = ticket.arrived
    tokens = f"about {plural(arrived.estimated_input, 'token')} in, {arrived.estimated_output:,} out"
    found = [Decision(arrived.at, f"arrived with priority {arrived.priority.name.lower()}, {tokens}")]
    found += map(_noted, ticket.notes)
    for attempt in ticket.attempts:
        found += _attempted(attempt)
    found.sort(key=attrgetter("at"))
    found += _ended(ticket)
    if len(found) > DECISIONS_KEPT:
        del found[DECISIONS_KEPT // 2 : DECISIONS_KEPT // 2 + len(found) - DECISIONS_KEPT]
    return tuple(found)


def _attempted(attempt: Attempt) -> list[Decision]:
    granted, failed = attempt.granted, attempt.failed
    waited = f"after {duration(granted.waited_s)}" if granted.waited_s >= 0.05 else "at once"
    found = [Decision(granted.at, f"granted {waited}, attempt {granted.attempt}")]
    first_at = attempt.first_content_at
    if first_at is not None:
        found.append(Decision(first_at, f"first content after {duration(first_at - granted.at)}"))
    if failed is not None:
        found.append(_failed(failed, granted.at))
    return found


def _failed(failed: AttemptFailed, granted_at: float) -> Decision:
    what = f"{failed.status} {words(failed.kind.value)}" if failed.status is not None else words(failed.kind.value)
    text = f"attempt {failed.attempt} failed after {duration(failed.at - granted_at)}: {what}"
    if failed.message:
        text += f" ({failed.message})"
    if failed.retry_in_s is None:
        return Decision(failed.at, f"{text}; passed on to the agent", "bad")
    again = f"again in {duration(failed.retry_in_s)}" if failed.retry_in_s > 0 else "again as soon as its turn comes"
    return Decision(failed.at, f"{text}; {again}, unseen by the agent", "warn")


def _ended(ticket: TicketFold) -> list[Decision]:
    end = ticket.end
    if isinstance(end, Finished):
        level = "good" if end.attempts > 1 else "info"
        after = "" if end.duration_s is None else f" after {duration(end.duration_s)}"
        text = f"answered with {end.status}{after}{_used(end.usage)}"
        return [Decision(end.at, text, level)]
    if end is None or isinstance(end, AttemptFailed):
        return []
    if ticket.state == "stopped":
        return [Decision(end.at, "ended: the operator stopped its agent", "bad")]
    if isinstance(end, Refused):
        return [Decision(end.at, f"refused with {end.status}: {words(end.reason)}", "bad")]
    return [Decision(end.at, f"the client left {'while its answer came' if end.in_flight else 'in the queue'}", "warn")]


def _used(usage: Usage | None) -> str:
    if usage is None:
        return ", tokens unknown"
    cached = f" ({usage.cache_read_tokens:,} from cache)" if usage.cache_read_tokens else ""
    return f": {plural(usage.total_input, 'token')} in{cached}, {usage.output_tokens:,} out"


# --- What held it, and what the operator did ----------------------------------------------------------------------


def _noted(note: Note) -> Decision:
    at, what, numbers = note
    match what:
        case "priority":
            text = f"priority is {numbers[0]} now, by {numbers[1]}"
        case "boost":
            for_s, who = cast(tuple[float, str], numbers)
            boosted = f"its agent counts as critical for {duration(for_s)}" if for_s > 0 else "boost ended"
            text = f"{boosted}, by {who}"
        case _:
            text = _held(what, *cast(tuple[int, float | None, float | None], numbers))
    return Decision(at, text)


def _held(gate: str, ahead: int, level: float | None, opens_in_s: float | None) -> str:
    place = f"{ahead} ahead" if ahead else "next in line"
    opens = "" if opens_in_s is None else f", about {duration(opens_in_s)} to go"
    match gate:
        case "slot":
            limit = "no limit" if level is None else f"level {math.floor(level)}"
            return f"waits for a slot: {place}, {limit}{opens}"
        case "requests" | "tokens":
            return f"waits for room in the window of {gate}: {place}{opens}"
        case _ if gate in GATES:
            return f"waits: {GATES[gate].why}{opens}"
    return f"waits: {words(gate)}"

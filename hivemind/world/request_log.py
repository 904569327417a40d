"""The request log: every open request and the newest that are over, by what changed since somebody last asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from hivemind.scheduler.types import Price
from hivemind.world.decisions import decisions
from hivemind.world.request_view import REQUESTS_KEPT, REQUESTS_PAGE, RequestDetail, Requests
from hivemind.world.tickets import TicketFold


class RequestLog:
    """Whoever changes a request puts it into :attr:`changed`; numbers and views are made when somebody asks."""

    __slots__ = ("_oldest", "_order", "_over", "_revision", "changed")

    def __init__(self) -> None:
        self.changed: dict[int, TicketFold] = {}
        """By number, those that changed since somebody last asked."""
        self._order: dict[int, TicketFold] = {}
        """The others, the one that changed last at the end."""
        self._over: deque[TicketFold] = deque()
        self._revision = 0
        self._oldest: int | None = None
        """Lowest number there is; None: to be found out."""

    def over(self, ticket: TicketFold) -> None:
        """It is over; the one that has been so for longest is forgotten where there are too many."""
        self.changed[ticket.arrived.ticket] = ticket
        self._over.append(ticket)
        if len(self._over) > REQUESTS_KEPT:
            self._forget(self._over.popleft())

    def reopen(self, tickets: Mapping[int, TicketFold]) -> None:
        """Those that are open are these, and no others."""
        for number, ticket in (*self._order.items(), *self.changed.items()):
            if ticket.end is None and number not in tickets:
                self._forget(ticket)
        self.changed.update(tickets)
        self._oldest = None

    def reconsider_all(self) -> None:
        """Something became known that changes how requests look."""
        self.changed.update(self._order)

    def since(self, revision: int, price: Price | None) -> Requests:
        """What changed after this revision, :data:`REQUESTS_PAGE` at most, those that changed first before others."""
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
        page.sort(key=_number_of)
        return Requests(reached, self._oldest, tuple([ticket.request_view(price) for ticket in page]))

    def detail(self, number: int, price: Price | None) -> RequestDetail | None:
        """All that the events told of one; None where it is forgotten."""
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


def _number_of(ticket: TicketFold) -> int:
    return ticket.arrived.ticket

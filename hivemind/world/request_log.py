"""The request log: every open request and the newest ended ones, ordered by their last change."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from hivemind.scheduler.types import Price
from hivemind.world.decisions import decisions
from hivemind.world.request_view import REQUESTS_KEPT, REQUESTS_PAGE, RequestDetail, Requests
from hivemind.world.tickets import TicketFold


class RequestLog:
    """Requests with a revision each. A change only enters the request into :attr:`changed`; revisions and views are
    made on the next query."""

    __slots__ = ("_oldest", "_order", "_over", "_revision", "changed")

    def __init__(self) -> None:
        self.changed: dict[int, TicketFold] = {}
        """By ticket, those that changed since the last query."""
        self._order: dict[int, TicketFold] = {}
        """All others, in the order of their last change."""
        self._over: deque[TicketFold] = deque()
        self._revision = 0
        self._oldest: int | None = None
        """The lowest ticket; None: not computed yet."""

    def over(self, ticket: TicketFold) -> None:
        """Keep an ended request, and forget the one that ended first if there are too many."""
        self.changed[ticket.arrived.ticket] = ticket
        self._over.append(ticket)
        if len(self._over) > REQUESTS_KEPT:
            self._forget(self._over.popleft())

    def reopen(self, tickets: Mapping[int, TicketFold]) -> None:
        """Forget open requests that aren't among these, and note that these changed."""
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
        page.sort(key=_number_of)
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

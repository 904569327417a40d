"""The requests of all workers in one log, with numbers and revisions of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hivemind.world.merge import TICKETS_APART
from hivemind.world.snapshot import REQUESTS_KEPT, REQUESTS_PAGE, Requests, RequestView

LOST = "failed"
"""The end of requests that were open when their worker ended: their connections were cut."""


class WorkerRequests:
    """One worker's requests as they were read last, and their numbers among all."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._base = 0
        """Added to a ticket's number, because a process that is started anew counts from one again."""
        self._highest = 0
        self.process = ""
        self.revision = 0
        self.oldest = 0
        """Lowest number that is kept, among all."""
        self.open: set[int] = set()

    def begin(self, process: str) -> None:
        """Go on with another process in the worker's place."""
        self.process, self.revision, self._base = process, 0, self._highest
        self.oldest = self.among_all(0)

    def among_all(self, ticket: int) -> int:
        """Return a ticket's number among those of all workers."""
        return (self._base + ticket) * TICKETS_APART + self._number

    def its_own(self, number: int) -> int | None:
        """Return the number that its present process gave a ticket; None: it was an earlier one's."""
        own = number // TICKETS_APART - self._base
        return own if own > 0 else None

    def take(self, page: Requests) -> list[RequestView]:
        """Return what changed, in the numbers of all."""
        self.revision, self.oldest = page.revision, self.among_all(page.oldest)
        self._highest = max([self._highest, *(self._base + each.ticket for each in page.changed)])
        found = [replace(each, ticket=self.among_all(each.ticket)) for each in page.changed]
        for each in found:
            (self.open.discard if each.over else self.open.add)(each.ticket)
        return found


class MergedRequests:
    """The log: as :class:`hivemind.world.request_log.RequestLog`, of views that other processes made."""

    def __init__(self) -> None:
        self._order: dict[int, tuple[int, RequestView]] = {}
        """By number, in the order of their last change, with its revision."""
        self._over: dict[int, None] = {}
        self._revision = 0

    def change(self, views: Iterable[RequestView]) -> None:
        """Enter what changed."""
        for view in views:
            self._revision += 1
            self._order.pop(view.ticket, None)
            self._order[view.ticket] = (self._revision, view)
            if view.over:
                self._over[view.ticket] = None
        while len(self._over) > REQUESTS_KEPT:
            number = next(iter(self._over))
            del self._over[number]
            self._order.pop(number, None)

    def end(self, numbers: Iterable[int], at: float) -> None:
        """Note that these requests ended with their worker."""
        found = [self._order[number][1] for number in numbers if number in self._order]
        text = "its worker ended"
        self.change([replace(view, state=LOST, ended_at=at, last_error=text) for view in found])

    def since(self, revision: int) -> Requests:
        """Return the requests that changed after this revision, the first :data:`REQUESTS_PAGE` of them."""
        found: list[tuple[int, RequestView]] = []
        for each in reversed(self._order.values()):
            if each[0] <= revision <= self._revision:
                break
            found.append(each)
        page = found[-REQUESTS_PAGE:]
        reached = page[0][0] if page else self._revision
        views = sorted((view for _, view in page), key=lambda view: view.ticket)
        return Requests(reached, min(self._order, default=0), tuple(views))

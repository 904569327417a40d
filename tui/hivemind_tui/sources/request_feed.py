"""The requests of a remote proxy, received over one connection and read by any number of screens."""

from __future__ import annotations

from hivemind.api_types import RequestsPart
from hivemind.world.request_view import REQUESTS_KEPT, REQUESTS_PAGE, Requests, RequestView

_TOO_MANY = 200
"""Requests above the limit before the oldest are forgotten."""


class RequestFeed:
    """The requests received so far, with a revision of its own that outlives the proxy's."""

    def __init__(self) -> None:
        self.run = ""
        """The run of the proxy that the requests are of."""
        self.received = 0
        """The proxy's revision, to ask it with the next time."""
        self._views: dict[int, tuple[int, RequestView]] = {}
        """By number, with the revision of its last change; the one that changed last is last."""
        self._revision = 0
        self._began = 0
        """The first revision of this run."""
        self._oldest = 0
        self._beyond = 1
        """Above every number that was ever reported."""

    def begin(self, run: str) -> None:
        """Start over with another run of the proxy, whose numbers begin again."""
        self.run, self.received = run, 0
        self._views.clear()
        self._oldest = 0
        self._revision += 1
        self._began = self._revision

    def receive(self, part: RequestsPart) -> bool:
        """Add what was received. Return whether there is more to ask for at once."""
        if part.run != self.run:
            self.begin(part.run)
        self.received = part.revision
        for view in part.changed:
            self._revision += 1
            self._views.pop(view.ticket, None)
            self._views[view.ticket] = (self._revision, view)
            self._beyond = max(self._beyond, view.ticket + 1)
        if part.oldest > self._oldest:
            self._oldest = part.oldest
            self._forget([number for number in self._views if number < part.oldest])
        if len(self._views) > REQUESTS_KEPT + _TOO_MANY:
            over = [view for _, view in self._views.values() if view.ended_at is not None]
            over.sort(key=lambda view: view.ended_at or 0.0)
            self._forget([view.ticket for view in over[:-REQUESTS_KEPT]])
        return len(part.changed) >= REQUESTS_PAGE

    def _forget(self, numbers: list[int]) -> None:
        for number in numbers:
            del self._views[number]

    def since(self, revision: int) -> Requests:
        """Return what changed since a revision, a page at most; for one of an earlier run, that all is forgotten."""
        if 0 < revision < self._began:
            return Requests(0, self._beyond, ())
        changed = []
        for numbered in reversed(self._views.values()):
            if numbered[0] <= revision:
                break
            changed.append(numbered)
        page = changed[-REQUESTS_PAGE:]
        reached = page[0][0] if page else self._revision
        return Requests(reached, self._oldest, tuple(sorted((view for _, view in page), key=lambda view: view.ticket)))

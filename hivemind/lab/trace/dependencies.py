"""Finds the steps that a request followed from: answers of its agent or sub-agents, or the start of its process."""

from __future__ import annotations

from itertools import pairwise

from hivemind.lab.trace.steps import CommandStep, RequestStep

REPEAT_S = 120.0
"""Within this time after an error, the same request is taken for a retry of the client."""
AT_ONCE_S = 0.05
"""Requests of one agent that arrive within this time of each other were sent concurrently."""
_MOST_LEAVES = 100
_REPEATED = frozenset({"failed", "refused", "left"})


class AgentHistory:
    """The latest steps of an agent, from which its next request may follow."""

    __slots__ = (
        "_last_ended",
        "_last_request",
        "_open",
        "_parent",
        "_started_by",
        "_unfollowed",
        "children",
    )

    def __init__(self, parent: AgentHistory | None) -> None:
        self._parent = parent
        """The agent whose latest step its first request follows from."""
        self._started_by: CommandStep | None = None
        """The command that started its process, until its first request."""
        self._last_request: RequestStep | None = None
        """The latest request to arrive."""
        self._last_ended: RequestStep | None = None
        """The latest request to end."""
        self._unfollowed: list[RequestStep] = []
        """Requests that are over and from which nothing has followed yet, by their ends."""
        self._open = 0
        self.children: dict[AgentHistory, float] = {}
        """Sub-agents that it hasn't waited for yet, and when they began."""

    @property
    def last(self) -> RequestStep | None:
        """The latest request to end."""
        return self._last_ended

    def begins(self, order: CommandStep) -> None:
        """Record the start of its process."""
        self._started_by = order

    def anchors(self, request: RequestStep) -> tuple[list[RequestStep | CommandStep], bool]:
        """Return the steps that its next request follows from, and whether from their ends or from one's beginning.

        Also sets which request it repeats.
        """
        if self._started_by is not None:
            usage_at_start, self._started_by = self._started_by, None
            return [usage_at_start], True
        if self._last_request is None:
            return ([], True) if self._parent is None else self._parent._latest()
        again = self._repeated(request)
        if again is not None:
            request.repeats = again
            self._unfollowed.remove(again)
            return [again], True
        awaited = self._awaited()
        if awaited:
            self._unfollowed.clear()
            return list(awaited), True
        if not self._unfollowed:
            return self._latest()
        if self._sent_with(request):
            return [self._last_request], False
        if not self._open and self._were_concurrent():
            leaves, self._unfollowed = self._unfollowed, []
            return list(leaves), True
        return [self._unfollowed.pop()], True

    def asks(self, request: RequestStep) -> None:
        """Record the arrival of a request."""
        self._last_request = request
        self._open += 1

    def ends(self, request: RequestStep) -> None:
        """Record the end of a request."""
        self._last_ended = request
        self._unfollowed.append(request)
        del self._unfollowed[:-_MOST_LEAVES]
        self._open -= 1

    def _latest(self) -> tuple[list[RequestStep | CommandStep], bool]:
        """Return its latest step, if nothing better is known."""
        request, ended = self._last_request, self._last_ended
        if request is None:
            return ([], True) if self._started_by is None else ([self._started_by], True)
        if ended is None or (request is not ended and request.at > ended.ended_at):
            return [request], False
        return [ended], True

    def _repeated(self, request: RequestStep) -> RequestStep | None:
        """Return the unanswered request that this one repeats, if any."""
        for last in reversed(self._unfollowed):
            if request.at - last.ended_at > REPEAT_S:
                return None
            if last.end in _REPEATED and last.signature == request.signature and request.arrived.size_chars:
                return last
        return None

    def _awaited(self) -> list[RequestStep]:
        """Return the last requests of sub-agents that it waited for, doing nothing else meanwhile."""
        if self._open or not self.children or self._last_ended is None:
            return []
        over = [
            (child, since)
            for child, since in self.children.items()
            if not child._open and child._last_ended is not None and since >= self._last_ended.ended_at
        ]
        for child, _ in over:
            del self.children[child]
        return [child._last_ended for child, _ in over if child._last_ended is not None]

    def _sent_with(self, request: RequestStep) -> bool:
        """Return whether it was sent concurrently with the latest request."""
        assert self._last_request is not None
        return self._last_request.at >= self._unfollowed[-1].ended_at and request.at - self._last_request.at < AT_ONCE_S

    def _were_concurrent(self) -> bool:
        """Return whether all requests that are over were sent concurrently."""
        if len(self._unfollowed) < 2:
            return False
        came = sorted(each.at for each in self._unfollowed)
        return all(two - one < AT_ONCE_S for one, two in pairwise(came))


def over_at(step: RequestStep | CommandStep) -> float:
    """Return when a step was over."""
    return step.ended_at if isinstance(step, RequestStep) else step.at

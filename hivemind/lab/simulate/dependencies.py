"""After what an agent asks: its own answers, those of the sub-agents that it waited for, the start of its process."""

from __future__ import annotations

from itertools import pairwise

from hivemind.lab.simulate.steps import Asked, Order

REPEAT_S = 120.0
"""Within which a client asks again for what it didn't get, of its own accord."""
AT_ONCE_S = 0.05
"""Requests of one agent that come so soon after each other were sent side by side."""
_MOST_LEAVES = 100
_REPEATED = frozenset({"failed", "refused", "left"})


class Agent:
    """What an agent did last, as far as its next request may follow from it."""

    __slots__ = ("_asked", "_begun", "_ended", "_leaves", "_open", "_parent", "children")

    def __init__(self, parent: Agent | None) -> None:
        self._parent = parent
        """Whose last doings its first request follows from."""
        self._begun: Order | None = None
        """Its process was started, and it hasn't asked since."""
        self._asked: Asked | None = None
        """What it asked last."""
        self._ended: Asked | None = None
        """What ended last."""
        self._leaves: list[Asked] = []
        """Requests that are over, by their ends, and from which nothing has followed yet. Whoever sends several at a
        time, or shares its name with others, has more than one."""
        self._open = 0
        self.children: dict[Agent, float] = {}
        """Sub-agents that it hasn't waited for yet, and since when they are at work."""

    @property
    def last(self) -> Asked | None:
        """The request of its that ended last."""
        return self._ended

    def begins(self, order: Order) -> None:
        """Its process was started."""
        self._begun = order

    def anchors(self, asked: Asked) -> tuple[list[Asked | Order], bool]:
        """What its next request follows from, and whether from the ends of these (else from the beginning of one).

        Notes with the request which one it repeats.
        """
        if self._begun is not None:
            begun, self._begun = self._begun, None
            return [begun], True
        if self._asked is None:
            return ([], True) if self._parent is None else self._parent._latest()
        again = self._repeated(asked)
        if again is not None:
            asked.repeats = again
            self._leaves.remove(again)
            return [again], True
        awaited = self._awaited()
        if awaited:
            self._leaves.clear()
            return list(awaited), True
        if not self._leaves:
            return self._latest()
        if self._sent_with(asked):
            return [self._asked], False
        if not self._open and self._were_side_by_side():
            leaves, self._leaves = self._leaves, []
            return list(leaves), True
        return [self._leaves.pop()], True

    def asks(self, asked: Asked) -> None:
        """It asked."""
        self._asked = asked
        self._open += 1

    def ends(self, asked: Asked) -> None:
        """One of its requests is over."""
        self._ended = asked
        self._leaves.append(asked)
        del self._leaves[:-_MOST_LEAVES]
        self._open -= 1

    def _latest(self) -> tuple[list[Asked | Order], bool]:
        """What it did last, where nothing better is known."""
        asked, ended = self._asked, self._ended
        if asked is None:
            return ([], True) if self._begun is None else ([self._begun], True)
        if ended is None or (asked is not ended and asked.at > ended.ended_at):
            return [asked], False
        return [ended], True

    def _repeated(self, asked: Asked) -> Asked | None:
        """The one that it didn't get an answer to, where this is the same once more."""
        for last in reversed(self._leaves):
            if asked.at - last.ended_at > REPEAT_S:
                return None
            if last.end in _REPEATED and last.kind == asked.kind and asked.arrived.size_chars:
                return last
        return None

    def _awaited(self) -> list[Asked]:
        """The ends of sub-agents that it did nothing beside, and so has waited for."""
        if self._open or not self.children or self._ended is None:
            return []
        over = [
            (child, since)
            for child, since in self.children.items()
            if not child._open and child._ended is not None and since >= self._ended.ended_at
        ]
        for child, _ in over:
            del self.children[child]
        return [child._ended for child, _ in over if child._ended is not None]

    def _sent_with(self, asked: Asked) -> bool:
        """It is one of several that it sends at once."""
        assert self._asked is not None
        return self._asked.at >= self._leaves[-1].ended_at and asked.at - self._asked.at < AT_ONCE_S

    def _were_side_by_side(self) -> bool:
        """All that is over was sent at once."""
        if len(self._leaves) < 2:
            return False
        came = sorted(each.at for each in self._leaves)
        return all(two - one < AT_ONCE_S for one, two in pairwise(came))


def over_at(step: Asked | Order) -> float:
    """When it was over, as recorded."""
    return step.ended_at if isinstance(step, Asked) else step.at

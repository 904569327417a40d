"""Places for agents' processes: as many run at once as may, and the others queue (the fork-bomb limit).

A place is a lease. Whoever holds or wants one asks again every few seconds, so that a runner that was killed gives its
places back by falling silent, and a proxy that was killed learns of those that run by their asking.
"""

from __future__ import annotations

from dataclasses import dataclass

LEASE_S = 15.0
"""A place that nobody asked for in this time is free again."""
KEPT_S = 6.0
"""One of an earlier run of the proxy is, where nobody asks for it in this time."""
ASK_EVERY_S = 2.0
"""How often a runner asks."""


@dataclass(slots=True)
class Place:
    """Of one agent."""

    agent: str
    parent: str | None
    """Who starts it."""
    rank: int
    """Smaller goes first: its priority."""
    number: int
    """Of arrival."""
    asked_at: float
    runner: str = ""
    """Who asked for it."""
    running: bool = False
    until: float | None = None
    """It is kept so long for a process that ran when the proxy ended, and may still."""


class Places:
    """Who runs, and who queues. `limit` 0: as many as like.

    A parent whose child runs or queues waits for it, so its own place counts as free meanwhile: a tree of agents can't
    keep itself from going on.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._places: dict[str, Place] = {}
        self._numbers = 0

    @property
    def agents(self) -> tuple[str, ...]:
        """Those that run, and those that queue, as far as anybody has asked for them."""
        return tuple(place.agent for place in self._places.values() if place.until is None)

    def find(self, agent: str) -> Place | None:
        """The place that it holds or queues for."""
        return self._places.get(agent)

    def keep(self, now: float, agent: str) -> None:
        """Keep a place for an agent that ran when the proxy ended. Whoever asks for it first has it."""
        self._places[agent] = Place(agent, None, 0, 0, now, running=True, until=now + KEPT_S)

    def ask(
        self, now: float, agent: str, parent: str | None, rank: int, *, running: bool, runner: str = ""
    ) -> tuple[bool, int]:
        """Ask for a place, or for the one that is held already (`running`) again.

        Returns whether the agent may run, and how many are ahead of it if not.
        """
        place = self._places.get(agent)
        if place is None:
            self._numbers += 1
            place = self._places[agent] = Place(agent, parent, rank, self._numbers, now, runner)
        place.asked_at, place.rank = now, rank
        if running or place.running:
            place.running = True
            return True, 0
        ahead = sum(1 for each in self._places.values() if not each.running and _turn(each) < _turn(place))
        if not self.limit or self._taken() + ahead < self.limit:
            place.running = True
            return True, 0
        return False, ahead

    def leave(self, agent: str) -> bool:
        """The agent's process has ended, or isn't to be started. Returns whether it ran."""
        place = self._places.pop(agent, None)
        return place is not None and place.running

    def lapse(self, now: float) -> list[str]:
        """Free the places that nobody asks for any more. Returns the agents that ran in them."""
        gone = [each for each in self._places.values() if now > (each.until or each.asked_at + LEASE_S)]
        for place in gone:
            del self._places[place.agent]
        return [place.agent for place in gone if place.running]

    def runs(self, agent: str) -> bool:
        """Whether it holds a place."""
        place = self._places.get(agent)
        return place is not None and place.running

    def _taken(self) -> int:
        lent = {place.parent for place in self._places.values()}
        return sum(place.running and place.agent not in lent for place in self._places.values())


def _turn(place: Place) -> tuple[int, int]:
    return place.rank, place.number

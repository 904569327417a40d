"""Places for agents' processes: a limited number runs at once, and the others queue (fork-bomb protection).

A place is a lease. A runner that holds or wants one asks again every few seconds, so that the places of a killed runner
come free, and a restarted proxy learns which processes run.
"""

from __future__ import annotations

from dataclasses import dataclass

LEASE_S = 15.0  # a place that wasn't asked for in this time is free again
KEPT_S = 6.0  # the same, for a place held since an earlier run of the proxy
ASK_EVERY_S = 2.0  # how often a runner asks


@dataclass(slots=True)
class Place:
    """One agent's place, held or queued for."""

    agent: str
    parent: str | None  # the agent that starts it
    rank: int  # smaller goes first: its priority
    number: int  # order of arrival
    asked_at: float
    runner: str = ""  # the runner that asked for it
    running: bool = False
    until: float | None = None
    """End of the time for which it is kept for a process that ran when the proxy ended, and may still run."""


class Places:
    """Places held and queued for. `limit` 0: no limit.

    A parent whose child runs or queues waits for it, so its own place counts as free meanwhile: a tree of agents can't
    deadlock.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._places: dict[str, Place] = {}
        self._numbers = 0

    @property
    def agents(self) -> tuple[str, ...]:
        """Agents that run or queue, as far as a runner has asked for them."""
        return tuple(place.agent for place in self._places.values() if place.until is None)

    def find(self, agent: str) -> Place | None:
        """Return the place that the agent holds or queues for."""
        return self._places.get(agent)

    def keep(self, now: float, agent: str) -> None:
        """Keep a place for an agent that ran when the proxy ended. The first runner that asks for it gets it."""
        self._places[agent] = Place(agent, None, 0, 0, now, running=True, until=now + KEPT_S)

    def ask(
        self, now: float, agent: str, parent: str | None, rank: int, *, running: bool, runner: str = ""
    ) -> tuple[bool, int]:
        """Ask for a place, or (`running`) renew the one that is held already.

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
        turn = place.rank, place.number
        ahead = sum(not each.running and (each.rank, each.number) < turn for each in self._places.values())
        lent = {each.parent for each in self._places.values()}
        taken = sum(each.running and each.agent not in lent for each in self._places.values())
        if not self.limit or taken + ahead < self.limit:
            place.running = True
            return True, 0
        return False, ahead

    def leave(self, agent: str) -> bool:
        """Give up a place, held or queued for. Return whether it was held."""
        place = self._places.pop(agent, None)
        return place is not None and place.running

    def lapse(self, now: float) -> list[str]:
        """Free the places that aren't asked for any more. Return the agents that held them."""
        gone = [each for each in self._places.values() if now > (each.until or each.asked_at + LEASE_S)]
        for place in gone:
            del self._places[place.agent]
        return [place.agent for place in gone if place.running]

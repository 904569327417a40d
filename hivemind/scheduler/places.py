"""Places for agents' processes: a limited number runs at once, and the others queue (fork-bomb protection).

A place is a lease. A runner that holds or wants one asks again every few seconds, so that the places of a killed runner
come free, and a restarted proxy learns which processes run.

An agent that starts agents waits for them, so it lends its place to one of them at a time, and to nobody else: a tree
of agents can't deadlock, and no more processes run than there are places, times the depth of a tree. Depth and size of
a tree are limited. What is beyond is refused rather than queued, because what it would wait for may wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

LEASE_S = 15.0  # a place that wasn't asked for in this time is free again
KEPT_S = 6.0  # the same, for a place held since an earlier run of the proxy
ASK_EVERY_S = 2.0  # how often a runner asks
LINES_KEPT = 4096
"""Agents of which is remembered who started them after they have left, because what they started may start more."""
_LONGEST = 64
"""Ancestors remembered of an agent, where the depth isn't limited."""


class PlaceLimits(Struct, frozen=True):
    """Limits of agents' processes; 0: no limit."""

    most: int = 0
    """Agents that run at once, not counting those that wait for an agent that they started."""
    depth: int = 4
    """Agents that started each other, the first included."""
    tree: int = 32
    """Agents of one tree that run or queue: the first, and all that it and they have started."""


class PlaceAnswer(Struct, frozen=True):
    """Whether a process may run."""

    granted: bool
    ahead: int = 0
    """Number of processes that are before it in the queue."""
    refused: str = ""
    """Why it may not even queue."""


Ancestor = tuple[str, int]
"""An agent, and the number of its place, so that it isn't taken for a later one of its name."""


class Place(Struct):
    """One agent's place, held or queued for."""

    agent: str
    above: tuple[Ancestor, ...]
    """The one that started it, the one that started that, and so on."""
    rank: int  # smaller goes first: its priority
    number: int  # order of arrival; 0: it ran before this proxy did
    asked_at: float
    runner: str = ""  # the runner that asked for it
    group: bool = False  # it is no process, but a runner, as the parent of those that it starts
    running: bool = False
    until: float | None = None
    """End of the time for which it is kept for a process that ran when the proxy ended, and may still run."""

    @property
    def tree(self) -> str:
        """The agent at the top of its tree."""
        return self.above[-1][0] if self.above else self.agent

    @property
    def turn(self) -> tuple[int, int]:
        """Sort key of the queue."""
        return self.rank, self.number


class Places:
    """Places held and queued for."""

    def __init__(self, limits: PlaceLimits) -> None:
        self.limits = limits
        self._places: dict[str, Place] = {}
        self._lines: dict[str, tuple[Ancestor, ...]] = {}
        """By agent: what is above those that it starts, itself included unless it is a group."""
        self._numbers = 0

    @property
    def agents(self) -> tuple[str, ...]:
        """Agents that run or queue, as far as a runner has asked for them."""
        return tuple(place.agent for place in self._places.values() if place.until is None)

    @property
    def taken(self) -> int:
        """Places that are taken: each process that runs has one, or has it from one that waits for it."""
        return sum(each.running and not each.group for each in self._places.values()) - len(self._lenders())

    def find(self, agent: str) -> Place | None:
        """Return the place that the agent holds or queues for."""
        return self._places.get(agent)

    def keep(self, now: float, agent: str, above: Sequence[str] = ()) -> None:
        """Keep a place for an agent that ran when the proxy ended. The first runner that asks for it gets it."""
        self._places[agent] = Place(agent, self._line(above), 0, 0, now, running=True, until=now + KEPT_S)

    def ask(
        self,
        now: float,
        agent: str,
        above: Sequence[str],
        rank: int,
        *,
        running: bool,
        runner: str = "",
        group: bool = False,
    ) -> PlaceAnswer:
        """Ask for a place, or (`running`) renew the one that is held already.

        `above`: the agent that starts it, the one that started that, and so on, as far as known.
        """
        place = self._places.get(agent)
        if place is None:
            self._numbers += 1
            number = 0 if running else self._numbers
            place = Place(agent, self._line(above), rank, number, now, runner, group)
            refused = "" if running or group else self._refusal(place)
            if refused:
                return PlaceAnswer(False, refused=refused)
            self._places[agent] = place
            self._remember(place)
        place.asked_at, place.rank = now, rank
        if not (running or group or place.running):
            earlier = [each for each in self._places.values() if not each.running and each.turn < place.turn]
            if not self._free(len(earlier)) and not self._lent(place, earlier):
                return PlaceAnswer(False, len(earlier))
        place.running = True
        return PlaceAnswer(True)

    def leave(self, agent: str) -> bool:
        """Give up a place, held or queued for. Return whether it was held."""
        place = self._places.pop(agent, None)
        return place is not None and place.running

    def lapse(self, now: float, unheard_s: float = 0.0) -> list[str]:
        """Free the places that aren't asked for any more. Return the agents that held them. `unheard_s`: nobody could
        ask for so long, which doesn't count."""
        for place in self._places.values():
            place.asked_at += unheard_s
            place.until = place.until and place.until + unheard_s
        gone = [each for each in self._places.values() if now > (each.until or each.asked_at + LEASE_S)]
        for place in gone:
            del self._places[place.agent]
        return [place.agent for place in gone if place.running]

    def _free(self, ahead: int) -> bool:
        return not self.limits.most or self.taken + ahead < self.limits.most

    def _lent(self, place: Place, earlier: list[Place]) -> bool:
        """Whether the one that waits for it has a place to lend, and it is the first that it waits for."""
        lender = self._lender(place)
        return (
            lender is not None
            and lender not in self._lenders()
            and not any(self._lender(each) == lender for each in earlier)
        )

    def _lender(self, place: Place) -> str | None:
        """Return the nearest process above it that runs."""
        for name, number in place.above:
            above = self._places.get(name)
            if above is not None and above.running and above.number == number and above is not place:
                return name
        return None

    def _lenders(self) -> set[str]:
        """Return the agents that have lent their place."""
        places = self._places.values()
        return {lender for each in places if each.running and not each.group and (lender := self._lender(each))}

    def _refusal(self, place: Place) -> str:
        depth, limits = len(place.above) + 1, self.limits
        if limits.depth and depth > limits.depth:
            line = " > ".join([*(name for name, _ in reversed(place.above)), place.agent])
            return f"the tree of {place.tree} may be {limits.depth} deep (agents.max_depth), and this is {line}"
        size = sum(each.tree == place.tree and not each.group for each in self._places.values())
        if limits.tree and size >= limits.tree:
            return f"the tree of {place.tree} has {limits.tree} processes, and may have no more (agents.max_tree)"
        return ""

    def _line(self, above: Sequence[str]) -> tuple[Ancestor, ...]:
        """Return what is above an agent, without groups: as it was when those were started, as far as remembered."""
        found: list[Ancestor] = []
        for name in above:
            if name in self._lines:
                found += self._lines[name]
                break
            found.append((name, 0))
        return tuple(found[:_LONGEST])

    def _remember(self, place: Place) -> None:
        self._lines.pop(place.agent, None)
        self._lines[place.agent] = place.above if place.group else ((place.agent, place.number), *place.above)
        if len(self._lines) > LINES_KEPT + len(self._places):
            gone = [name for name in self._lines if name not in self._places]
            for name in gone[: LINES_KEPT // 8]:
                del self._lines[name]

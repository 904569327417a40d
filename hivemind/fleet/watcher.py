"""What is known of a fleet where somebody looks at it: in a proxy with a screen, or in a program that asks the store.

Nothing is read while nobody looks. What is read is kept, so that a frame needn't wait.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping

from hivemind.fleet import orders
from hivemind.fleet.presence import StoreCalls, Viewer, unpack, unpack_agents
from hivemind.fleet.store import StoreError
from hivemind.records import replace
from hivemind.scheduler.commands import Command
from hivemind.waiting import wait_up_to
from hivemind.world.fleet import Fleet, Member, gathered
from hivemind.world.merge import ProxyPart, merged, merged_agents
from hivemind.world.snapshot import AgentView, Snapshot

EVERY_S = 0.5
"""Between two looks at the store."""
SHOWN_S = 0.25
"""So long the same is shown, since frames come more often than anything changes."""
LATELY_S = 3.0
"""How long after a look the fleet still counts as looked at."""
_CLOCKS_OFF_S = 0.1
"""A clock that moved by less against another hasn't moved."""
_CLOCKS_APART_S = 2.0
"""Clocks of machines that differ by less count as right: reading takes up to a second."""


class Watcher:
    """Reads the fleet in one background task, :meth:`run`."""

    def __init__(
        self,
        store: StoreCalls,
        me: Callable[[], Member] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`me` describes the proxy in this process; None: there is none, and whole snapshots are read."""
        self._store = store
        self._viewer = Viewer(store)
        self._me = me
        self._clock = clock
        self._wall = wall
        self._members: tuple[Member, ...] = ()
        self._agents: Mapping[str, tuple[AgentView, ...]] = {}
        """Agents of other members, by member."""
        self._snapshots: dict[str, ProxyPart] = {}
        self._merged: Snapshot | None = None
        self._numbers: dict[str, int] = {}
        self._clocks: dict[str, tuple[float, float]] = {}
        """Of each machine: what its time of day is behind, in seconds, and that at the zero of its monotonic clock."""
        self.away = ""
        """Why the store can't be asked at present; empty: it answers."""
        self._read_at = -math.inf
        """When the store last answered."""
        self._looked_at = self._agents_looked_at = -math.inf
        self._wake = asyncio.Event()
        self._answered = asyncio.Event()
        self._known: tuple[float, Fleet] = (-math.inf, Fleet())
        """The fleet as it was shown last, and when."""

    # --- What is known ----------------------------------------------------------------------------------------------

    def fleet(self) -> Fleet:
        """Return the fleet as of the last answer; never blocks. The store is asked while this is called."""
        self._looked_at = self._look(self._looked_at)
        now = self._clock()
        if now - self._known[0] >= SHOWN_S:
            self._known = now, self._gathered()
        return self._known[1]

    def _gathered(self) -> Fleet:
        me = None if self._me is None else self._me()
        members = [*self._members]
        if me is not None:  # of itself a proxy knows without the store
            members = [me, *(each for each in members if each.id != me.id)]
        return gathered(members, store=self._store.shown, me="" if me is None else me.id, away=self.away)

    async def next_answer(self) -> None:
        """Wait until the store is asked again, whether it answers or not."""
        self._answered.clear()
        await self._answered.wait()

    async def fresh(self) -> Fleet:
        """Return the fleet, read from the store now unless that was done a moment ago."""
        if self._clock() - self._read_at > EVERY_S:
            await self.read()
        self._known = -math.inf, Fleet()
        return self.fleet()

    def agents(self, own: Snapshot) -> tuple[AgentView, ...]:
        """Return all members' agents, those of the proxy in this process first; never blocks."""
        self._agents_looked_at = self._look(self._agents_looked_at)
        fleet = self.fleet()
        found = {fleet.me: own.agents, **self._agents}
        labels = {member.id: member.label for member in fleet.members}
        return merged_agents((labels[each], agents) for each, agents in found.items() if each in labels)

    def snapshot(self) -> Snapshot | None:
        """Return all proxies as one, as of the last answer; None: there is none yet. Never blocks."""
        self._agents_looked_at = self._look(self._agents_looked_at)
        return self._merged

    @property
    def lost_for_s(self) -> float:
        """Time since the store last answered."""
        return 0.0 if math.isinf(self._read_at) else max(0.0, self._clock() - self._read_at)

    def _look(self, before: float) -> float:
        now = self._clock()
        if now - before > LATELY_S:
            self._wake.set()
        return now

    # --- Reading ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read for ever, while somebody looks."""
        while True:
            self._wake.clear()
            if self._lately(self._looked_at) or self._lately(self._agents_looked_at):
                await self.read()
                self._answered.set()
                wait_s: float | None = EVERY_S
            else:
                wait_s = None
            await wait_up_to(self._wake, wait_s)

    async def read(self) -> None:
        """Read now. What fails is told by :attr:`away`."""
        try:
            watching = self._lately(self._agents_looked_at)
            if watching:
                await self._viewer.watch()
            self._members = gathered(await self._viewer.members()).members
            self._read_at, self.away = self._clock(), ""
            self._known = -math.inf, Fleet()
            await self._read_snapshots(watching)
        except StoreError as error:
            self.away = str(error)

    async def _read_snapshots(self, watching: bool) -> None:
        me = "" if self._me is None else self._me().id
        others = [member for member in self._members if member.id != me]
        packed = await self._viewer.snapshots(others) if watching else {}
        if self._me is not None:
            agents = {}
            for each, data in packed.items():
                agents[each] = unpack_agents(data)
                await asyncio.sleep(0)  # one at a time, because the traffic shares this loop
            self._agents = agents
            return
        for member in others:
            snapshot = unpack(packed[member.id]) if member.id in packed else None
            if snapshot is not None:
                number = self._numbers.setdefault(member.id, len(self._numbers))
                self._snapshots[member.id] = self._part(member, snapshot, number)
            await asyncio.sleep(0)
        present = {member.id: member for member in others}
        self._snapshots = {
            each: replace(part, member=present[each]) for each, part in self._snapshots.items() if each in present
        }
        parts = [self._snapshots[member.id] for member in others if member.id in self._snapshots]
        # Many proxies take a tenth of a second, in which the screen goes on.
        self._merged = await asyncio.to_thread(merged, parts, self._store.shown) if parts else None

    def _part(self, member: Member, snapshot: Snapshot, number: int) -> ProxyPart:
        """Return a snapshot with what its machine's clocks are off.

        A snapshot can't come from the future, so the freshest is the best measure. What was measured stays while it is
        about right, so that lines stay as they are.
        """
        behind_s, epoch = self._wall() - snapshot.wall, snapshot.wall - snapshot.at
        skew_s, known = self._clocks.get(member.id, (math.inf, epoch))
        skew_s = min(skew_s, behind_s) if skew_s - behind_s > _CLOCKS_OFF_S else skew_s
        known = epoch if abs(epoch - known) > _CLOCKS_OFF_S else known
        self._clocks[member.id] = skew_s, known
        return ProxyPart(member, snapshot, number, skew_s if abs(skew_s) > _CLOCKS_APART_S else 0.0, known)

    def _lately(self, at: float) -> bool:
        return self._clock() - at <= LATELY_S

    def _serving(self, agent: str | None) -> frozenset[str]:
        """Return the ids of the other proxies that serve an agent, by what they showed last."""
        found = {each: part.snapshot.agents for each, part in self._snapshots.items()} | dict(self._agents)
        return frozenset(each for each, agents in found.items() if any(view.name == agent for view in agents))

    # --- Steering ---------------------------------------------------------------------------------------------------

    async def apply(self, command: Command, who: str) -> None:
        """Have a command carried out by the proxies that it is about.

        Raises: Rejected: it wasn't carried out by all of them; the text says by which it was. StoreAway: nor was any
        other told of it, as far as is known.
        """
        try:
            members = gathered(await self._viewer.members()).members
            me = "" if self._me is None else self._me().id
            needed = self._serving(getattr(command, "agent", None))
            (await orders.send(self._store, orders.destinations(command, members, me), who, needed)).check()
        except StoreError as error:
            raise orders.StoreAway(f"{error}; nothing was changed as far as is known") from None

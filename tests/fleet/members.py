"""Proxies of a fleet for tests: what each tells of itself, and a proxy that only remembers what it was told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from world.kit import LANE

from hivemind.fleet.orders import Inbox
from hivemind.fleet.presence import Beacon
from hivemind.fleet.store import FleetStore
from hivemind.records import replace
from hivemind.scheduler.commands import Command, Rejected
from hivemind.world.fleet import Member, MemberLane, MemberWindow
from hivemind.world.snapshot import Snapshot

KEY = "ab" * 16


def lease(shown: str = LANE, mine: float = 10.0, used: float = 30.0, **about: object) -> MemberLane:
    """A tenth of a limit of 100 requests, and 3 of a level of 8."""
    window = MemberWindow("family", "requests", 100.0, used, mine)
    given = MemberLane(KEY, shown, "up", "leased", 0.2, 1, 0, 1.0, 3.0, 8.0, (window,))
    return replace(given, **about)  # type: ignore[arg-type]


def member(machine: str, *lanes: MemberLane, pid: int = 1, **about: object) -> Member:
    """A proxy of that machine."""
    made = Member(f"{machine}-{pid}", machine, pid, "1", 1, f"http://{machine}", 0.0, lanes=lanes, label=machine)
    return replace(made, **about)  # type: ignore[arg-type]


@dataclass
class Proxy:
    """Knows some agents, refuses everything if it has a reason to, and remembers what it was told."""

    about: Member
    world: Snapshot
    refuses: str = ""
    applied: list[tuple[Command, str]] = field(default_factory=list)

    def apply(self, command: Command, who: str) -> None:
        if self.refuses:
            raise Rejected(self.refuses)
        self.applied.append((command, who))

    def knows(self, command: Command) -> bool:
        agent = getattr(command, "agent", None)
        return agent is None or any(each.name == agent for each in self.world.agents)

    async def settled(self) -> None:
        """It keeps nothing."""

    def inbox(self, store: FleetStore) -> Inbox:
        return Inbox(store, self.about.id, self.apply, self.knows, self.settled)

    def beacon(self, store: FleetStore, inbox: Inbox | None = None) -> Beacon:
        also = None if inbox is None else inbox.look
        return Beacon(store, lambda: self.about, lambda: self.world, "run", also)


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[FleetStore]:
    """A connection of its own to that store."""
    store = FleetStore(url)
    try:
        yield store
    finally:
        await store.aclose()


@contextlib.asynccontextmanager
async def present(url: str, proxies: Sequence[Proxy]) -> AsyncIterator[None]:
    """These proxies tell of themselves and carry out commands, as fast as they can."""
    async with contextlib.AsyncExitStack() as stack:
        tasks = []
        for proxy in proxies:
            store = await stack.enter_async_context(opened(url))
            tasks.append(asyncio.create_task(_beat(proxy.beacon(store, proxy.inbox(store)))))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _beat(beacon: Beacon) -> None:
    while True:
        await beacon.beat()
        await asyncio.sleep(0.005)

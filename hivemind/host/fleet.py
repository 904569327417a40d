"""A proxy's part in its fleet: its lanes are leased, the others are told of it, and may send it commands."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hivemind import __version__
from hivemind.errors import UsageError
from hivemind.fleet.budget_link import BudgetLink
from hivemind.fleet.budget_member import BudgetMember
from hivemind.fleet.link import Link
from hivemind.fleet.messages import PROTOCOL
from hivemind.fleet.orders import Inbox, KnownNowhere, StoreAway, inbox_key
from hivemind.fleet.presence import Beacon
from hivemind.fleet.store import ALLOCATOR, Fault, FleetStore, StoreError
from hivemind.fleet.watcher import Watcher
from hivemind.fleet.works import CHANNEL, Works
from hivemind.proxy.engine import Engine
from hivemind.scheduler.commands import Command, Conflict, some
from hivemind.scheduler.config import LaneConfig
from hivemind.settings.model import Settings
from hivemind.waiting import cancel_all
from hivemind.wire.fleet_lanes import FleetLanes
from hivemind.world.fleet import Member
from hivemind.world.snapshot import AgentView, Snapshot

_BYE_S = 1.0
"""Longest time to be taken off the list."""


class _Proxy(Protocol):
    """What is used of :class:`hivemind.host.proxy.Proxy`."""

    address: str
    engine: Engine
    settings: Settings

    def snapshot(self) -> Snapshot: ...
    def fleet_agents(self) -> tuple[AgentView, ...]: ...
    def apply(self, command: Command, who: str) -> None: ...


class FleetPart:
    """Made with the proxy, started and closed with it.

    Raises: UsageError: the URL can't be a store's, or the library that speaks to it isn't installed.
    """

    link: Link
    """Link, budgets and watcher from :meth:`start` on."""
    budgets: BudgetLink
    watcher: Watcher
    works: Works

    def __init__(self, url: str, ca_file: Path | None, wall: Callable[[], float]) -> None:
        """`wall` is the time of day in seconds since the epoch."""
        self.store = FleetStore(url, ca_file)
        self.shown = FleetStore(url, ca_file, name="hivemind-view")
        """For what people see and for commands, which may be long and must not hold up the leases."""
        self.lanes = FleetLanes()
        self._wall = wall
        self._started = wall()
        self._tasks: list[asyncio.Task[None]] = []

    async def check(self) -> None:
        """Try to reach the store once; where it isn't there, requests wait until it is.

        Raises: UsageError: it is there, but refuses what the settings say of it.
        """
        try:
            await self.store.call("PING")
        except StoreError as error:  # any other is told by the link, which tries again
            if error.fault is Fault.MISTAKE or error.kind == "password":
                await self.store.aclose()
                raise UsageError(str(error)) from None

    async def start(self, proxy: _Proxy, ledger: str | None) -> None:
        """Have the lanes leased and the budgets shared from now on; before there are any lanes. `ledger` tells the
        proxy's from others; None: nothing is kept."""
        engine = proxy.engine
        self.link = link = Link(self.store, engine, ALLOCATOR, self.lanes.name)
        engine.need_leases()
        engine.hooks.lane_opened = self._open
        engine.hooks.lease_short = link.hurry

        def describe() -> Member:
            return self.described(proxy)

        inbox = Inbox(self.shown, link.member, proxy.apply, lambda command: _knows(engine, command), engine.settled)
        self._beacon = Beacon(self.shown, describe, proxy.snapshot, link.member, inbox.look)
        self.shown.subscribe(inbox_key(link.member), lambda message: self._beacon.call())
        self.watcher = Watcher(self.shown, describe, wall=self._wall)
        self.works = engine.hooks.works = Works(self.shown, link.member, engine.booked_elsewhere, engine.notice)
        self.shown.subscribe(CHANNEL, self.works.heard)
        member = BudgetMember(
            ledger or link.member, link.member, platform.node(), proxy.settings.scheduler_config().budget
        )
        self.budgets = BudgetLink(self.store, engine, member)
        engine.share_budgets(self.budgets.hurry)
        await self.budgets.start()
        link.start()
        for name, running in (("fleet-beacon", self._beacon.run()), ("fleet-watcher", self.watcher.run())):
            self._tasks.append(asyncio.create_task(running, name=name))

    def _open(self, key: str, config: LaneConfig) -> None:
        self.link.open(key, config.upstream)

    async def aclose(self) -> None:
        """Leave the fleet."""
        if self._tasks:
            await cancel_all(self._tasks)
            await self.works.aclose()
            await self.budgets.aclose()
            await self.link.aclose()
            with contextlib.suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_BYE_S):
                    await self._beacon.leave(self.link.member)
        await self.shown.aclose()
        await self.store.aclose()

    async def apply(self, proxy: _Proxy, command: Command, who: str) -> None:
        """Have a command carried out by each proxy that it is about; without the store by this one, if it is.

        Raises: Rejected: it wasn't carried out by all of them; the text says where it was.
        """
        try:
            await self.watcher.apply(command, who)
        except KnownNowhere as error:
            known = proxy.engine.tasks if hasattr(command, "task") else {view.name for view in proxy.fleet_agents()}
            raise Conflict(f"{error}; known here: {some(sorted(known))}", bad_input=True) from None
        except StoreAway as error:
            if not _knows(proxy.engine, command):
                raise
            proxy.apply(command, who)
            raise Conflict(f"carried out by this proxy alone, because the others can't be told: {error}") from None

    def described(self, proxy: _Proxy) -> Member:
        """Return what the fleet is told of the proxy."""
        busy = [agent for agent in proxy.engine.agents.values() if agent.tickets]
        in_flight = sum(agent.in_flight for agent in busy)
        return Member(
            self.link.member,
            platform.node(),
            os.getpid(),
            __version__,
            PROTOCOL,
            proxy.address,
            self._started,
            proxy.engine.health()[0],
            len(proxy.engine.agents),
            len(busy),
            in_flight,
            sum(len(agent.tickets) for agent in busy) - in_flight,
            self.link.lanes(),
        )


def _knows(engine: Engine, command: Command) -> bool:
    """Return whether the agent or task that a command names is this proxy's; True where it names none."""
    agent, task = getattr(command, "agent", None), getattr(command, "task", None)
    if isinstance(agent, str):
        return engine.agents.get(engine.spelling(agent)) is not None
    return not isinstance(task, str) or task in engine.tasks

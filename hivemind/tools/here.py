"""The desk of the proxy that a tool is part of."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from hivemind.api_types import About, TaskState
from hivemind.scheduler.commands import Command, TaskCommand
from hivemind.setup.reach import connectable
from hivemind.world.snapshot import Snapshot


class Proxied(Protocol):
    """The proxy, as far as tools are concerned."""

    def snapshot(self) -> Snapshot: ...

    def about(self) -> About: ...

    def tasks(self, batch: str | None) -> tuple[TaskState, ...]: ...

    def apply(self, command: Command, who: str) -> None: ...

    async def settled(self) -> None: ...

    def spelling(self, name: str) -> str: ...


class Here:
    """A :class:`~.desk.Desk`; call it on the proxy's loop."""

    def __init__(self, proxy: Proxied) -> None:
        self._proxy = proxy

    async def about(self) -> About:
        about = self._proxy.about()
        return replace(about, address=connectable(about.address))

    async def world(self) -> Snapshot:
        return self._proxy.snapshot()

    async def tasks(self, batch: str | None = None) -> tuple[TaskState, ...]:
        return self._proxy.tasks(batch)

    async def order(self, command: Command, who: str) -> None:
        self._proxy.apply(command, who)
        if isinstance(command, TaskCommand):
            await self._proxy.settled()  # whoever is told that a task is there, or done, may build on it

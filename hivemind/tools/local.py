"""Tools of the proxy in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from hivemind.api_types import About, TaskState
from hivemind.scheduler.commands import Command, TaskCommand
from hivemind.setup.reach import connectable
from hivemind.world.snapshot import Snapshot


class LocalProxy(Protocol):
    """The methods of the proxy that tools use."""

    def snapshot(self) -> Snapshot: ...

    def about(self) -> About: ...

    def tasks(self, batch: str | None) -> tuple[TaskState, ...]: ...

    def apply(self, command: Command, who: str) -> None: ...

    async def settled(self) -> None: ...

    def spelling(self, name: str) -> str: ...


class LocalAccess:
    """A :class:`~.access.ProxyAccess` to be used on the proxy's event loop."""

    def __init__(self, proxy: LocalProxy) -> None:
        self._proxy = proxy

    async def about(self) -> About:
        about = self._proxy.about()
        return replace(about, address=connectable(about.address))

    async def world(self) -> Snapshot:
        return self._proxy.snapshot()

    async def tasks(self, batch: str | None = None) -> tuple[TaskState, ...]:
        return self._proxy.tasks(batch)

    async def apply(self, command: Command, who: str) -> None:
        self._proxy.apply(command, who)
        if isinstance(command, TaskCommand):
            await self._proxy.settled()  # what the answer reports must survive a crash

"""How a tool reaches its proxy, in this process or over the control API, and who calls the tool."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from hivemind.api_types import About, TaskState
from hivemind.control.guard import HasControlKey
from hivemind.control.parsing import WHO_LENGTH, checked_who
from hivemind.scheduler.commands import Command, Rejected, TaskCommand
from hivemind.setup.reach import connectable
from hivemind.world.snapshot import Snapshot

ANONYMOUS = "mcp"
"""Name in the proxy's log if the calling agent isn't known."""


class Unavailable(Exception):
    """No proxy could be reached; the text says why, and what to do."""


class ProxyAccess(Protocol):
    """A proxy as tools use it. Every method raises Unavailable if it can't be reached."""

    async def about(self) -> About:
        """Return facts about the proxy; its address is one that the caller can use."""

    async def world(self) -> Snapshot:
        """Return the current snapshot; curves and log lines may be missing."""

    async def tasks(self, batch: str | None = None) -> tuple[TaskState, ...]:
        """Return the tasks of a batch, or (None) all."""

    async def apply(self, command: Command, who: str) -> None:
        """Execute a command. Raises: Rejected: it can't be executed; the text says why."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls a tool."""

    agent: str | None = None
    """The agent's name, if known."""

    @property
    def who(self) -> str:
        """Its name in the proxy's log."""
        if self.agent is None:
            return ANONYMOUS
        try:
            return checked_who(f"{ANONYMOUS}:{self.agent}"[:WHO_LENGTH])
        except Rejected:  # the name looks like a key
            return ANONYMOUS


class McpProxy(HasControlKey, Protocol):
    """The proxy as its MCP server uses it."""

    def snapshot(self) -> Snapshot: ...
    def about(self) -> About: ...
    def tasks(self, batch: str | None) -> tuple[TaskState, ...]: ...
    def apply(self, command: Command, who: str) -> None: ...
    async def settled(self) -> None: ...
    def spelling(self, name: str) -> str: ...


class LocalAccess:
    """Access to the proxy in this process, to be used on the proxy's event loop."""

    def __init__(self, proxy: McpProxy) -> None:
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

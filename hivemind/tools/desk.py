"""Where a tool asks and orders: the proxy it is part of, or one elsewhere. And who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hivemind.api_types import About, TaskState
from hivemind.control.commands import WHO_LENGTH, checked_who
from hivemind.scheduler.commands import Command, Rejected
from hivemind.world.snapshot import Snapshot

ANONYMOUS = "mcp"
"""Who signs where no agent is known."""


class Unavailable(Exception):
    """No proxy could be asked; the text says why, and what would mend it."""


class Desk(Protocol):
    """A proxy, to a tool. Every method raises Unavailable where it can't be had."""

    async def about(self) -> About:
        """The proxy itself; its address is one that the caller can use."""
        ...

    async def world(self) -> Snapshot:
        """The world now; curves and log lines may be missing."""
        ...

    async def tasks(self, batch: str | None = None) -> tuple[TaskState, ...]:
        """All tasks of a batch, or (None) all."""
        ...

    async def order(self, command: Command, who: str) -> None:
        """Have a command carried out. Raises: Rejected: it can't be; the text says why."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls a tool."""

    agent: str | None = None
    """Its name, where that is known."""

    @property
    def who(self) -> str:
        """How it signs in the proxy's log."""
        if self.agent is None:
            return ANONYMOUS
        try:
            return checked_who(f"{ANONYMOUS}:{self.agent}"[:WHO_LENGTH])
        except Rejected:  # a name that would be taken for something else
            return ANONYMOUS

"""Sources: where the screen gets the world from and sends commands to. All look the same to it.

What a frame needs is read without waiting; commands and details are coroutines. Requests are transferred by revision:
a reader names the one that it knows and gets what changed since, so a frame costs what happened, not what is kept.
"""

from __future__ import annotations

import asyncio
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from hivemind.control.parsing import WHO_LENGTH
from hivemind.journal.read.older import OlderLines, older_lines
from hivemind.scheduler.commands import Command, Rejected
from hivemind.settings.write import Draft, draft, write
from hivemind.world.fleet import Fleet
from hivemind.world.snapshot import REQUESTS_KEPT, AgentView, RequestDetail, Requests, RequestView, Snapshot

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy


_SLACK = 250
"""Requests above the limit before it is worth looking which are forgotten."""


class Link(Struct, frozen=True):
    """The connection of the screen to its source."""

    kind: str = "live"
    """`live`: a proxy in this process, which ends with the screen; `attached`: one elsewhere, which doesn't;
    `fleet`: all proxies of a store; `replay`: a recording."""
    where: str = ""
    """Of an attached one: its address; of a recording: its name."""
    lost_for_s: float | None = None
    """For how long nothing came, so that what is shown is old; None while connected."""
    why: str = ""
    """Why the connection is lost, and what would mend it."""


class Source(ABC):
    """Something that can be watched and steered: a proxy in this process, one elsewhere, or a recording. Each states
    what it has: the rest is empty, and changes are refused."""

    refusal: ClassVar[str] = ""
    """Why nothing can be changed, unless it can."""

    @property
    @abstractmethod
    def link(self) -> Link:
        """The state of the connection."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the world now, or as of the last answer. Cheap enough to call several times a second; never blocks."""

    @abstractmethod
    def requests(self) -> tuple[RequestView, ...]:
        """Return the requests in memory, newest first: the same object until one changes. Never blocks."""

    def fleet(self) -> Fleet:
        """Return the proxies that share a key with this one, as of the last answer; one without a store: there is no
        fleet. Never blocks."""
        return Fleet()

    def agents_everywhere(self) -> tuple[AgentView, ...]:
        """Return the agents of all of them, each with its machines. Never blocks."""
        return ()

    async def detail(self, ticket: int) -> RequestDetail | None:
        """Return everything about one request; None where it is forgotten."""
        return None

    async def older_lines(self, before: float) -> OlderLines:
        """Return lines of the log from before a moment, as far as there is a journal to read them from.

        Raises: OSError, hivemind.errors.UsageError: it can't be read.
        """
        return OlderLines()

    async def apply(self, command: Command) -> None:
        """Carry a command out, by the proxies where its agent lives.

        Raises: hivemind.scheduler.commands.Rejected, whose text says why and what would be right.
        """
        raise Rejected(self.refusal)

    async def draft(self, values: Mapping[str, float]) -> Draft:
        """Return what writing these knobs would change in the proxy's settings file, which stays as it is.

        Raises: hivemind.scheduler.commands.Rejected.
        """
        raise Rejected(self.refusal)

    async def write(self, draft: Draft) -> None:
        """Write a draft.

        Raises: hivemind.scheduler.commands.Rejected: the file can't be written, or has changed since the draft.
        """
        raise Rejected(self.refusal)


def elsewhere(agents: Iterable[AgentView], fleet: Fleet) -> frozenset[str]:
    """Return the names of the agents that don't live with the fleet's own proxy alone."""
    here = next((member.label for member in fleet.members if member.id == fleet.me), "")
    return frozenset(agent.name for agent in agents if agent.machines not in ((), (here,)))


def signature(environ: Mapping[str, str]) -> str:
    """Return who gives a command, for another proxy's log."""
    user = environ.get("USER") or environ.get("LOGNAME") or "attached"
    name = "".join(letter for letter in f"{user}@{platform.node()}" if letter.isprintable())
    return name[:WHO_LENGTH].strip("@ ") or "attached"


class RequestList:
    """The requests that a world remembers, collected page by page."""

    def __init__(self) -> None:
        self.all: tuple[RequestView, ...] = ()
        """Newest first."""
        self.revision = 0
        """The revision for the next query."""
        self._known: dict[int, RequestView] = {}

    def clear(self) -> None:
        """Start over with another world, whose revisions begin again."""
        self.all, self.revision = (), 0
        self._known.clear()

    def update(self, page: Requests) -> None:
        """Add what changed; of the requests that ended, keep the latest."""
        if page.revision == self.revision:
            return
        self.revision = page.revision
        self._known.update((request.ticket, request) for request in page.changed)
        for number in [number for number in self._known if number < page.oldest]:
            del self._known[number]
        if len(self._known) > REQUESTS_KEPT + _SLACK:
            over = sorted((each for each in self._known.values() if each.over), key=lambda each: each.ended_at or 0.0)
            for request in over[:-REQUESTS_KEPT]:
                del self._known[request.ticket]
        self.all = tuple(self._known[number] for number in sorted(self._known, reverse=True))


class Local(Source):
    """The proxy in this process."""

    link = Link()

    def __init__(self, proxy: Proxy, settings_file: Path) -> None:
        self._proxy = proxy
        self._settings_file = settings_file
        self._requests = RequestList()
        self._elsewhere: frozenset[str] = frozenset()
        """Agents that live on other machines too, or only there, as they were shown last."""

    def snapshot(self) -> Snapshot:
        return self._proxy.snapshot()

    def requests(self) -> tuple[RequestView, ...]:
        self._requests.update(self._proxy.engine.requests(self._requests.revision))
        return self._requests.all

    def fleet(self) -> Fleet:
        return self._proxy.fleet_now()

    def agents_everywhere(self) -> tuple[AgentView, ...]:
        found = self._proxy.fleet_agents()
        self._elsewhere = elsewhere(found, self._proxy.fleet_now())
        return found

    async def detail(self, ticket: int) -> RequestDetail | None:
        return self._proxy.detail(ticket)

    async def older_lines(self, before: float) -> OlderLines:
        journal = self._proxy.journal
        return (
            OlderLines() if journal is None else await asyncio.to_thread(older_lines, Path(journal.view().path), before)
        )

    async def apply(self, command: Command) -> None:
        if getattr(command, "agent", None) in self._elsewhere:
            await self._proxy.apply_anywhere(command, signature(os.environ))
        else:
            self._proxy.apply(command, "you")  # the name that the control API reserves for this screen

    async def draft(self, values: Mapping[str, float]) -> Draft:
        return await asyncio.to_thread(draft, self._settings_file, values)

    async def write(self, draft: Draft) -> None:
        await asyncio.to_thread(write, draft)  # it waits for the disk

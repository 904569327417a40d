"""A remote proxy as a source, over its control API.

One task polls for changes, a few times a second while a screen reads them, and merges them into what is known; the
screen reads that without waiting. A lost connection is reported by `link` and retried with growing pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

import httpx
from msgspec import Struct

from hivemind.control.client import ControlClient, ControlError, open_http
from hivemind.control.codec import OutOfSync, merge
from hivemind.control.discovery import Token, find_token, parse_address
from hivemind.records import replace
from hivemind.scheduler.commands import Command, Rejected
from hivemind.settings.write import Draft
from hivemind.waiting import wait_up_to
from hivemind.world.fleet import Fleet
from hivemind.world.snapshot import (
    REQUESTS_KEPT,
    REQUESTS_PAGE,
    AgentView,
    Line,
    RequestDetail,
    Requests,
    RequestView,
    Snapshot,
    Totals,
)
from hivemind_tui.sources.base import Link, RequestList, Source, elsewhere, signature

T = TypeVar("T")

_PAGES_AT_ONCE = REQUESTS_KEPT // REQUESTS_PAGE + 2
"""Pages of requests read in one poll; more would delay the next snapshot."""
_FIRST_ANSWER_S = 0.5
"""How long the first frame waits for a snapshot, so that it needn't be drawn twice."""


class PollPace(Struct, frozen=True):
    """How often the proxy is polled, in seconds."""

    looked_at_s: float = 0.25
    """While a screen reads the source."""
    unseen_s: float = 2.0
    """While none does; still enough to notice that the proxy is gone."""
    fleet_s: float = 0.5
    """The fleet, which changes less often."""
    lately_s: float = 3.0
    """A screen that read in this time still does."""
    again_s: float = 0.1
    """After the first failure; each further pause is twice as long."""
    again_most_s: float = 2.0


class AttachedSource(Source):
    """A proxy over HTTP, polled while the context is entered. Its journal is a file of its own machine.

    `name` signs its commands in the proxy's log.
    """

    def __init__(
        self,
        url: str,
        token: Token,
        http: httpx.AsyncClient,
        *,
        name: str = "attached",
        pace: PollPace | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = ControlClient(url, token, http)
        self._url = url
        self._name = name
        self._pace = pace or PollPace()
        self._clock = clock
        self._run = ""
        self._known: Snapshot | None = None
        self._empty = empty_snapshot(url, wall())
        self._requests = RequestList()
        self._fleet = Fleet()
        self._agents: tuple[AgentView, ...] = ()
        self._elsewhere: frozenset[str] = frozenset()
        self._fleet_at = self._agents_at = -math.inf
        """When the fleet, and all its agents, were looked at last."""
        self._fleet_due = -math.inf
        self._looked_at = self._updated_at = clock()
        self._read_at = -math.inf
        self._lost = "connecting"
        self.first_answer = asyncio.Event()
        """Set once the proxy was polled, whether it answered or not."""
        self._wake = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._poller = asyncio.create_task(self._poll_forever(), name="poll the proxy")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._poller is not None:
            self._poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poller

    @property
    def link(self) -> Link:
        if not self._lost:
            return Link("attached", self._url)
        return Link("attached", self._url, max(0.0, self._clock() - self._updated_at), self._lost)

    def snapshot(self) -> Snapshot:
        self._looked_at = self._note_reader(self._looked_at)
        return self._known or self._empty

    def requests(self) -> tuple[RequestView, ...]:
        self._read_at = self._note_reader(self._read_at)
        return self._requests.all

    def fleet(self) -> Fleet:
        self._fleet_at = self._note_reader(self._fleet_at)
        return self._fleet

    def agents_everywhere(self) -> tuple[AgentView, ...]:
        self._agents_at = self._note_reader(self._agents_at)
        return self._agents

    def _note_reader(self, before: float) -> float:
        now = self._clock()
        if now - before > self._pace.lately_s:
            self._wake.set()
        return now

    async def detail(self, ticket: int) -> RequestDetail | None:
        return await self._call(lambda: self._client.request(ticket))

    async def apply(self, command: Command) -> None:
        anywhere = getattr(command, "agent", None) in self._elsewhere
        await self._call(lambda: self._client.command(command, self._name, anywhere=anywhere), "; nothing was changed")

    async def draft(self, values: Mapping[str, float]) -> Draft:
        return await self._call(lambda: self._client.draft(values))

    async def write(self, draft: Draft) -> None:
        await self._call(lambda: self._client.write(draft, self._name), "; nothing was written")

    async def _call(self, method: Callable[[], Awaitable[T]], nothing: str = "") -> T:
        """Call a method that changes something if `nothing` says that nothing was. Raises: Rejected."""
        if self._lost:
            raise Rejected(f"not connected to {self._url}: {self._lost}{nothing}")
        try:
            return await method()
        except ControlError as error:
            then = "; it isn't known whether it was done" if nothing and error.sent else nothing
            raise Rejected(f"not connected to {self._url}: {error}{then}") from error
        finally:
            if nothing:
                self._wake.set()  # to show the effect at once

    async def _poll_forever(self) -> None:
        pause_s = 0.0
        while True:
            self._wake.clear()
            try:
                await self._poll()
            except (ControlError, Rejected) as error:
                self._lost = str(error)
                pause_s = min(max(2 * pause_s, self._pace.again_s), self._pace.again_most_s)
                if self._client.renew_token():
                    pause_s = self._pace.again_s
                wait_s = pause_s
            else:
                self._lost, self._updated_at, pause_s = "", self._clock(), 0.0
                wait_s = self._pace.looked_at_s if self._lately(self._looked_at) else self._pace.unseen_s
            self.first_answer.set()
            await wait_up_to(self._wake, wait_s)

    async def _poll(self) -> None:
        known = self._known
        part = await self._client.world(self._run, None if known is None else known.at)
        try:
            merged = merge(known, part)
        except OutOfSync:
            part = await self._client.world()
            merged = merge(None, part)
        self._known = replace(merged, lines=tuple(own_line(line, self._name) for line in merged.lines))
        if self._run != part.run:
            self._requests.clear()
        self._run = part.run
        if self._lately(self._read_at):
            for _ in range(_PAGES_AT_ONCE):
                page = await self._client.requests(self._run, self._requests.revision)
                if page.run != self._run:
                    break  # the proxy was restarted; the next poll notices it
                self._requests.update(Requests(page.revision, page.oldest, page.changed))
                if len(page.changed) < REQUESTS_PAGE:
                    break

        if self._lately(self._fleet_at) and self._clock() >= self._fleet_due:
            self._fleet_due = self._clock() + self._pace.fleet_s
            self._fleet = await self._client.fleet()
        if self._lately(self._agents_at) and self._fleet.store:
            self._agents = (await self._client.fleet_agents()).agents
            self._elsewhere = elsewhere(self._agents, self._fleet)

    def _lately(self, at: float) -> bool:
        return self._clock() - at <= self._pace.lately_s


@contextlib.asynccontextmanager
async def attached(
    url: str, environ: Mapping[str, str], *, token_file: Path | None = None, pace: PollPace | None = None
) -> AsyncIterator[AttachedSource]:
    """Yield the proxy at this URL as a source; `link` says whether it answers.

    Raises: UsageError: the URL isn't valid, or no token for it is found.
    """
    place = parse_address(url)
    token = find_token(place, environ, token_file)
    async with (
        open_http(place) as http,
        AttachedSource(place.url, token, http, name=signature(environ), pace=pace) as source,
    ):
        await wait_up_to(source.first_answer, _FIRST_ANSWER_S)  # a later answer is shown when it comes
        yield source


def own_line(line: Line, name: str) -> Line:
    """Return a line about a command given here as a proxy in this process would write it."""
    return line if line.by != name else replace(line, tag="you", text=line.text.removesuffix(f", by {name}"))


def empty_snapshot(url: str, wall: float) -> Snapshot:
    return Snapshot(
        at=0.0,
        wall=wall,
        uptime_s=0.0,
        mode="serving",
        address=url,
        upstreams=(),
        lanes=(),
        slots=(),
        queue=(),
        queued=0,
        agents=(),
        lines=(),
        totals=Totals(),
    )

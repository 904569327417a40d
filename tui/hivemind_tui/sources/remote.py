"""A proxy that runs elsewhere, watched and steered over its control API as if it ran here.

One task asks for what is new, a few times a second while somebody looks, and joins it to what is known; the screen
reads that without waiting. A lost connection is told, tried again with growing pauses, and mended by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import platform
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx

from hivemind.control.client import ControlClient, ControlError, open_http
from hivemind.control.codec import OutOfSync, merge
from hivemind.control.commands import HERE, WHO_LENGTH
from hivemind.control.discovery import Token, find_token, parse_address
from hivemind.scheduler.commands import Command, Rejected
from hivemind.scheduler.types import Usage
from hivemind.settings.write import Draft
from hivemind.world.request_view import REQUESTS_KEPT, REQUESTS_PAGE, RequestDetail, Requests
from hivemind.world.snapshot import Line, Snapshot, Totals
from hivemind_tui.sources.base import Link
from hivemind_tui.sources.request_feed import RequestFeed

T = TypeVar("T")

_PAGES_AT_ONCE = REQUESTS_KEPT // REQUESTS_PAGE + 2
"""More change only while they are read, and the world mustn't wait for them."""
_FIRST_ANSWER_S = 0.5
"""The first picture waits so long for the world, that it needn't be drawn twice."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the proxy is asked, in seconds."""

    looked_at_s: float = 0.25
    """While somebody looks."""
    unseen_s: float = 2.0
    """While nobody does; still enough to notice that it is gone."""
    lately_s: float = 3.0
    """Somebody looks who did so in this time."""
    again_s: float = 0.1
    """After the first failure; each further pause is twice as long."""
    again_most_s: float = 2.0


class AttachedSource:
    """A :class:`~hivemind_tui.sources.base.Source` over HTTP. Enter it on the loop that reads it; leaving it
    ends nothing but itself. `name` signs its commands in the proxy's log."""

    def __init__(
        self,
        url: str,
        token: Token,
        http: httpx.AsyncClient,
        *,
        name: str = "attached",
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = ControlClient(url, token, http)
        self._url = url
        self._name = name
        self._pace = pace or Pace()
        self._clock = clock
        self._run = ""
        self._known: Snapshot | None = None
        self._nothing = _nothing_yet(url, wall())
        self._followed = RequestFeed()
        self._looked_at = self._heard_at = clock()
        self._read_at = -math.inf
        self._lost = "connecting"
        self._first_answer = asyncio.Event()
        self._wake = asyncio.Event()
        self._listener: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._listener = asyncio.create_task(self._listen(), name="listen to the proxy")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop to listen; the proxy goes on."""
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener

    async def first_answer(self) -> None:
        """Until the proxy was asked a first time, whatever came of it."""
        await self._first_answer.wait()

    # --- What is read --------------------------------------------------------------------------------------------

    @property
    def link(self) -> Link:
        """How it is doing."""
        if not self._lost:
            return Link("attached", self._url)
        return Link("attached", self._url, max(0.0, self._clock() - self._heard_at), self._lost)

    def snapshot(self) -> Snapshot:
        """The world when it was last heard of; one in which nothing has happened before that."""
        self._looked_at = self._noticed(self._looked_at)
        return self._known or self._nothing

    def requests(self, since: int) -> Requests:
        """As :meth:`~hivemind_tui.sources.base.Source.requests`. Several may ask, each with the revision it got.

        One whose revision is of an earlier run of the proxy learns that everything is forgotten, and begins at 0.
        """
        self._read_at = self._noticed(self._read_at)
        return self._followed.since(since)

    def _noticed(self, before: float) -> float:
        """Somebody looks, after a while perhaps. Returns when."""
        now = self._clock()
        if now - before > self._pace.lately_s:
            self._wake.set()
        return now

    # --- What is asked for ---------------------------------------------------------------------------------------

    async def detail(self, ticket: int) -> RequestDetail | None:
        """As :meth:`~hivemind_tui.sources.base.Source.detail`. Raises: Rejected: the proxy can't be asked."""
        return await self._answered(lambda: self._client.request(ticket))

    async def apply(self, command: Command, who: str) -> None:
        """Have a command carried out. Raises: Rejected."""
        signed = self._name if who == HERE else who
        await self._answered(lambda: self._client.command(command, signed), "; nothing was changed")

    async def draft(self, values: Mapping[str, float]) -> Draft:
        """What writing these knobs down would change in the proxy's settings file. Raises: Rejected."""
        return await self._answered(lambda: self._client.draft(values))

    async def write(self, draft: Draft) -> None:
        """Write it, where the proxy runs. Raises: Rejected."""
        await self._answered(lambda: self._client.write(draft, self._name), "; nothing was written")

    async def _answered(self, ask: Callable[[], Awaitable[T]], nothing: str = "") -> T:
        """Raises: Rejected: by the proxy, or because it can't be asked; then `nothing` says what that means."""
        if self._lost:
            raise Rejected(f"not connected to {self._url}: {self._lost}{nothing}")
        try:
            return await ask()
        except ControlError as error:
            then = "; it isn't known whether it was done" if nothing and error.sent else nothing
            raise Rejected(f"not connected to {self._url}: {error}{then}") from error
        finally:
            if nothing:
                self._wake.set()  # to see at once what came of it

    # --- Listening -----------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        pause_s = 0.0
        while True:
            self._wake.clear()
            try:
                await self._hear()
            except (ControlError, Rejected) as error:
                self._lost = str(error)
                pause_s = min(max(2 * pause_s, self._pace.again_s), self._pace.again_most_s)
                if self._client.renew_token():
                    pause_s = self._pace.again_s
                wait_s = pause_s
            else:
                self._lost, self._heard_at, pause_s = "", self._clock(), 0.0
                wait_s = self._pace.looked_at_s if self._lately(self._looked_at) else self._pace.unseen_s
            self._first_answer.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _hear(self) -> None:
        """Bring everything up to date. Raises: NoAnswer, Rejected."""
        known = self._known
        part = await self._client.world(self._run, None if known is None else known.at)
        try:
            heard = merge(known, part)
        except OutOfSync:
            part = await self._client.world()
            heard = merge(None, part)
        self._known = replace(heard, lines=tuple(_ours(line, self._name) for line in heard.lines))
        self._run = part.run
        if self._followed.run != part.run:
            self._followed.begin(part.run)
        if self._lately(self._read_at):
            for _ in range(_PAGES_AT_ONCE):
                if not self._followed.receive(await self._client.requests(self._run, self._followed.received)):
                    break

    def _lately(self, at: float) -> bool:
        return self._clock() - at <= self._pace.lately_s


@contextlib.asynccontextmanager
async def attached(
    url: str, environ: Mapping[str, str], *, token_file: Path | None = None, pace: Pace | None = None
) -> AsyncIterator[AttachedSource]:
    """The proxy at this URL, as something to watch and steer; whether it answers is told by `link`.

    Raises: UsageError: it isn't such a URL, or no token for it is found.
    """
    place = parse_address(url)
    token = find_token(place, environ, token_file)
    async with (
        open_http(place) as http,
        AttachedSource(place.url, token, http, name=_signature(environ), pace=pace) as source,
    ):
        with contextlib.suppress(TimeoutError):  # it shows by itself once the answer is there
            async with asyncio.timeout(_FIRST_ANSWER_S):
                await source.first_answer()
        yield source


def _ours(line: Line, name: str) -> Line:
    """What was done from here is told as it is where screen and proxy are one program."""
    signed = f", by {name}"
    if line.tag != "other" or not line.text.endswith(signed):
        return line
    return replace(line, tag="you", text=line.text.removesuffix(signed))


def _signature(environ: Mapping[str, str]) -> str:
    """Who sits here, for the log over there."""
    user = environ.get("USER") or environ.get("LOGNAME") or "attached"
    name = "".join(letter for letter in f"{user}@{platform.node()}" if letter.isprintable())
    return name[:WHO_LENGTH].strip("@ ") or "attached"


def _nothing_yet(url: str, wall: float) -> Snapshot:
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
        totals=Totals(0, 0, 0, 0, 0, 0, 0, 0, 0, Usage(), Usage()),
    )

"""What answers at an upstream of which nobody said so: recognised by what it replies.

A server on this machine or a private network is asked once, in the background, soon after its first answer, or when a
client left before that: without a key, in half a second, by a few GET requests whose replies say what it is. Nothing is
sent there before that: that it is there, and has no limits but those that it states, doesn't depend on it. A public
host is never asked; what it is can be told by the headers of its replies alone.

One that tells how many requests it has (:class:`~hivemind.providers.table.Load`) is asked for that every
:data:`LOAD_EVERY_S` while it has some of ours: what else it computes makes answers take longer, too. One that computes
in slots is asked once how many there are: what is beyond that only waits there, where no priority counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Coroutine
from contextlib import aclosing
from functools import partial
from typing import Any

from hivemind.providers.base import Headers
from hivemind.providers.known import loads_of, paths_asked, server_of
from hivemind.providers.profiles import GENERIC, LOCAL, PROFILES
from hivemind.providers.table import Load
from hivemind.proxy.engine import Engine
from hivemind.records import replace
from hivemind.scheduler.events import Abandoned, AnsweredWhole, FirstContent
from hivemind.settings import Settings
from hivemind.upstream.base import Upstream, UpstreamError, UpstreamRequest, UpstreamResponse
from hivemind.upstream.connect import open_upstream
from hivemind.upstream.origin import is_local
from hivemind.wire.call import Route

DELAY_S = 1.0
"""From its first answer: until then the agents have it for themselves."""
WITHIN_S = 0.5
"""For all that a server is asked, its name included."""
LOAD_EVERY_S = 2.0
_LOAD_WITHIN_S = 2.0
"""One that reads a long prompt answers between two pieces of it."""
_MODELS = "/v1/models"
"""Asked first, because nearly all tell by it what they are."""
_OF_A_SERVER = frozenset({401, 403, 404})
"""Statuses by which it may still be a model server: it wants a key for its models, or doesn't list them."""
_READ_MOST = 256 << 10
"""Bytes of an answer that are looked at; lists of models and of metrics are shorter."""


class ModelServers:
    """Looks at the upstreams whose server isn't known, and tells the engine what is there."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._ca_file = None if settings.ca_file is None else str(settings.ca_file)
        self._unasked: dict[str, Route] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def look_at(self, route: Route, *, ask: bool) -> None:
        """Find out what the upstream is; `ask` False: nothing may be sent there but the agents' requests."""
        profile = route.origin.profile
        if profile.anybodys:
            route.on_head = partial(self._read, route)
            if ask:
                self._unasked[route.origin.name] = route
            if ask and profile is GENERIC:
                self._begin(self._resolve(route))

    def answered(self, event: FirstContent | AnsweredWhole) -> None:
        """Note the content of an answer: what is there after the first one is asked soon."""
        self._ask_soon(event.lane, DELAY_S)

    def abandoned(self, event: Abandoned) -> None:
        """Note that a client left: its server is asked at once, since it may compute on, and what the client sends next
        would be computed beside that."""
        self._ask_soon(event.lane, 0.0)

    def _ask_soon(self, lane: str, delay_s: float) -> None:
        if self._unasked and (route := self._unasked.pop(lane.partition(":")[0], None)) is not None:
            self._begin(self._ask(route, delay_s))

    def _adopt(self, route: Route, name: str, slots: int = 0) -> None:
        """Go on with the profile of what turned out to answer at an upstream. It has so many slots; 0: that isn't
        known. As many requests wait there, so that no slot is ever empty; the rest waits here, in our order."""
        profile = PROFILES[name]
        if slots:
            profile = replace(profile, max_concurrency=2 * slots, grows=True)
        route.origin = replace(route.origin, profile=profile)
        route.lane = self._settings.lane_config(route.origin)
        self._engine.reconfigure(route.lane)

    async def aclose(self) -> None:
        """Ask no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None], name: str = "recognise a model server") -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _resolve(self, route: Route) -> None:
        """See whether its name leads to this machine or a private network."""
        if await _is_here(route.origin.host) and route.origin.profile is GENERIC:
            self._adopt(route, LOCAL.name)

    def _read(self, route: Route, status: int, headers: Headers) -> None:
        """Read the head of a reply; one that isn't an error and tells nothing is the last."""
        server = server_of(headers)
        if server is not None or status < 400:
            route.on_head = None
        if server is not None:
            self._adopt(route, server)
            if self._unasked.pop(route.origin.name, None) is not None:
                self._begin(self._watch(route, server), "load of a model server")

    async def _ask(self, route: Route, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        server = None
        with contextlib.suppress(TimeoutError, OSError, UpstreamError):
            async with asyncio.timeout(WITHIN_S):
                if await _is_here(route.origin.host):
                    async with aclosing(open_upstream(route.origin.url, ca_file=self._ca_file)) as upstream:
                        server = await _asked(upstream, route.origin.base_path)
        if server is not None:
            self._adopt(route, server)
            self._begin(self._watch(route, server), "load of a model server")

    async def _watch(self, route: Route, server: str) -> None:
        """Ask for the server's slots and, while requests are in flight there, for its load."""
        slots, loads = loads_of(server)
        name, (place, *others) = route.origin.name, loads or (None,)
        if place is None or not await _is_here(route.origin.host):
            return
        async with aclosing(open_upstream(route.origin.url, ca_file=self._ca_file)) as upstream:
            if slots is not None:
                with contextlib.suppress(TimeoutError, OSError, UpstreamError):
                    if number := await _told(upstream, route.origin.base_path, slots):
                        self._adopt(route, server, number)
            while place is not None:
                await asyncio.sleep(LOAD_EVERY_S)
                if not (before := self._engine.in_flight_at(name)):
                    continue
                with contextlib.suppress(TimeoutError, OSError, UpstreamError):
                    requests = await _told(upstream, route.origin.base_path, place)
                    if requests is None:
                        place = others.pop(0) if others else None
                        continue
                    self._engine.tell_others(name, max(0, requests - max(before, self._engine.in_flight_at(name))))


async def _is_here(host: str) -> bool:
    """Return whether all addresses of a host are this machine's or private; False where that isn't known."""
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return bool(addresses) and all(is_local(str(row[4][0])) for row in addresses)


async def _asked(upstream: Upstream, base_path: str) -> str | None:
    """Return the name of the model server that is there; None: it doesn't tell, or there is none.

    Raises: UpstreamError: it didn't answer.
    """
    for path in (_MODELS, *sorted(paths_asked() - {_MODELS})):
        response, body = await _get(upstream, base_path, path)
        if server := server_of(response.headers, path if response.status in (200, 405) else "", body):
            return server
        if path == _MODELS and not (response.status in _OF_A_SERVER or (response.status == 200 and b'"list"' in body)):
            return None
    return None


async def _told(upstream: Upstream, base_path: str, place: Load) -> int | None:
    """Return the number that a place tells; None: it tells none. Raises: TimeoutError, UpstreamError."""
    async with asyncio.timeout(_LOAD_WITHIN_S):
        response, body = await _get(upstream, base_path, place.path)
    return place.read(body.decode("utf-8", "replace")) if response.status == 200 else None


async def _get(upstream: Upstream, base_path: str, path: str) -> tuple[UpstreamResponse, bytes]:
    """Return a reply, and the beginning of its body. Raises: UpstreamError: there was none."""
    headers = [(b"accept", b"*/*"), (b"accept-encoding", b"identity")]
    response = await upstream.send(UpstreamRequest(b"GET", f"{base_path}{path}".encode(), headers))
    body = b""
    with contextlib.closing(response):
        while len(body) < _READ_MOST and (piece := await response.read()):
            body += piece
    return response, body

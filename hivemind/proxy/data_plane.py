"""The ASGI application that serves agents' requests, each from its head to its end.

Raw ASGI, because every millisecond here delays every agent.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from hivemind.journal.write.bodies import Bodies
from hivemind.proxy.access import AccessPolicy, is_preflight, preflight_headers, with_cors
from hivemind.proxy.asgi import Receive, Scope, Send, not_http
from hivemind.proxy.body_budget import BodyBudget
from hivemind.proxy.calls import TOKEN_HEADER, CallReader, proven_agent, shown_tokens
from hivemind.proxy.client_retries import ClientRetries
from hivemind.proxy.engine import Engine
from hivemind.proxy.exchange import Exchange
from hivemind.proxy.keepalive import KeepaliveTiming
from hivemind.proxy.response_writer import ResponseWriter, plain, run_until_disconnect
from hivemind.proxy.routing import Routes
from hivemind.proxy.step_runner import StepRunner
from hivemind.settings import Settings
from hivemind.settings.secrets import own_credentials
from hivemind.upstream.base import UpstreamError, UpstreamTimeout
from hivemind.wire.call import Call, scheduler_request
from hivemind.wire.claims import Claims
from hivemind.wire.headers import fields, for_client
from hivemind.wire.recent_heads import RecentHeads
from hivemind.wire.refusal import RequestRefused
from hivemind.wire.target import RequestPath, parse_path

Fields = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class LocalApp:
    """An application that the proxy serves itself, on the socket of the traffic."""

    serve: Callable[[Scope, RequestPath, Receive, Send], Awaitable[None]]
    admits: Callable[[RequestPath, Fields], bool]
    """Returns whether a request needs no agents' token."""
    deny: Callable[[RequestRefused, Scope, Receive, Send], Awaitable[None]]
    """Answers a request from a page or under a host name that may not use the proxy."""


class DataPlane:
    """Serves requests on one event loop: local applications first, everything else goes upstream.

    `local_app` finds the local application for a method and path, `on_call` gets every call before it is scheduled,
    `bodies` records requests and answers; `wall` is the time of day in seconds since the epoch.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        routes: Routes,
        claims: Claims,
        *,
        local_app: Callable[[str, RequestPath], LocalApp | None] = lambda method, place: None,
        on_call: Callable[[Call], object] | None = None,
        bodies: Bodies | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        self._claims = claims
        self._local_app = local_app
        self._on_call = on_call
        self._bodies = bodies
        self._wall = wall
        self._token = settings.token.get_secret_value().encode() if settings.token else None
        self._access = AccessPolicy.of(settings)
        self._body_budget = BodyBudget(settings.max_body_mb, settings.max_bodies_mb)
        self._keepalive = KeepaliveTiming(settings.keepalive_after_s, settings.keepalive_every_s)
        self._steps = StepRunner()
        self._calls = CallReader(routes, claims, own_credentials(settings), self._steps)
        self._retries = ClientRetries()
        self.recent_heads = RecentHeads()
        self._active = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Wait until no request is being answered."""
        await self._idle.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await not_http(scope, receive, send)
            return
        headers, place = fields(scope["headers"]), parse_path(scope["raw_path"])
        local = self._local_app(scope["method"], place)
        denied = self._access.denial(headers, local is not None)
        if denied is None and b"origin" in headers and self._access.allows_origin(headers[b"origin"]):
            send = with_cors(headers[b"origin"], send)
        try:
            await self._serve(scope, headers, place, local, denied, receive, send)
        except RequestRefused as refusal:
            answer_headers, body = refusal.response(place.path)
            await ResponseWriter(send).answer(refusal.status, answer_headers, body)

    async def _serve(
        self,
        scope: Scope,
        headers: Fields,
        place: RequestPath,
        local: LocalApp | None,
        denied: RequestRefused | None,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a request, or raise RequestRefused."""
        if b"websocket" in headers.get(b"upgrade", b"").lower():
            # Clients that try a WebSocket first fall back to POST at once on this status, and only on this one.
            await plain(send, 426, b"this proxy speaks HTTP, not WebSocket\n", (b"upgrade", b"HTTP/1.1"))
        elif denied is not None and local is not None:
            await local.deny(denied, scope, receive, send)
        elif denied is not None:
            raise denied
        elif place.flaw:
            raise RequestRefused(400, place.flaw)
        elif b"origin" in headers and is_preflight(scope["method"], headers):
            await ResponseWriter(send).answer(204, preflight_headers(headers), b"")
        elif not (self._is_authorized(headers, place) or (local is not None and local.admits(place, headers))):
            raise RequestRefused(401, f"this proxy wants {TOKEN_HEADER.decode()}", "unauthorized")
        elif local is not None:
            await local.serve(scope, place, receive, send)
        elif scope["method"] == "HEAD" and place.path in ("/", "/api/hello"):
            await plain(send, 200, b"")
        else:
            await self._forward(scope, headers, place, receive, send)

    def _is_authorized(self, headers: Fields, place: RequestPath) -> bool:
        token = self._token
        if token is None or any(hmac.compare_digest(shown, token) for shown in shown_tokens(headers, place)):
            return True
        return proven_agent(self._claims, headers, place) is not None

    async def _forward(self, scope: Scope, headers: Fields, place: RequestPath, receive: Receive, send: Send) -> None:
        body = await self._body_budget.read(receive, headers.get(b"content-length"))
        if body is None:
            return
        try:
            call = await self._calls.read(scope, headers, place, body)
            # Counted only now: draining doesn't wait for clients that are still sending a request.
            self._active += 1
            self._idle.clear()
            try:
                await self._answer(call, scope, receive, send)
            finally:
                self._active -= 1
                if not self._active:
                    self._idle.set()
        finally:
            self._body_budget.release(body)

    async def _answer(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        if call.free:
            await run_until_disconnect(relay(call, ResponseWriter(send)), scope, receive)
            return
        original = self._retries.original(call, self._engine.now())
        if original is None:
            await self._schedule(call, scope, receive, send)
        else:
            await run_until_disconnect(original.join(send), scope, receive)

    async def _schedule(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        engine = self._engine
        engine.open_lane(call.lane, call.route.lane)
        if self._on_call is not None:
            self._on_call(call)
        ticket = engine.arrive(scheduler_request(call))
        exchange = Exchange(
            call,
            ticket,
            ResponseWriter(send),
            engine,
            self._wall,
            self._keepalive,
            self.recent_heads.add(ticket.id, scope),
            self._steps,
            None if self._bodies is None else self._bodies.asked(ticket.id, call, scope["headers"]),
        )
        if ticket.waiting:
            self._retries.add(exchange)
        try:
            await run_until_disconnect(exchange.run(), scope, receive, exchange.writer)
        finally:
            self._retries.discard(exchange)


async def relay(call: Call, writer: ResponseWriter) -> None:
    """Send a call once and pass the answer on byte for byte; a truncated one is cut off where it is."""
    try:
        response = await call.route.upstream.send(
            call.method, call.target, call.headers, call.body, retry_stale=call.method in (b"GET", b"HEAD")
        )
    except UpstreamError as error:
        status = 504 if isinstance(error, UpstreamTimeout) else 502
        headers, body = call.dialect.refusal(status, "upstream_unreachable", f"HiveMind: {error}", None)
        await writer.answer(status, headers, body)
        return
    try:
        await writer.start(response.status, for_client(response.headers))
        while data := await response.read():
            await writer.write(data)
        await writer.finish()
    except UpstreamError:
        return
    finally:
        response.close()

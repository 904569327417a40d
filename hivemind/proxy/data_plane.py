"""The ASGI application that serves agents' requests, each from its head to its end.

Raw ASGI, because every millisecond here delays every agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial

from msgspec import Struct

from hivemind.journal.write.bodies import Bodies
from hivemind.providers.clients import client_of, without_websocket
from hivemind.proxy.access import AccessPolicy, is_preflight, preflight_headers, with_cors
from hivemind.proxy.asgi import Receive, Scope, Send, StepRunner, not_http
from hivemind.proxy.body_budget import BodyBudget
from hivemind.proxy.calls import TOKEN_HEADER, CallReader, is_short, proven_agent, shape_of, shown_tokens
from hivemind.proxy.cycle import EXTENSION, Cycle
from hivemind.proxy.engine import Engine
from hivemind.proxy.exchange import Exchange, Shared
from hivemind.proxy.file_limit import ConnectionLimit
from hivemind.proxy.polls import Poll
from hivemind.proxy.relay import Relay, is_streamed, upload
from hivemind.proxy.response_writer import (
    AsgiDelivery,
    Delivery,
    Departure,
    ResponseWriter,
    noop,
    plain,
    run_until_disconnect,
)
from hivemind.proxy.routing import Routes
from hivemind.proxy.streaming import KeepaliveTiming, ProgressReporter
from hivemind.redaction.values import is_secret
from hivemind.scheduler.ticket import FINAL_STATUS
from hivemind.settings import Settings
from hivemind.upstream.base import BodyStream
from hivemind.wire.call import Call, CallHead, scheduler_request
from hivemind.wire.fleet_lanes import FleetLanes
from hivemind.wire.identity import Claims
from hivemind.wire.recent_heads import RecentHeads, size_of_head
from hivemind.wire.request_head import ALLOW, RequestPath, RequestRefused, fields, parse_path, value

Fields = Mapping[bytes, bytes]

PARALLEL_WITHIN_S = 1.0
"""An equal request of the same agent within this time counts as parallel: a client that times out waits longer, and a
program on a busy machine needs some time to send parallel requests."""
KEPT_S = 300.0
"""How long a request that wasn't sent is remembered: longer than any measured client waits between two tries."""
UNSENT_KEPT = 2000
EQUAL_KEPT = 64  # of them with equal bodies
_END = 4096
"""Bytes at each end of a body by which it is recognised, so that a long one costs no more."""
ASTERISK = b"*"
"""The target of an OPTIONS request for the server as a whole (RFC 9110, 9.3.7)."""
_BATCHED_FROM = 4
"""So many requests without a task make it likely that several are served in one turn of the event loop. A stream's
events rarely come together, and shouldn't wait."""
MAX_CACHED_HEADS = 512
MAX_CACHED_HEAD = 16 << 10
"""Bytes in memory of the largest head that is cached."""


class LocalApp(Struct, frozen=True):
    """An application that the proxy serves itself, on the socket of the traffic."""

    serve: Callable[[Scope, RequestPath, Receive, Send], Awaitable[None]]
    admits: Callable[[RequestPath, Fields], bool]
    """Returns whether a request needs no agents' token."""
    deny: Callable[[RequestRefused, Scope, Receive, Send], Awaitable[None]]
    """Answers a request that is refused by its head, as one from a page that may not use the proxy."""


class Head(Struct):
    """What is known of a request before its body is read."""

    fields: Fields
    """The first value of each header but the body's length."""
    place: RequestPath
    local: LocalApp | None
    """The application of our own that answers it."""
    denied: RequestRefused | None
    allowed_origin: bytes | None
    """The origin of the page that sent it, where a setting allows that one."""
    tokens: tuple[bytes, ...]
    """Tokens for this proxy that it shows."""
    size: int
    """Bytes that it takes in memory, about."""
    direct: bool
    """The request is for an upstream, whatever else holds."""
    call: CallHead | None = None
    """None until it is to be sent upstream."""


class HeadCache:
    """The heads of the newest requests, with what follows: route, client, credentials, lane, the head for upstream.

    A client sends the same one again and again, but for the body's length. One that differs in each request, as by a
    trace id, is read as usual.
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[object, ...], Head] = {}

    def find(self, scope: Scope) -> Head | None:
        """Return the head of a request; None where it wasn't read lately."""
        return self._heads.get(_key(scope))

    def add(self, scope: Scope, head: Head) -> None:
        """Keep a head, unless it is large."""
        if head.size > MAX_CACHED_HEAD:
            return
        if len(self._heads) >= MAX_CACHED_HEADS:
            del self._heads[next(iter(self._heads))]
        self._heads[_key(scope)] = head


def _key(scope: Scope) -> tuple[object, ...]:
    headers = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
    return (scope["method"], scope["raw_path"], scope["query_string"], *headers)


class DataPlane:
    """Serves requests on one event loop: local applications first, everything else goes upstream.

    `local_app` finds the local application for a method and path, `on_call` gets every call before it is scheduled,
    `bodies` records requests and answers; `wall` is the time of day in seconds since the epoch; `fleet_lanes` keeps
    what the fleet calls the lanes.
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
        fleet_lanes: FleetLanes | None = None,
    ) -> None:
        self._engine = engine
        self._claims = claims
        self._local_app = local_app
        self._on_call = on_call
        self._bodies = bodies
        self._token = settings.token.reveal().encode() if settings.token else None
        self._access = AccessPolicy.of(settings)
        self.connection_limit = ConnectionLimit(settings.max_connections)
        self.notice = engine.notice
        self._body_budget = BodyBudget(settings.max_body_mb, settings.max_bodies_mb)
        keepalive = KeepaliveTiming(settings.keepalive_after_s, settings.keepalive_every_s)
        progress = ProgressReporter(engine.progress)
        self._shared = Shared(
            engine,
            keepalive,
            StepRunner(),
            wall,
            progress,
            self._body_budget,
            self._uncounted,
            self._go_on,
            self._served_directly,
        )
        self._calls = CallReader(
            routes,
            claims,
            settings.own_credentials(),
            self._shared.steps,
            fleet_lanes,
            engine.notice,
            asks_usage=settings.stream_usage,
        )
        self._retries = ClientRetries()
        self._heads = HeadCache()
        self.recent_heads = RecentHeads()
        self._active = 0
        self._direct = 0
        """Requests that are served without a task."""
        self.outbox = routes.outbox
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def body_budget(self) -> BodyBudget:
        """Counts the bodies of requests."""
        return self._body_budget

    @property
    def answering(self) -> int:
        """Number of requests that are being answered."""
        return self._active

    @property
    def direct(self) -> int:
        """Number of requests of these that are served without a task."""
        return self._direct

    async def idle(self) -> None:
        """Wait until no request is being answered."""
        await self._idle.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await not_http(scope, receive, send)
            return
        head = self._head(scope)
        client: Delivery | None = scope.get("extensions", {}).get(EXTENSION)
        if head.allowed_origin is not None:
            client = AsgiDelivery(receive, with_cors(head.allowed_origin, send))
        elif client is None:
            client = AsgiDelivery(receive, send)
        try:
            await self._serve(scope, head, client)
        except RequestRefused as refusal:
            answer_headers, body = refusal.response(head.place.path, client_of(scope["headers"]).try_again)
            await ResponseWriter(client).answer(refusal.status, answer_headers, body)

    def _head(self, scope: Scope) -> Head:
        """Return the head of a request, read unless it came lately."""
        head = self._heads.find(scope)
        if head is None:
            head = self._read_head(scope)
            if head.denied is None:
                self._heads.add(scope, head)
        return head

    def _read_head(self, scope: Scope) -> Head:
        headers, place = fields(scope["headers"]), parse_path(scope["raw_path"])
        headers.pop(b"content-length", None)  # each request has its own
        local = self._local_app(scope["method"], place)
        denied = self._access.denial(headers, local is not None)
        origin = headers.get(b"origin")
        allowed = origin if denied is None and origin is not None and self._access.allows_origin(origin) else None
        if denied is None and place.flaw and scope["raw_path"] != ASTERISK:
            denied = RequestRefused(400, place.flaw)
        direct = local is None and denied is None and allowed is None
        if b"upgrade" in headers or scope["method"] in ("HEAD", "OPTIONS"):
            direct = False
        return Head(headers, place, local, denied, allowed, shown_tokens(headers, place), size_of_head(scope), direct)

    async def _serve(self, scope: Scope, head: Head, client: Delivery) -> None:
        """Answer a request, or raise RequestRefused."""
        headers, local = head.fields, head.local
        if b"websocket" in headers.get(b"upgrade", b"").lower():
            # Clients that try a WebSocket first fall back to POST at once on this status, and only on this one.
            text = without_websocket(head.place.path)
            self._engine.notice(f"a WebSocket was declined (426) at {shape_of(head.place.path)}: {text}")
            await asyncio.sleep(0.001)  # what writes the log is a thread: it has the line before the client ends
            told = f"this proxy speaks HTTP, not WebSocket: {text}\n".encode()
            await plain(client, 426, told, (b"upgrade", b"HTTP/1.1"))
        elif head.denied is not None:
            if local is None:
                raise head.denied
            await local.deny(head.denied, scope, client.receive, client.send)
        elif scope["raw_path"] == ASTERISK:
            await ResponseWriter(client).answer(204, [ALLOW], b"")
        elif b"origin" in headers and is_preflight(scope["method"], headers):
            await ResponseWriter(client).answer(204, preflight_headers(headers), b"")
        elif not (self._is_authorized(head.tokens) or (local is not None and local.admits(head.place, headers))):
            raise RequestRefused(401, f"this proxy wants {TOKEN_HEADER.decode()}", "unauthorized")
        elif local is not None:
            await local.serve(scope, head.place, client.receive, client.send)
        elif scope["method"] == "HEAD" and head.place.path in ("/", "/api/hello"):
            await plain(client, 200, b"")
        else:
            await self._forward(scope, head, client)

    def _is_authorized(self, tokens: tuple[bytes, ...]) -> bool:
        own = self._token
        if own is None or any(hmac.compare_digest(token, own) for token in tokens):
            return True
        return proven_agent(self._claims, tokens) is not None

    async def _forward(self, scope: Scope, head: Head, client: Delivery) -> None:
        length = value(scope["headers"], b"content-length")
        # Only on a connection of our own is the client's leaving noticed without reading its body.
        if isinstance(client, Cycle) and client.more_body and is_streamed(self._call_head(scope, head), length):
            call = await self._calls.read(self._call_head(scope, head), b"", head.tokens)
            self._count()
            try:
                await self._relay(call, client, upload(client.receive, length))
            finally:
                self._discount()
            return
        body = await self._body_budget.read(client.receive, length)
        if body is None:
            return
        try:
            call = await self._calls.read(self._call_head(scope, head), body, head.tokens)
            self._count()
            try:
                if call.free:
                    await self._relay(call, client)
                elif (original := self._retries.original(call, self._engine.now())) is not None:
                    await run_until_disconnect(original.join(client), client)
                else:
                    await self._run(self._exchange(call, head, scope, client))
            finally:
                self._discount()
        finally:
            self._body_budget.release(body)

    async def _relay(self, call: Call, client: Delivery, stream: BodyStream | None = None) -> None:
        poll = partial(Poll, call, engine=self._engine, steps=self._shared.steps)
        relay = Relay(call, ResponseWriter(client), self._engine, self._shared.wall, poll, stream)
        await run_until_disconnect(relay.run(), client)

    def _call_head(self, scope: Scope, head: Head) -> CallHead:
        """Return what the head of a request for an upstream says. Raises: RequestRefused."""
        if head.call is None:
            head.call = self._calls.head(scope, head.fields, head.place)
        return head.call

    def _count(self) -> None:
        """Count a request that is being answered; not before, because draining doesn't wait for clients that are still
        sending one."""
        if not self._active:
            self._idle.clear()
        self._active += 1

    def _discount(self) -> None:
        self._active -= 1
        if not self._active:
            self._idle.set()

    @contextlib.contextmanager
    def _uncounted(self) -> Iterator[None]:
        self._discount()
        try:
            yield
        finally:
            self._count()

    def _exchange(self, call: Call, head: Head, scope: Scope, client: Delivery) -> Exchange:
        """Have a call scheduled, and its head kept."""
        engine = self._engine
        engine.open_lane(call.head.lane, call.head.route.lane)
        if self._on_call is not None:
            self._on_call(call)
        waited_s = self._retries.waited_s(call, engine.now()) if self._retries.unsent else 0.0
        ticket = engine.arrive(scheduler_request(call, waited_s))
        if call.head.priority is not None and (asked := call.identity.priority) is not None:
            self._claims.check_heeded(ticket.agent.name, asked, ticket.priority)
        heads = self.recent_heads.add(ticket.id, scope, head.size)
        heard = None if self._bodies is None else self._bodies.asked(ticket.id, call, scope["headers"])
        return Exchange(call, ticket, client, heads, self._shared, heard)

    async def _run(self, exchange: Exchange, *, directly: bool = False) -> None:
        """Serve a request to its end, or until all its clients have left; `directly`: it was served without a task."""
        if exchange.ticket.waiting:
            self._retries.add(exchange)
        departure = _ExchangeDeparture(exchange=exchange, plane=self)
        exchange.writer.on_client_gone = departure.all_left
        stop_watching = exchange.client.watch(departure.left)
        try:
            await exchange.run()
        except asyncio.CancelledError:
            if not departure.excuses():
                raise
        finally:
            exchange.writer.on_client_gone = noop  # it knows the exchange, whose body is to be freed at once
            stop_watching()
            if exchange in self._retries.left:
                self._count()
            self._retries.discard(exchange)
            self._retries.note(exchange, self._engine.now())
            if directly:
                self._release(exchange.call)

    def note_left(self, exchange: Exchange) -> None:
        """Note that an answer is computed which no client waits for."""
        self._retries.left.add(exchange)
        self._discount()

    # --- Without a task -------------------------------------------------------------------------------------------

    def serve_whole(self, cycle: Cycle) -> bool:
        """Serve a request that has come whole, if it goes upstream and needs no long reading. Return whether it is
        served; else nothing is done."""
        head = cycle.remembered
        if not isinstance(head, Head):
            head = self._head(cycle.scope)
        if not head.direct or self._bodies is not None or not self._is_authorized(head.tokens):
            return False
        body = bytes(cycle.body)
        try:
            call_head = head.call or self._call_head(cycle.scope, head)
            if not is_short(call_head, body):
                return False
            call = self._calls.read_short(call_head, body, head.tokens)
            if call_head.free and call.free:
                return False
            retries = self._retries
            if (retries.waiting or retries.left) and retries.original(call, self._engine.now()):
                return False
            self._body_budget.take(body)
        except RequestRefused:
            return False
        cycle.take_body()
        cycle.remembered = head
        self._count()
        exchange = self._exchange(call, head, cycle.scope, cycle)
        self._count_direct(1)
        exchange.begin(cycle)
        return True

    def _count_direct(self, more: int) -> None:
        self._direct += more
        self.outbox.batches = self._engine.batches = self._direct >= _BATCHED_FROM

    def _go_on(self, exchange: Exchange, cycle: Cycle) -> None:
        self._count_direct(-1)
        cycle.run_in_task(partial(self._run, exchange, directly=True))

    def _served_directly(self, exchange: Exchange) -> None:
        self._count_direct(-1)
        self._release(exchange.call)

    def _release(self, call: Call) -> None:
        self._body_budget.release(call.body)
        self._discount()


class _ExchangeDeparture(Departure, kw_only=True):
    exchange: Exchange
    plane: DataPlane

    def left(self) -> None:
        self.exchange.writer.remove(self.exchange.client)

    def all_left(self) -> None:
        if self.exchange.leave(self.cancel):
            self.plane.note_left(self.exchange)


class ClientRetries:
    """Exchanges that wait for a slot: a client that gives up and sends the same request again joins the first.

    Queued as a request of its own, the retry would be paid for twice. But equal bytes at the same moment may also be
    intended: several samples of one prompt. So a request only counts as a retry when the client says so
    (`x-stainless-retry-count`), or when an agent that is known by more than its credential repeats it after a while.

    Where the first is over, because it was refused or its client left before it was sent, the next equal request of its
    agent is as old as the first: else one that is refused again and again would never be overdue. One that a used-up
    long window refused keeps its place until that is whole again.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, list[Exchange]] = {}
        """By agent."""
        self.left: set[Exchange] = set()
        """Those whose client left while the answer is computed, which nothing stops."""
        self.unsent: dict[int, tuple[tuple[float, ...], float]] = {}
        """By what tells equal requests: since when each waited that wasn't sent, and when the last of them ended."""
        self._noted_at = -math.inf

    def add(self, exchange: Exchange) -> None:
        """Add an exchange that waits."""
        self.waiting.setdefault(exchange.call.identity.agent, []).append(exchange)

    def discard(self, exchange: Exchange) -> None:
        """Remove an exchange that is over."""
        self.left.discard(exchange)
        agent = exchange.call.identity.agent
        waiting = self.waiting.get(agent, [])
        if exchange in waiting:
            waiting.remove(exchange)
        if not waiting:
            self.waiting.pop(agent, None)

    def note(self, exchange: Exchange, now: float) -> None:
        """Remember since when a request waited that is over, if it may come again."""
        ticket = exchange.ticket
        refusal = ticket.refusal
        kept_until = ticket.agent.kept_until  # it may ask again once a long window is whole again
        if kept_until <= now and (ticket.attempts if refusal is None else refusal.status == FINAL_STATUS):
            return
        unsent, key = self.unsent, _alike(exchange.call)
        before, _ = unsent.pop(key, ((), now))
        since = ticket.arrived_at - ticket.request.waited_s
        self._noted_at = max(now, kept_until)
        unsent[key] = (*before, since)[-EQUAL_KEPT:], self._noted_at
        while len(unsent) > UNSENT_KEPT:
            del unsent[next(iter(unsent))]

    def waited_s(self, call: Call, now: float) -> float:
        """Return how long earlier tries of this call waited, the time between them included, and forget the first."""
        if now > self._noted_at + KEPT_S:
            self.unsent.clear()
            return 0.0
        key = _alike(call)
        since, ended_at = self.unsent.pop(key, ((now,), now))
        if since[1:]:
            self.unsent[key] = since[1:], ended_at
        return now - since[0] if now <= ended_at + KEPT_S else 0.0

    def original(self, call: Call, now: float) -> Exchange | None:
        """Return the waiting exchange that this call retries, or one whose client has left and whose answer, to the
        same bytes, is still computed."""
        counted, agent = call.head.client.retry_count, call.identity.agent
        for each in self.left:
            begun = each.ticket.content_started  # some of it went to the client that left
            if each.left and not begun and each.call.identity.agent == agent and _same(each.call, call):
                return each
        if counted == 0 or (counted is None and not call.identity.named):
            return None  # the common case, decided before thousands of waiting exchanges are compared
        due = call.head.deadline  # another one is a request of its own, which may have to go sooner
        alike = [
            each for each in self.waiting.get(agent, ()) if each.call.head.deadline == due and _same(each.call, call)
        ]
        if not counted and alike and max(each.ticket.arrived_at for each in alike) > now - PARALLEL_WITHIN_S:
            return None  # one more parallel request
        return next((each for each in alike if each.ticket.waiting), None)


def _same(one: Call, other: Call) -> bool:
    if (one.head.lane, one.head.method, one.head.target) != (other.head.lane, other.head.method, other.head.target):
        return False
    # A lane may be shared by several credentials; none may see the answer to another one.
    return one.body == other.body and _credentials(one) == _credentials(other)


def _alike(call: Call) -> int:
    """Return a number that equal requests of an agent have in common; of a long body both ends and the length count."""
    head, body = call.head, call.body
    return hash((call.identity.agent, head.lane, head.method, head.target, len(body), body[:_END], body[-_END:]))


def _credentials(call: Call) -> list[tuple[bytes, bytes]]:
    return [pair for pair in call.head.headers if is_secret(pair[0].decode("latin-1"))]

"""The ASGI application: takes requests apart, finds out who asks and where to, and sees each one through.

Raw ASGI, because every millisecond here is every agent's; Starlette serves what isn't hot.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import platform
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hivemind import __version__, agent_names
from hivemind.api_types import (
    About,
    BudgetsPart,
    Claim,
    LeavePlace,
    PlaceGiven,
    RunUsage,
    TaskState,
    WantPlace,
    WantTask,
)
from hivemind.control.app import control_app
from hivemind.control.guard import guards_itself, is_own, may_scrape
from hivemind.control.replies import failure
from hivemind.host.budget_report import books
from hivemind.host.checkpointing import Keeper, keeper_of
from hivemind.host.journal import begin_recording, bodies_for, never_begun
from hivemind.host.pricing import Pricing
from hivemind.host.processes import Processes
from hivemind.journal.write.bodies import Bodies
from hivemind.journal.write.recorder import Recorder
from hivemind.prices import Prices
from hivemind.providers.base import Dialect
from hivemind.providers.clients import client_of
from hivemind.providers.detect import dialect_for
from hivemind.providers.free import METHOD_OVERRIDES, is_free
from hivemind.providers.request_body import SHORT, facts_in_steps
from hivemind.proxy.access import Admission, Unwelcome, own_names
from hivemind.proxy.asgi import not_http, plain
from hivemind.proxy.body_budget import BodyBudget, BodyRefused
from hivemind.proxy.client_retries import Resends
from hivemind.proxy.cors import is_preflight, permission, shared_with
from hivemind.proxy.disconnect import listen, watch
from hivemind.proxy.engine import Engine
from hivemind.proxy.exchange import Exchange, Keepalive
from hivemind.proxy.relay import relay
from hivemind.proxy.response_writer import Audience, Receive, Send
from hivemind.proxy.routing import open_routes
from hivemind.proxy.step_runner import Turns
from hivemind.proxy.unknown_paths import UnknownPaths
from hivemind.redaction.forms import text_finder
from hivemind.redaction.values import credentials_in
from hivemind.scheduler.commands import Command
from hivemind.settings import Settings
from hivemind.settings.secrets import own_credentials
from hivemind.store.checkpoints import folder_in
from hivemind.store.store import Store
from hivemind.store.token_file import Key
from hivemind.tools.http import ToolsEndpoint, is_tools_path
from hivemind.wire.call import Call, described, request_of
from hivemind.wire.claims import Claims
from hivemind.wire.headers import fields, for_upstream
from hivemind.wire.identity import Address, BadIdentity, address, claimed_name, identify, lane_credential
from hivemind.wire.masking import with_heads
from hivemind.wire.recent_heads import Remembered
from hivemind.world.request_view import RequestDetail, Requests
from hivemind.world.snapshot import Line, Snapshot
from hivemind.world.world import World

if TYPE_CHECKING:
    import httpx

_log = logging.getLogger(__name__)

Scope = Mapping[str, Any]
Fields = Mapping[bytes, bytes]

TOKEN_HEADER = b"x-hivemind-token"


class Proxy:
    """One proxy: its settings, its upstreams, its scheduler. Use it on one event loop: `start`, serve, `aclose`.

    `transports` replaces the network for the upstreams it names; `wall` is the time of day in seconds since the epoch;
    without `prices` no request has a cost.

    Raises: UsageError, ValueError: with one line, when the settings name no upstream or one that can't be opened.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        transports: Mapping[str, httpx.AsyncBaseTransport] | None = None,
        rng: random.Random | None = None,
        wall: Callable[[], float] = time.time,
        prices: Prices | None = None,
    ) -> None:
        self.settings = settings
        self.address = ""
        """Base URL that agents use; set by whoever serves it."""
        self.tell: Callable[[Line], object] | None = None
        """Called with each line of the event log; set it before :meth:`start`."""
        self.control_key: Key | None = None
        """Opens the control API; set by whoever serves it."""
        self.settings_file: Path | None = None
        """Where knobs may be written down; set by whoever knows it."""
        self.store: Store | None = None
        """Where usage, decisions and tasks are kept; set by whoever serves it, before :meth:`start`."""
        self.keep_in: Path | None = None
        """Folder of the checkpoints: beside the store, unless somebody says otherwise before :meth:`start`."""
        self.record_in: Path | None = None
        """Folder of the journals; set by whoever serves it, before :meth:`start`. None: nothing is recorded."""
        self.journal: Recorder | None = None
        self._bodies: Bodies | None = None
        self._keeper: Keeper | None = None
        self._routes = open_routes(settings, transports)
        self._rng = rng or random.Random()
        self._wall = wall
        self._keepalive = Keepalive(settings.keepalive_after_s, settings.keepalive_every_s)
        self._body_budget = BodyBudget(settings.max_body_mb, settings.max_bodies_mb)
        self._token = settings.token.get_secret_value().encode() if settings.token else None
        self._secrets = own_credentials(settings)
        self._turns = Turns()
        names = own_names(settings.host, platform.node())
        self._admission = Admission((*names, *settings.allowed_hosts), settings.allowed_origins)
        self._resends = Resends()
        self._remembered = Remembered()
        self._unknown_paths = UnknownPaths()
        self._prices = prices
        self._pricing: Pricing | None = None
        self._active = 0
        self._idle: asyncio.Event | None = None
        self._engine: Engine | None = None
        self._claims: Claims | None = None
        self._processes: Processes | None = None
        self._control = control_app(self)
        self._tools = ToolsEndpoint(self, enabled=settings.mcp.enabled)

    async def start(self) -> None:
        """Begin to schedule, on the running loop."""
        text_finder()  # compiled now, since that takes longer than a request may be held up
        self._idle = asyncio.Event()
        self._idle.set()
        self._engine = Engine(self.settings.scheduler_config(), self._rng, self._world, self._wall, self.store)
        if self.record_in is not None:
            self.journal = begin_recording(
                self.record_in, self.settings, self._engine, self.address, self._routes.names, self._wall
            )
            self._bodies = bodies_for(self.journal, self.settings, self._engine)
        self._claims = Claims(self._engine.names, self.settings.agents, self._token)
        self._processes = Processes(self._engine, self.settings.max_agents, self._claims)
        if self.keep_in is None and self.store is not None:
            self.keep_in = folder_in(self.store.path.parent)
        self._keeper = keeper_of(self.settings, self.keep_in, self._engine, self._processes, self._wall)
        if self._prices is not None:
            self._pricing = Pricing(self._engine, self._prices)
            if self._engine.counts_dollars:
                await self._pricing.known()  # before anything is used that nobody could count

    async def drain(self, timeout_s: float) -> None:
        """Grant nothing more, and wait until what is in flight is done, but no longer than this."""
        assert self._idle is not None
        self.engine.drain()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        await self._tools.aclose()

    async def aclose(self) -> None:
        """Let go of timers and upstream connections."""
        await self._tools.aclose()
        if self._keeper is not None:
            await self._keeper.aclose()
        if self._pricing is not None:
            await self._pricing.aclose()
        self.processes.close()
        self.engine.close()
        if self.journal is not None:
            self.engine.record = None
            await self.journal.aclose(self.engine.now())
        await self._routes.aclose()

    def snapshot(self) -> Snapshot:
        """The world at this moment."""
        self.engine.world.address = self.address
        snapshot = self.engine.snapshot()
        if self.journal is not None:
            return replace(snapshot, recording=self.journal.view())
        return snapshot if self.record_in is None else replace(snapshot, recording=never_begun(self.record_in))

    def health(self) -> tuple[str, float]:
        """What it is doing, as in :attr:`Snapshot.mode`, and for how many seconds it has been up; cheap."""
        return self.engine.health()

    def requests(self, since: int) -> Requests:
        """What changed among the requests after that revision (0: all there are), a page at a time."""
        return self.engine.requests(since)

    def detail(self, ticket: int) -> RequestDetail | None:
        """Everything there is to say about a request, credentials masked; None where it is forgotten."""
        detail, heads = self.engine.detail(ticket), self._remembered.find(ticket)
        if detail is None or heads is None:
            return detail
        return with_heads(detail, heads, self._secrets)

    def apply(self, command: Command, who: str = "you") -> None:
        """Carry out an operator's command.

        Raises: Rejected: it can't be carried out; the text says why.
        """
        self.engine.apply(command, who)

    async def settled(self) -> None:
        """Until what was ordered so far would survive a crash."""
        await self.engine.settled()

    def about(self) -> About:
        """The proxy, for whoever is to use it."""
        settings, key = self.settings, self.control_key
        return About(
            "" if key is None else key.run,
            __version__,
            self.address,
            self._routes.names,
            self._token is not None,
            settings.max_agents,
            settings.mcp.read_only,
            settings.mcp.names,
            None if self.store is None else str(self.store.path.parent),
        )

    def tasks(self, batch: str | None) -> tuple[TaskState, ...]:
        """All tasks of a batch, or (None) all."""
        return self.processes.tasks(batch)

    def spelling(self, name: str) -> str:
        """The name under which an agent is known, of whatever spelling of it; the same where it isn't."""
        return self.engine.spelling(name)

    def budgets(self, agent: str | None) -> BudgetsPart:
        """What one agent, or (None) each at hand, used and may use. Raises: Rejected."""
        agent = None if agent is None else self.spelling(agent)
        return books("" if self.control_key is None else self.control_key.run, *self.engine.books, agent)

    def claim(self, wanted: WantTask, who: str) -> Claim:
        """Start the next eligible task that has a command."""
        return self.processes.claim(wanted, who)

    def place(self, wanted: WantPlace, who: str) -> PlaceGiven:
        """A place for an agent's process. Raises: Rejected."""
        return self.processes.place(wanted, who)

    async def leave(self, ended: LeavePlace, who: str) -> RunUsage:
        """An agent's process has ended."""
        if self._pricing is not None:
            await self._pricing.known()
        used = self.processes.leave(ended, who)
        return used if self._keeper is None else replace(used, checkpoint=await self._keeper.kept(ended.agent))

    @property
    def processes(self) -> Processes:
        """What runners have started."""
        assert self._processes is not None, "call start() first"
        return self._processes

    @property
    def claims(self) -> Claims:
        """What agents call themselves, and the tokens that some names are bound to."""
        assert self._claims is not None, "call start() first"
        return self._claims

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "call start() first"
        return self._engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await not_http(scope, receive, send)
            return
        headers, method = fields(scope["headers"]), scope["method"]
        place = address(scope["raw_path"])
        own = is_own(method, place.path) and place.upstream is None and place.agent is None
        tools = place.upstream is None and is_tools_path(place.path)
        unwelcome = self._admission.refusal(headers, own or tools)
        if unwelcome is None and b"origin" in headers and self._admission.allows(headers[b"origin"]):
            send = shared_with(headers[b"origin"], send)
        if b"websocket" in headers.get(b"upgrade", b"").lower():
            # Clients that try a WebSocket first fall back to POST at once on this status, and only on this one.
            await plain(send, 426, b"this proxy speaks HTTP, not WebSocket\n", (b"upgrade", b"HTTP/1.1"))
        elif unwelcome is not None:
            await self._turn_away(unwelcome, scope, place, own or tools, receive, send)
        elif place.flaw:
            await self._refuse(send, place, 400, "bad_request", place.flaw)
        elif b"origin" in headers and is_preflight(method, headers):
            await Audience(send).answer(204, permission(headers), b"")
        elif tools:
            await self._tools(scope, place.path, place.agent, receive, send)
        elif not self._may_enter(headers, place, own):
            await self._refuse(send, place, 401, "unauthorized", f"this proxy wants {TOKEN_HEADER.decode()}")
        elif own:
            await self._control({**scope, "path": place.path, "raw_path": place.raw_path}, receive, send)
        elif method == "HEAD" and place.path in ("/", "/api/hello"):
            await plain(send, 200, b"")
        else:
            await self._forward(scope, headers, place, receive, send)

    def _may_enter(self, headers: Fields, place: Address, own: bool) -> bool:
        if self._token is None or (own and guards_itself(place.path)):
            return True
        if own and may_scrape(place.path, headers.get(b"authorization", b""), self._token, self.control_key):
            return True
        if any(hmac.compare_digest(token, self._token) for token in _tokens(headers, place)):
            return True
        return self._proven(headers, place) is not None

    def _proven(self, headers: Fields, place: Address) -> str | None:
        """The agent whose own token was shown."""
        found = (self.claims.agent_of(token) for token in _tokens(headers, place))
        return next((agent for agent in found if agent is not None), None)

    async def _forward(self, scope: Scope, headers: Fields, place: Address, receive: Receive, send: Send) -> None:
        assert self._idle is not None, "call start() first"
        try:
            body = await self._body_budget.read(receive, headers.get(b"content-length"))
        except BodyRefused as refused:
            await self._refuse(send, place, refused.status, refused.reason, str(refused), refused.retry_after_s)
            return
        if body is None:
            return
        try:
            call = await self._understand(scope, headers, place, body, send)
            if call is None:
                return
            # Only now: a client that is still sending a request isn't waited for by a proxy that takes no more.
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
            await self._watched(relay(call, Audience(send)), scope, receive)
            return
        original = self._resends.original(call, asyncio.get_running_loop().time())
        if original is None:
            await self._see_through(call, scope, receive, send)
        else:
            await self._watched(listen(original, send), scope, receive)

    async def _understand(self, scope: Scope, headers: Fields, place: Address, body: bytes, send: Send) -> Call | None:
        """Everything there is to know of a request; None when it was answered with what is wrong with it."""
        pairs, query = scope["headers"], scope["query_string"]
        dialect = dialect_for(place.path)
        text = query.decode("latin-1")
        if len(body) <= SHORT and b"content-encoding" not in headers:
            facts = dialect.facts(place.path, text, pairs, body)
        else:
            facts = await self._turns.run(facts_in_steps(dialect, place.path, text, pairs, body))
        client = client_of(pairs)
        route = self._routes.find(place.upstream, place.path, headers)
        if route is None:
            known = ", ".join(f"/to/{name}/" for name, _ in self._routes.names)
            await self._refuse(send, place, 404, "unknown_route", f"no upstream for this path; name one: {known}")
            return None
        secrets = (*self._secrets, *credentials_in(pairs, scope["raw_path"] + b"?" + query))
        facts, client = described(facts, client, secrets)
        try:
            auth_headers = route.origin.profile.auth_headers
            if agent_names.tables_wanted(claimed_name(headers, place.agent)):
                await asyncio.to_thread(agent_names.load_tables)
            proven = self._proven(headers, place)
            identity = identify(headers, query, place.agent, client, facts.session, auth_headers, self.claims, proven)
            if any(each in identity.agent for each in secrets):
                raise BadIdentity(agent_names.LOOKS_LIKE_A_KEY)
        except BadIdentity as error:
            await self._refuse(send, place, error.status, error.reason, str(error))
            return None
        target = route.origin.base_path.encode() + place.raw_path + (b"?" + query if query else b"")
        method = scope["method"].encode()
        lane = f"{route.origin.name}:{lane_credential(pairs, query, route.origin.profile)}"
        free = is_free(scope["method"], place.raw_path, body) and headers.keys().isdisjoint(METHOD_OVERRIDES)
        if not free and dialect.name == "plain":
            self._unknown_paths.tell(scope["method"], place.path)
        if facts.unread:
            _log.info("the size of a request of %s is estimated: %s", identity.agent, facts.unread)
        return Call(
            method, target, for_upstream(pairs), body, route, dialect, facts, client, identity, lane, secrets, free
        )

    async def _see_through(self, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        engine = self.engine
        engine.open_lane(call.lane, call.route.lane)
        if self._keeper is not None and not call.facts.unmetered:
            self._keeper.conversations.keep(call, self._wall())
        ticket = engine.arrive(request_of(call, kept_company=call.facts.stream))
        heads = self._remembered.add(ticket.id, scope)
        heard = None if self._bodies is None else self._bodies.asked(ticket.id, call, scope["headers"])
        audience = Audience(send)
        exchange = Exchange(call, ticket, audience, engine, self._wall, self._keepalive, heads, self._turns, heard)
        if ticket.waiting:
            self._resends.add(exchange)
        try:
            await self._watched(exchange.run(), scope, receive, exchange)
        finally:
            self._resends.discard(exchange)

    async def _watched(
        self, work: Awaitable[None], scope: Scope, receive: Receive, exchange: Exchange | None = None
    ) -> None:
        """Do the work, unless the client leaves first, and with it all who joined it: then drop it at once."""
        task = asyncio.current_task()
        assert task is not None
        gone = False

        def drop() -> None:
            nonlocal gone
            if not gone:
                gone = True
                task.cancel()

        leave = drop
        if exchange is not None:
            exchange.audience.deserted, leave = drop, exchange.audience.leave_first
        stop_watching = watch(scope, receive, leave)
        try:
            await work
        except asyncio.CancelledError:
            if not gone:
                raise
            task.uncancel()
        finally:
            stop_watching()

    async def _turn_away(
        self, unwelcome: Unwelcome, scope: Scope, place: Address, own: bool, receive: Receive, send: Send
    ) -> None:
        if own:
            await failure(unwelcome.status, unwelcome.text)({**scope}, receive, send)
        else:
            await self._refuse(send, place, unwelcome.status, unwelcome.reason, unwelcome.text)

    async def _refuse(
        self,
        send: Send,
        place: Address,
        status: int,
        reason: str,
        text: str,
        retry_after_s: float | None = None,
    ) -> None:
        dialect: Dialect = dialect_for(place.path)
        headers, body = dialect.refusal(status, reason, f"HiveMind: {text}", retry_after_s)
        await Audience(send).answer(status, headers, body)

    def _world(self, at: float) -> World:
        world = World(at=at, wall=self._wall(), address=self.address, upstreams=self._routes.names)
        world.tell = self.tell or world.tell
        return world


def _tokens(headers: Fields, place: Address) -> tuple[bytes, ...]:
    """What was shown as a token for this proxy, in a header or in the path."""
    header, path = headers.get(TOKEN_HEADER), place.token
    if header:
        return (header,) if path is None else (header, path.encode("utf-8", "replace"))
    return () if path is None else (path.encode("utf-8", "replace"),)

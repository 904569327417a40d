"""One proxy: composes engine, data plane, journal, store, control API and tools; starts and stops them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from hivemind import __version__
from hivemind import api_types as api
from hivemind.control.guard import failure, guards_itself, is_own, may_scrape
from hivemind.control.rights import Rights
from hivemind.errors import UsageError
from hivemind.host.checkpointing import Checkpointer
from hivemind.host.memory import return_memory
from hivemind.host.model_servers import ModelServers
from hivemind.host.processes import Processes
from hivemind.host.watch import Watch
from hivemind.journal.files import DEMO_FOLDER
from hivemind.journal.records import JournalBegan
from hivemind.journal.write.bodies import Bodies
from hivemind.journal.write.recorder import WAITING_MOST, Recorder, RecorderLimits
from hivemind.journal.write.segment import Retention, begin, prune
from hivemind.journal.write.writer import Writer
from hivemind.prices import Prices
from hivemind.providers import errors
from hivemind.providers.limits import read_limits
from hivemind.providers.paths import is_free
from hivemind.proxy.asgi import Receive, Scope, Send
from hivemind.proxy.data_plane import DataPlane, Fields, LocalApp
from hivemind.proxy.engine import Engine, Hooks
from hivemind.proxy.routing import open_routes
from hivemind.records import replace
from hivemind.redaction.forms import text_finder
from hivemind.scheduler import events as ev
from hivemind.scheduler.accounts import Account
from hivemind.scheduler.commands import Acknowledge, Command, NotKnown
from hivemind.scheduler.places import PlaceLimits
from hivemind.scheduler.ticket import Agent
from hivemind.settings import Settings
from hivemind.store.checkpoints import folder_in
from hivemind.store.store import Store
from hivemind.store.token_file import ControlKey
from hivemind.tools.http import ToolsEndpoint, is_tools_path
from hivemind.upstream.base import describe
from hivemind.waiting import cancel_all
from hivemind.wire.fleet_lanes import machine
from hivemind.wire.identity import Claims
from hivemind.wire.request_head import RequestPath, RequestRefused
from hivemind.world.alerts import check_acknowledge
from hivemind.world.fleet import Fleet
from hivemind.world.snapshot import AgentView, Line, RecordingView, RequestDetail, Snapshot
from hivemind.world.verdict import Recent, completed
from hivemind.world.world import World

if TYPE_CHECKING:
    import httpx

    from hivemind.fleet.watcher import Watcher
    from hivemind.host.alerts import Webhook
    from hivemind.host.fleet import FleetPart
    from hivemind.host.otlp import Telemetry

_log = logging.getLogger(__name__)

COMPILE_AFTER_S = 1.0
"""Delay of compiling patterns, since the start has more urgent things to do."""
PAST_SHOWN = 200
"""Most agents listed with their budgets that aren't at hand."""
_HOUR_S = 3600.0
_WAITING_WITH_BODIES = 64 << 20
"""Bytes that may wait for the disk if bodies are recorded."""


class Kept(Struct, frozen=True):
    """Where a proxy keeps what outlives it; by default nowhere."""

    store: Store | None = None
    """Of usage, decisions and tasks."""
    journals: Path | None = None
    """Folder of the journals; None: nothing is recorded."""
    checkpoints: Path | None = None
    """Folder of the checkpoints; None: beside the store."""


_NOTHING = Kept()


class Proxy:
    """One proxy on one event loop: `start`, serve :attr:`app`, `drain`, `aclose`. Also what the control API, the tools
    and the control room operate.

    `transports` replaces the network for the upstreams it names; `wall` is the time of day in seconds since the epoch;
    without `prices` no request has a cost.

    Raises: UsageError: the settings name no upstream, or one that can't be opened.
    """

    app: DataPlane
    """The ASGI application, from :meth:`start` on."""
    checkpoints: Path | None
    """Folder of the checkpoints; None: they aren't kept."""
    engine: Engine
    watch: Watch
    _compiling: asyncio.Task[None]
    _memory: asyncio.Task[None]
    processes: Processes
    """Agents' processes that runners have started."""
    rights: Rights
    """What their runs may do."""

    def __init__(
        self,
        settings: Settings,
        *,
        transports: Mapping[str, httpx.AsyncBaseTransport] | None = None,
        rng: random.Random | None = None,
        wall: Callable[[], float] = time.time,
        prices: Prices | None = None,
        settings_file: Path | None = None,
        tell: Callable[[Line], object] | None = None,
    ) -> None:
        """`settings_file` is the one for saved settings; `tell` is called with each line of the event log."""
        self.settings = settings
        self.settings_file = settings_file
        self.address = ""
        """Base URL for agents; set by the server."""
        self.control_key: ControlKey | None = None
        """Key of the control API; set by the server."""
        self.kept = _NOTHING
        """As of :meth:`start`."""
        self.journal: Recorder | None = None
        self.watcher: Watcher | None = None
        """What is known of the fleet; None: the proxy is in none."""
        self.verdict = Recent(self.snapshot, time.monotonic)
        try:
            self._routes = open_routes(settings, transports)
        except ValueError as error:
            raise UsageError(str(error)) from None
        self.fleet_part: FleetPart | None = None
        """The part in a fleet, where the settings name its store."""
        if settings.fleet is not None:
            from hivemind.host.fleet import FleetPart  # not needed without one, and neither is the library it needs

            self.fleet_part = FleetPart(settings.fleet.reveal(), settings.ca_file, wall)
        self._telemetry: Telemetry | None = None
        """Where spans and metrics are sent; None: nowhere."""
        if settings.otlp is not None:
            from hivemind.host.otlp import Telemetry  # its libraries are an extra

            self._telemetry = Telemetry(settings.otlp.reveal(), wall)
        self._simulated = frozenset(transports or ())
        self._rng = rng or random.Random()
        self._wall = wall
        self._secrets = settings.own_credentials()
        self._prices = prices
        self._tell = tell
        self._checkpointer: Checkpointer | None = None
        self.webhook: Webhook | None = None
        """Where alerts are sent; None: nowhere."""
        self.asked = 0
        """Requests so far to the control API and the tools."""
        self._token = settings.token.reveal().encode() if settings.token else None
        self._control: Callable[[Scope, Receive, Send], Awaitable[None]] | None = None
        self._tools = ToolsEndpoint(self, enabled=settings.mcp.enabled)

    # --- Lifecycle ------------------------------------------------------------------------------------------------

    async def start(self, kept: Kept = _NOTHING) -> None:
        """Begin to schedule, on the running loop."""
        self.kept, store = kept, kept.store
        self.checkpoints = kept.checkpoints or (None if store is None else folder_in(store.path.parent))
        self._compiling = asyncio.create_task(_compile_later(), name="compile patterns")
        fleet = self.fleet_part
        if fleet is not None:
            await fleet.check()
        settings = self.settings
        hooks = Hooks()
        price = None if self._prices is None else self._prices.cost
        self.engine = engine = Engine(
            settings.scheduler_config(), self._rng, self._world, self._wall, store, hooks=hooks, price=price
        )
        if self._telemetry is not None:
            hooks.record = self._telemetry.record
            self._telemetry.start()
        bodies = None
        if kept.journals is not None:
            self.journal = self._begin_recording(kept.journals)
            if self.journal is not None and settings.journal.bodies:
                bodies = Bodies(self.journal, engine.now, self._secrets)
        self.claims = claims = Claims(engine.names, settings.agents, self._token)
        known = _Known(engine, claims)
        self.rights = Rights(known)
        hooks.decided = self.rights.note
        key_file = None if store is None else store.path.with_suffix(".key")
        limits = PlaceLimits(settings.max_agents, settings.agents.max_depth, settings.agents.max_tree)
        self.processes = known.processes = Processes(engine, limits, claims, key_file, self.rights)
        if self.checkpoints is not None and settings.checkpoint.enabled:
            self._checkpointer = Checkpointer(self.checkpoints, settings, engine, self.processes, self._wall)
        self.app = DataPlane(
            settings,
            engine,
            self._routes,
            claims,
            local_app=self._local_app,
            on_call=None if self._checkpointer is None else self._checkpointer.remember,
            bodies=bodies,
            wall=self._wall,
            fleet_lanes=None if fleet is None else fleet.lanes,
        )
        if fleet is not None:
            await fleet.start(self, None if store is None else store.ledger)
            self.watcher = fleet.watcher
        memory = return_memory(self.app.body_budget, self._compiling)
        self._memory = asyncio.create_task(memory, name="return free memory")
        self.watch = Watch(engine, lambda: self.app.direct, settings.alerts.limits())
        if settings.alerts.webhook is not None:
            from hivemind.host.alerts import Webhook  # and with it httpx, which is slow to import

            secret = settings.alerts.webhook_secret
            self.webhook = webhook = Webhook(
                settings.alerts.webhook.reveal(),
                "" if secret is None else secret.reveal(),
                ca_file=settings.ca_file,
                wall=self._wall,
            )
            self.watch.on_alert = lambda event, seen: webhook.tell(event, self.address, seen.verdict.text)
        self._servers = ModelServers(engine, settings)
        hooks.watched[ev.FirstContent] = hooks.watched[ev.AnsweredWhole] = self._servers.answered
        hooks.watched[ev.Abandoned] = self._servers.abandoned
        for route in self._routes.all if settings.profile is None else ():
            self._servers.look_at(route, ask=settings.via is None and route.origin.name not in self._simulated)
        if settings.ignored is not None:
            engine.publish(ev.SettingsIgnored(engine.now(), settings.ignored.note))

    async def drain(self, timeout_s: float) -> None:
        """Grant nothing more, and wait until nothing is in flight, but no longer than this."""
        self.engine.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.app.idle()
        await self._tools.aclose()

    async def aclose(self) -> None:
        """Stop timers, and close the journal and the upstream connections."""
        await cancel_all((self._compiling, self._memory))
        await self._servers.aclose()
        await self.watch.aclose()
        if self.webhook is not None:
            await self.webhook.aclose()
        if self.fleet_part is not None:
            await self.fleet_part.aclose()
        await self._tools.aclose()
        if self._checkpointer is not None:
            await self._checkpointer.aclose()
        self.processes.close()
        self.engine.close()
        if self.journal is not None:
            self.engine.hooks.record = None
            await self.journal.aclose(self.engine.now())
        if self._telemetry is not None:
            self.engine.hooks.record = None
            await self._telemetry.aclose()
        await self._routes.aclose()

    def _world(self, at: float) -> World:
        world = World(
            at=at,
            wall=self._wall(),
            address=self.address,
            upstreams=self._routes.names,
            alert_limits=self.settings.alerts.limits(),
        )
        world.on_line = self._tell or world.on_line
        return world

    def _begin_recording(self, folder: Path) -> Recorder | None:
        """Begin a journal in that folder; None if it can't be created, which is logged."""
        settings, given, engine, wall = self.settings, self.settings.journal, self.engine, self._wall
        try:
            name, part = begin(folder, wall(), urlsplit(self.address).port or settings.port)
        except OSError as error:
            what = "so this run can't be looked at later; choose another folder with --state-dir"
            _log.warning("no journal can be written (%s: %s), %s", error.filename or folder, error.strerror, what)
            return None
        newest = 0 if folder.name == DEMO_FOLDER else 10
        keeping = Retention(given.keep_days * 24 * _HOUR_S, given.keep_mb << 20, newest)
        began = JournalBegan(
            engine.now(),
            wall(),
            name,
            1,
            f"hivemind {__version__}",
            self.address,
            self._routes.names,
            settings.scheduler_config(),
            given.bodies,
            fleet=settings.fleet is not None,
            machine=machine(),
            alert_limits=settings.alerts.limits(),
        )
        waiting = _WAITING_WITH_BODIES if given.bodies else WAITING_MOST
        limits = RecorderLimits(given.max_mb << 20, given.max_hours * _HOUR_S, waiting)
        writer = Writer(part, tidy=functools.partial(prune, keeping=keeping, wall=wall))
        recorder = Recorder(writer, began, limits, take=engine.world.take, publish=engine.publish, wall=wall)
        engine.hooks.record = recorder.record if self._telemetry is None else _both(recorder, self._telemetry)
        return recorder

    # --- The proxy's own applications on the socket of the traffic --------------------------------------------------

    def _local_app(self, method: str, place: RequestPath) -> LocalApp | None:
        """Return the application that answers a request; None where it goes upstream."""
        if place.upstream is None and is_tools_path(place.path):
            # The MCP server checks the control token itself.
            return LocalApp(self._serve_tools, lambda place, headers: True, _deny)
        if place.upstream is None and place.agent is None and is_own(method, place.path):
            return LocalApp(self._serve_control, self._is_open, _deny)
        return None

    def _is_open(self, place: RequestPath, headers: Fields) -> bool:
        """Return whether a path of the control API is guarded by another token, or by none."""
        authorization = headers.get(b"authorization", b"")
        return guards_itself(place.path) or (
            self._token is not None and may_scrape(place.path, authorization, self._token, self.control_key)
        )

    async def _serve_control(self, scope: Scope, place: RequestPath, receive: Receive, send: Send) -> None:
        self.asked += place.path.startswith(api.PREFIX)
        await self._control_app({**scope, "path": place.path, "raw_path": place.raw_path}, receive, send)

    async def _control_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._control is None:
            try:
                # A thread imports it, so that no agent's request waits for that.
                control = await asyncio.to_thread(importlib.import_module, "hivemind.control.app")
            except OSError as error:  # more clients came at once than files may be open; the next request tries again
                await failure(503, describe(error))({**scope}, receive, send)
                return
            self._control = self._control or control.control_app(self)  # another request may have come meanwhile
        await self._control(scope, receive, send)

    async def _serve_tools(self, scope: Scope, place: RequestPath, receive: Receive, send: Send) -> None:
        self.asked += 1
        await self._tools(scope, place.path, place.agent, receive, send)

    # --- Operation ------------------------------------------------------------------------------------------------

    def snapshot(self, *, newest: int | None = None) -> Snapshot:
        """Return the state of the proxy at this moment, of all agents or as :meth:`.World.snapshot` says."""
        self.engine.world.address = self.address
        recording = None if self.journal is None else self.journal.view()
        if self.journal is None and self.kept.journals is not None:
            recording = RecordingView(str(self.kept.journals), 0, 0, "its file couldn't be made")
        fleet = None if self.fleet_part is None else self.fleet_part.link.view()
        return completed(self.engine.snapshot(newest=newest), fleet, recording)

    def fleet_state(self) -> str:
        """Return :attr:`.FleetView.state`; empty: the proxy is in no fleet."""
        return "" if self.fleet_part is None else self.fleet_part.link.view().state

    def detail(self, ticket: int) -> RequestDetail | None:
        """Return all that is known of a request, credentials masked; None where it was dropped."""
        detail, heads = self.engine.detail(ticket), self.app.recent_heads.find(ticket)
        return detail if detail is None or heads is None else heads.added_to(detail, self._secrets)

    def apply(self, command: Command, who: str = "you") -> None:
        """Carry out an operator's command. Raises: Rejected: it can't be carried out; the text says why."""
        if isinstance(command, Acknowledge):
            self.watch.check_alerts()  # whoever saw something may be quicker than the check of every second
            check_acknowledge(command, self.engine.world.alerts)
        self.engine.apply(command, who)

    async def fleet(self) -> Fleet:
        """Return the proxies that share a key with this one, read now."""
        return Fleet() if self.watcher is None else await self.watcher.fresh()

    def fleet_now(self) -> Fleet:
        """Return them as they were read last, which they are a few times a second while this is called."""
        return Fleet() if self.watcher is None else self.watcher.fleet()

    def fleet_agents(self) -> tuple[AgentView, ...]:
        """Return the agents of all of them, those of this proxy first."""
        own = self.engine.snapshot()
        return own.agents if self.watcher is None else self.watcher.agents(own)

    async def apply_anywhere(self, command: Command, who: str = "you") -> None:
        """Have a command carried out by each proxy of the fleet that it is about; without a fleet, by this one.

        Raises: Rejected.
        """
        if self.fleet_part is None:
            self.apply(command, who)
        else:
            await self.fleet_part.apply(self, command, who)

    def about(self) -> api.About:
        """Return what a client of the control API needs to know of the proxy."""
        settings, key = self.settings, self.control_key
        return api.About(
            "" if key is None else key.run,
            __version__,
            self.address,
            self._routes.names,
            self._token is not None,
            settings.max_agents,
            settings.mcp.read_only,
            None if self.kept.store is None else str(self.kept.store.path.parent),
            settings.idle_exit_s or 0.0,
        )

    def budgets(self, agent: str | None) -> api.BudgetsPart:
        """Return what one agent, which may be of an earlier run, or (None) the agents used and may use.

        Of those that aren't at hand, as after a restart, the ones that used most are listed.

        Raises: Rejected: no agent has that name.
        """
        run = "" if self.control_key is None else self.control_key.run
        agents, pool = self.engine.agents, self.engine.pool
        if agent is not None:
            name = self.engine.spelling(agent)
            found = agents.get(name) or agents.past.get(name)
            if found is None:
                raise NotKnown(f"no agent named {name!r}", [*agents, *agents.past])
            return api.BudgetsPart(run, _budget(None, pool), (_budget(found, found.own),))
        # Of equals an agent goes before its sub-agents, whose names are longer.
        past = nsmallest(PAST_SHOWN, agents.past.values(), key=lambda each: (-each.own.ever.tokens, len(each.name)))
        shown = {each.name: each for each in (*agents.values(), *past)}
        rows = tuple(_budget(each, each.own, within=_within(each, shown)) for each in shown.values())
        return api.BudgetsPart(run, _budget(None, pool), rows).with_others()

    async def leave(self, ended: api.PlaceRelease, who: str) -> api.RunUsage:
        """Note that an agent's process has ended, and return what it used. Raises: Rejected."""
        used = self.processes.leave(ended, who)
        if self._checkpointer is not None:
            used = replace(used, checkpoint=await self._checkpointer.written(ended.agent))
        if used.requests == 0 and ended.exit_code is not None:  # it sent no request on its path
            self.engine.publish(ev.RunSilent(self.engine.now(), self.engine.spelling(ended.agent), used.elsewhere))
        return used

    def denied(self, run: str, asked: str, why: str) -> None:
        """Report that a run asked for what it may not do."""
        self.engine.publish(ev.RunDenied(self.engine.now(), run, asked, why))


class _Known:
    """What :class:`Rights` need to know."""

    def __init__(self, engine: Engine, claims: Claims) -> None:
        self.tasks = engine.tasks
        self.find = engine.find
        self.is_reserved = claims.is_reserved
        self.below = engine.agents.below
        self.processes: Processes | None = None

    def ran(self, name: str) -> bool:
        """Return whether a runner started the agent's process, now or before."""
        process = None if self.processes is None else self.processes.process(name)
        return process is not None and bool(process.command)

    def runs(self, name: str) -> bool:
        """Return whether the agent's process runs, or waits for a place."""
        return self.processes is not None and self.processes.runs_now(name)


async def _compile_later() -> None:
    """Compile what keys, refusals, limits and free paths are found by, away from the loop, because that takes longer
    than a request may be held up. Requests that come earlier compile what they need."""
    await asyncio.sleep(COMPILE_AFTER_S)
    await asyncio.to_thread(_compile)


def _compile() -> None:
    text_finder()
    errors.prepare()
    read_limits([(b"x-ratelimit-limit", b"1")], 0.0)
    is_free("POST", b"/", b"")


def _both(recorder: Recorder, telemetry: Telemetry) -> Callable[[Sequence[ev.Event]], object]:
    journal, send = recorder.record, telemetry.record

    def record(events: Sequence[ev.Event]) -> None:
        journal(events)
        send(events)

    return record


def _within(agent: Agent, shown: Container[str]) -> str | None:
    """Return the nearest agent of those shown of which it is a part."""
    lead = agent.lead
    while lead is not None and lead.name not in shown:
        lead = lead.lead
    return None if lead is None else lead.name


def _budget(agent: Agent | None, account: Account, within: str | None = None) -> api.AgentBudget:
    limited = account if agent is None or account.budget else agent.tree
    return api.AgentBudget(
        None if agent is None else agent.name,
        None if agent is None or agent.parent is None else agent.parent.name,
        limited.state() if limited.budget else None,
        account.used("run"),
        account.used("day"),
        account.used("ever"),
        within,
        month=account.used("month"),
    )


async def _deny(refusal: RequestRefused, scope: Scope, receive: Receive, send: Send) -> None:
    await failure(refusal.status, str(refusal))({**scope}, receive, send)

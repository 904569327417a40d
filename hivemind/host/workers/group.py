"""The first worker's view of all workers: what the control API, the tools and `/metrics` answer with.

The others are asked when somebody asks; their clocks are this machine's, as its own. Commands are carried out by all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import msgspec

from hivemind import api_types as api
from hivemind.control.app import control_app
from hivemind.control.codec import OutOfSync, decode_snapshot, merge, to_plain
from hivemind.control.rights import Principal, Rights
from hivemind.host.front import Page
from hivemind.host.proxy import Proxy
from hivemind.host.worker import Worker
from hivemind.host.workers import frames
from hivemind.host.workers.answers import Answers
from hivemind.host.workers.request_log import MergedRequests, WorkerRequests
from hivemind.proxy.asgi import Receive, Scope, Send
from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.commands import Acknowledge, BeginAgent, Command, Rejected, Tune
from hivemind.scheduler.events import BudgetState
from hivemind.store.token_file import ControlKey
from hivemind.tools.http import ToolsEndpoint
from hivemind.wire.request_head import RequestPath
from hivemind.world.alerts import unacknowledged
from hivemind.world.fleet import TROUBLED, Fleet, Member
from hivemind.world.health import Verdict
from hivemind.world.merge import Part, merged
from hivemind.world.snapshot import AgentView, Alarm, RequestDetail, Requests, RequestView, Snapshot
from hivemind.world.verdict import RECENT_S, Recent, judged

_log = logging.getLogger(__name__)

ANSWERS_S = 2.0
"""A worker that hasn't answered by then is left out of what is shown."""
CONNECT_EVERY_S = 0.1
_FRESH_S = 0.02
"""What was read so lately isn't read again."""
_PAGES_MOST = 20
_DECIDED = ("agent", "task", "alert")
"""Tags of log lines about what all workers carry out, beside operators' commands."""
_SAME_S = 1.0
"""Two such lines within this time are of one command."""

_requests_of = msgspec.json.Decoder(api.RequestsPart).decode
_member_of = msgspec.json.Decoder(Member).decode
_detail_of = msgspec.json.Decoder(RequestDetail).decode
_budgets_of = msgspec.json.Decoder(api.BudgetsPart).decode
_alarms_of = msgspec.json.Decoder(tuple[Alarm, ...]).decode


class Peer:
    """One other worker, as the first one knows it."""

    def __init__(self, number: int, path: Path, connected: Callable[[Peer], object]) -> None:
        self.number = number
        self.requests = WorkerRequests(number - 1)
        self.snapshot: Snapshot | None = None
        self.member: Member | None = None
        self.budgets: api.BudgetsPart | None = None
        self.health: tuple[str, float, tuple[Alarm, ...]] | None = None
        self.fleet_state = ""
        self._path = path
        self._connected = connected
        self._channel: frames.Channel | None = None
        self._task = asyncio.create_task(self._stay_connected(), name=f"worker {number}")

    async def aclose(self) -> None:
        """Close the connection."""
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def _stay_connected(self) -> None:
        while True:
            try:
                self._channel = await frames.Channel.to(self._path)
                self._connected(self)
                await self._channel.run()
            except OSError:
                pass  # it isn't there yet
            except Exception:  # else it would be left out for ever
                _log.exception("worker %d can't be asked", self.number)
            self._channel = self.snapshot = self.member = self.budgets = self.health = None
            await asyncio.sleep(CONNECT_EVERY_S)

    def send(self, ask: str, **given: Any) -> asyncio.Future[Any] | None:
        """Ask now; None: the worker isn't there."""
        return None if self._channel is None else self._channel.ask({"ask": ask, **given})

    async def ask(self, ask: str, **given: Any) -> Any:
        """Ask, and wait for the answer. Raises: Gone."""
        answer = self.send(ask, **given)
        if answer is None:
            raise frames.Gone
        try:
            return await asyncio.wait_for(asyncio.shield(answer), ANSWERS_S)
        except TimeoutError:
            raise frames.Gone from None

    async def read(self, log: MergedRequests) -> None:
        """Read its snapshot and its requests."""
        try:
            await self._read(log)
        except frames.Gone:
            self.snapshot = None

    async def _read(self, log: MergedRequests) -> None:
        process, after = self.requests.process, None if self.snapshot is None else self.snapshot.at
        answer = await self.ask("snapshot", process=process, after=after)
        part = decode_snapshot(answer["part"])
        try:
            self.snapshot = merge(self.snapshot, part)
        except OutOfSync:
            self.snapshot = decode_snapshot((await self.ask("snapshot", process="", after=None))["part"]).snapshot
        self.member = _member_of(answer["member"])
        if part.run != process:
            log.end(self.requests.open, self.snapshot.at)
            self.requests.open.clear()
            self.requests.begin(part.run)
        for _ in range(_PAGES_MOST):
            answer = await self.ask("requests", process=part.run, since=self.requests.revision)
            page = _requests_of(answer["part"])
            log.change(self.requests.take(Requests(page.revision, page.oldest, page.changed)))
            if not page.changed:
                return


class Group:
    """All workers of one port, as one proxy: a :class:`~hivemind.control.controlled.ControlledProxy`."""

    def __init__(self, proxy: Proxy, worker: Worker, answers: Answers) -> None:
        self.proxy = proxy
        self.settings_file, self.keep_in = proxy.settings_file, proxy.keep_in
        self._me = answers.member
        self._log = MergedRequests()
        self._own = WorkerRequests(0)
        self._recent_verdict = Recent(self.snapshot, time.monotonic)
        self._own.begin("own")
        self._peers = [
            Peer(number, worker.socket(number), self._peer_connected) for number in range(2, worker.count + 1)
        ]
        self._read_at = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._detail: tuple[int, RequestDetail | None] = (0, None)
        self._pending: list[tuple[Peer, asyncio.Future[Any] | None]] = []
        """Commands that other workers haven't confirmed yet."""
        self._app = control_app(self)
        self._tools = ToolsEndpoint(self, enabled=proxy.settings.mcp.enabled)

    @property
    def control_key(self) -> ControlKey | None:
        """The key of all workers' control API."""
        return self.proxy.control_key

    # --- Requests -------------------------------------------------------------------------------------------------

    async def serve(self, page: Page, scope: Scope, place: RequestPath, receive: Receive, send: Send) -> bool:
        """Answer a request, after the others were asked for their part."""
        path = place.path
        if path == "/_health":
            await self._read_health()
            await self.refresh(RECENT_S)
        elif not path.startswith((f"{api.PREFIX}/places", f"{api.PREFIX}/tasks")):
            await self.refresh()
        if path.startswith(f"{api.PREFIX}/requests/"):
            await self._read_detail(path.rpartition("/")[2])
        if path == f"{api.PREFIX}/budgets":
            await self._read_budgets(scope)
        if page == "tools":
            await self._tools(scope, path, place.agent, receive, send)
        else:
            await self._app({**scope, "path": path, "raw_path": place.raw_path}, receive, send)
        return True

    async def aclose(self) -> None:
        """Leave the other workers alone."""
        await self._tools.aclose()
        for peer in self._peers:
            await peer.aclose()

    async def refresh(self, fresh_s: float = _FRESH_S) -> None:
        """Read the other workers' state, unless that was done so short a time ago."""
        if time.monotonic() - self._read_at < fresh_s:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read(), name="read the workers")
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        await asyncio.gather(*(peer.read(self._log) for peer in self._peers))
        for _ in range(_PAGES_MOST):
            page = self.proxy.requests(self._own.revision)
            self._log.change(self._own.take(page))
            if not page.changed:
                break
        self._read_at = time.monotonic()

    async def _read_health(self) -> None:
        async def read(peer: Peer) -> None:
            try:
                found = await peer.ask("health")
                peer.health = found["mode"], found["uptime_s"], _alarms_of(found["alarms"])
                peer.fleet_state = found["fleet"]
            except frames.Gone:
                peer.health = None

        await asyncio.gather(*map(read, self._peers))

    async def _read_detail(self, ticket: str) -> None:
        self._detail = (0, None)
        if not ticket.isdecimal():
            return
        number = int(ticket)
        place = number % 1000
        peer = next((each for each in self._peers if each.number - 1 == place), None)
        own = None if peer is None else peer.requests.its_own(number)
        if peer is None or own is None:
            return
        with contextlib.suppress(frames.Gone):
            found = (await peer.ask("detail", process=peer.requests.process, ticket=own))["detail"]
            if found is not None:
                self._detail = number, _numbered(_detail_of(found), number)

    async def _read_budgets(self, scope: Scope) -> None:
        from starlette.datastructures import QueryParams

        agent = QueryParams(scope["query_string"]).get("agent")

        async def read(peer: Peer) -> None:
            try:
                found = (await peer.ask("budgets", agent=agent))["budgets"]
                peer.budgets = None if found is None else _budgets_of(found)
            except frames.Gone:
                peer.budgets = None

        await asyncio.gather(*map(read, self._peers))

    # --- What is shown --------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the state of all workers, those that answered last."""
        own = self.proxy.snapshot()
        parts = [Part(self._me(), own, 0)]
        for peer in self._peers:
            if peer.snapshot is not None and peer.member is not None:
                snapshot = _without_copies(peer.snapshot, own)
                parts.append(Part(peer.member, snapshot, peer.number - 1))
        whole = merged(parts, self.proxy.address)
        absent = tuple(self._absent(own.at))
        return judged(replace(whole, alarms=(*whole.alarms, *absent))) if absent else whole

    def _absent(self, at: float) -> Iterable[Alarm]:
        for peer in self._peers:
            if peer.snapshot is None and peer.health is None:
                text = f"Worker {peer.number} doesn't answer, so what it serves isn't shown."
                yield Alarm("workers", "", "", text, at)

    def health(self) -> tuple[str, float, tuple[Alarm, ...]]:
        """Return mode, uptime and alarms of all; as :meth:`Proxy.health`."""
        mode, uptime_s, alarms = self.proxy.health()
        found = [peer.health for peer in self._peers if peer.health is not None]
        modes = {mode, *(each[0] for each in found)}
        alarms = (*alarms, *(alarm for each in found for alarm in each[2]), *self._absent(self.proxy.engine.now()))
        return mode if len(modes) == 1 else "serving", max([uptime_s, *(each[1] for each in found)]), alarms

    def verdict(self) -> Verdict:
        """Return the verdict on all of a second ago at most."""
        return self._recent_verdict()

    def fleet_state(self) -> str:
        """Return the gravest state of all workers; as :meth:`Proxy.fleet_state`."""
        own = self.proxy.fleet_state()
        states = {own, *(peer.fleet_state for peer in self._peers)}
        return next((state for state in TROUBLED if state in states), own)

    def requests(self, since: int) -> Requests:
        """Return a page of the requests of all that changed after that revision."""
        return self._log.since(since)

    def detail(self, ticket: int) -> RequestDetail | None:
        """Return all that is known of a request, if it was just read."""
        if self._detail[0] == ticket:
            return self._detail[1]
        own = self._own.its_own(ticket) if ticket % 1000 == 0 else None
        found = None if own is None else self.proxy.detail(own)
        return None if found is None else _numbered(found, ticket)

    def budgets(self, agent: str | None) -> api.BudgetsPart:
        """Return budgets and usage over all workers. Raises: Rejected: no agent has that name."""
        found = [peer.budgets for peer in self._peers if peer.budgets is not None]
        try:
            found.insert(0, self.proxy.budgets(agent))
        except Rejected:
            if not found:
                raise
        rows: dict[str | None, list[api.AgentBudget]] = {}
        for part in found:
            for row in part.agents:
                rows.setdefault(row.agent, []).append(row)
        run = "" if self.control_key is None else self.control_key.run
        whole = api.BudgetsPart(run, _budget([part.pool for part in found]), tuple(map(_budget, rows.values())))
        return whole.with_others() if agent is None else whole

    def about(self) -> api.About:
        """Return what a client of the control API needs to know."""
        return self.proxy.about()

    def tasks(self, batch: str | None, *, running: bool = False) -> tuple[api.TaskState, ...]:
        """Return all tasks of a batch, or (None) all tasks; `running`: only those that run."""
        return self.proxy.tasks(batch, running=running)

    def spelling(self, name: str) -> str:
        """Return the known spelling of an agent's name."""
        return self.proxy.spelling(name)

    async def fleet(self) -> Fleet:
        """Return the proxies that share a key with these."""
        return await self.proxy.fleet()

    def fleet_agents(self) -> tuple[AgentView, ...]:
        """Return the agents of all of them."""
        return self.proxy.fleet_agents()

    # --- Runs -----------------------------------------------------------------------------------------------------

    @property
    def rights(self) -> Rights:
        """What runs may do."""
        return self.proxy.rights

    def run_token(self, public: str) -> str:
        """Return the run's token that begins with `NAME.TAG`. Raises: ValueError: none does."""
        return self.proxy.run_token(public)

    async def principal(self, shown: str, scope: Scope) -> Principal | None:
        """Return whose a request is. Raises: Denied."""
        return await self.proxy.principal(shown, scope)

    def has_place_below(self, run: str, agent: str) -> bool:
        """Return whether an agent has a place, or queues for one, as one that a run started."""
        return self.proxy.has_place_below(run, agent)

    def holds_process(self, run: str, process: str) -> bool:
        """Return whether a process belongs to a run."""
        return self.proxy.holds_process(run, process)

    def denied(self, run: str, asked: str, why: str) -> None:
        """Report that a run asked for what it may not do."""
        self.proxy.denied(run, asked, why)

    # --- Commands -------------------------------------------------------------------------------------------------

    def apply(self, command: Command, who: str) -> None:
        """Have all workers carry out a command; :meth:`settled` waits for the others. Raises: Rejected."""
        others = [peer.snapshot for peer in self._peers if peer.snapshot is not None]
        agent, lane = getattr(command, "agent", None), getattr(command, "lane", None)
        if lane is not None and lane in _lanes(others) - _lanes([self.proxy.snapshot()]):
            self.mirror(command, who)
        elif any(_knows(snapshot, command, agent) for snapshot in others):
            self.proxy.engine.mirror(command, who)
        else:
            self.proxy.apply(command, who)

    async def apply_anywhere(self, command: Command, who: str) -> None:
        """Have a command carried out by each proxy of the fleet that it is about. Raises: Rejected."""
        await self.proxy.apply_anywhere(command, who)

    async def settled(self) -> None:
        """Wait until the commands so far would survive a crash, and the other workers have carried them out."""
        pending, self._pending = self._pending, []
        await self.proxy.settled()
        for peer, answer in pending:
            if answer is None:
                continue  # it isn't there; it is told when it is
            try:
                said = await asyncio.wait_for(asyncio.shield(answer), ANSWERS_S)
            except (frames.Gone, TimeoutError):
                continue
            if "rejected" in said:
                _log.info("worker %d didn't carry out what the others did: %s", peer.number, said["rejected"])

    def mirror(self, command: Command, who: str) -> None:
        """Tell the other workers of a command that was carried out here."""
        question = {"name": type(command).__name__, "arguments": to_plain(command), "who": who}
        question["bound"] = self.proxy.claims.bound
        self._pending += [(peer, peer.send("apply", **question)) for peer in self._peers]
        del self._pending[:-1000]

    def _peer_connected(self, peer: Peer) -> None:
        """Tell a worker that is new what was decided before."""
        engine = self.proxy.engine
        commands = [*engine.standing(), *self._running()]
        peer.send(
            "standing",
            commands=[(type(command).__name__, to_plain(command)) for command in commands],
            tasks=msgspec.json.encode([task.saved() for task in engine.tasks.values()]),
            bound=self.proxy.claims.bound,
        )

    def _running(self) -> Iterable[Command]:
        """Yield the beginnings of the processes that runners have started."""
        for name in self.proxy.processes.agents:
            agent, process = self.proxy.engine.agent(name), self.proxy.processes.process(name)
            if agent is not None and process is not None and not agent.ended:
                parent = None if agent.parent is None else agent.parent.name
                yield BeginAgent(name, parent, process.task, resumed=True, goes_on=True)

    def claim(self, wanted: api.ClaimRequest, who: str) -> api.TaskClaim:
        """Start the next eligible task that has a command."""
        return self.proxy.claim(wanted, who)

    def place(self, wanted: api.PlaceRequest, who: str) -> api.PlaceResponse:
        """Return whether an agent's process may run now. Raises: Rejected."""
        given = self.proxy.place(wanted, who)
        if given.token:
            for peer in self._peers:
                peer.send("bind", bound=self.proxy.claims.bound)
        return given

    async def leave(self, ended: api.PlaceRelease, who: str) -> api.RunUsage:
        """Note that an agent's process has ended, and return what it used at all workers. Raises: Rejected."""
        used, name = await self.proxy.leave_here(ended, who), self.proxy.spelling(ended.agent)
        for peer in self._peers:
            with contextlib.suppress(frames.Gone):
                answer = await peer.ask("used", agent=name, client=ended.client)
                found = answer["used"]
                used = replace(
                    used,
                    requests=(used.requests or 0) + answer["requests"] or used.requests,
                    elsewhere=tuple(dict.fromkeys((*used.elsewhere, *answer["elsewhere"]))),
                )
                if found is not None:
                    tokens, dollars, unpriced, estimated = found
                    used = replace(
                        used,
                        tokens=used.tokens + tokens,
                        dollars=used.dollars + dollars,
                        unpriced=used.unpriced + unpriced,
                        estimated=used.estimated + estimated,
                    )
        self.proxy.report_traffic(ended, used)
        return used


def _without_copies(snapshot: Snapshot, first: Snapshot) -> Snapshot:
    """Return a worker's snapshot without what the first one's has too: all have the same tasks, and carry out the same
    commands."""
    said = {(line.tag, line.who, line.text): line.wall for line in first.lines}
    lines = tuple(
        line
        for line in snapshot.lines
        if abs(line.wall - said.get((line.tag, line.who, line.text), -math.inf)) > _SAME_S
        or not (line.by or line.tag in _DECIDED)
    )
    return replace(snapshot, tasks=(), task_counts={}, lines=lines)


def _knows(snapshot: Snapshot, command: Command, agent: str | None) -> bool:
    """Return whether a worker knows the agent or the upstream that a command names."""
    if isinstance(command, Acknowledge):
        return bool(unacknowledged(snapshot.alerts, command.about, command.rule))
    if isinstance(command, Tune):
        return any(lane.state.upstream == command.upstream for lane in snapshot.lanes)
    return agent is not None and any(each.name == agent for each in snapshot.agents)


def _lanes(snapshots: Iterable[Snapshot]) -> set[str]:
    return {lane.state.lane for snapshot in snapshots for lane in snapshot.lanes}


def _numbered(detail: RequestDetail, number: int) -> RequestDetail:
    view: RequestView = replace(detail.view, ticket=number)
    return replace(detail, view=view)


def _budget(rows: list[api.AgentBudget]) -> api.AgentBudget:
    """Return one account's row over all workers."""
    states = [row.budget for row in rows if row.budget is not None]
    return api.AgentBudget(
        rows[0].agent,
        next((row.parent for row in rows if row.parent is not None), None),
        max(states, key=_share, default=None),
        _sum([row.run for row in rows]),
        _sum([row.day for row in rows]),
        _sum([row.ever for row in rows]),
        next((row.within for row in rows if row.within is not None), None),
    )


def _share(state: BudgetState) -> tuple[float, int]:
    return state.share, state.used_tokens


def _sum(spents: list[Spent]) -> Spent:
    return reduce(Spent.plus, spents)

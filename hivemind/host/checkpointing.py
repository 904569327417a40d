"""Writes a checkpoint of every agent that is stopped, in a thread, when an event says so.

From its stop until it is released an agent has one checkpoint, which is written again when something changes: a request
in flight ends, the agent sends another one (and with it a longer conversation), its process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct, field

from hivemind.host.processes import Process, Processes
from hivemind.providers.clients import Client
from hivemind.providers.encoding import pack, unpack
from hivemind.proxy.engine import Engine
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.scheduler.tasks import OPEN, Task
from hivemind.scheduler.types import Priority
from hivemind.settings import Settings
from hivemind.store import checkpoints
from hivemind.text import humanise
from hivemind.text.amounts import how_used, owner
from hivemind.text.shells import command_line
from hivemind.waiting import wait_up_to
from hivemind.wire.call import Call, CallHead, path_of, with_conversation

_log = logging.getLogger(__name__)

STOPS_KNOWN = 4096
TOTAL_LIMIT = 16 << 20
"""Bytes in which all bodies are kept together; beyond it those of the least recently active agents are dropped."""
PLAIN_LIMIT = 4 << 20
"""Bytes of those that are kept as they came; beyond it those of the least recently active agents are compressed, to a
quarter as a rule."""
_WHILE_PACKING = 4
"""So many times as much is kept while some of it is to be compressed."""
AGENTS_LIMIT = 4096
_FRESH_MOST = 64
_FRESH_BYTES = 1 << 20
"""Newest requests, and bytes of their bodies, that are entered at once."""
_END = 64 << 10
_PRUNE_AFTER = 256
_PRUNE_AFTER_BYTES = 64 << 20
"""Checkpoints and bytes that are written before it is looked for older ones to remove."""
ANSWER_WITHIN_S = 4.0
"""Longest wait of a runner that reports the end of a process, for its checkpoint."""


class _Stop(Struct):
    """An agent's stop, and the state of its checkpoint."""

    agent: str
    name: str
    reason: checkpoints.Reason
    why: str
    at: float
    exit_code: int | None = None
    written_fingerprint: bytes = b""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while nothing is left to be written."""
    written: bool = False


class Checkpointer:
    """Watches one proxy's agents, on its loop; `wall` is the time of day in seconds since the epoch."""

    def __init__(
        self, folder: Path, settings: Settings, engine: Engine, processes: Processes, wall: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._engine = engine
        self._processes = processes
        self._wall = wall
        self._max_bytes = settings.checkpoint.max_mb << 20
        self._keep = settings.checkpoint.keep
        self._secrets = settings.own_credentials()
        self.conversations = Conversations(self._max_bytes)
        self._stops: dict[str, _Stop] = {}
        self._ran: set[str] = set()
        """Agents whose process ran since this proxy started; an earlier run of the name isn't theirs."""
        self._due: OrderedDict[str, _Stop] = OrderedDict()
        self._writing: asyncio.Task[None] | None = None
        self._failing = False
        self._latest = 0.0
        engine.hooks.watched |= {
            ev.BudgetWarned: self._warned,
            ev.Commanded: self._commanded,
            ev.AgentBegan: self._began,
            ev.AgentEnded: self._ended,
            ev.Refused: self._refused,
        }

    def remember(self, call: Call) -> None:
        """Keep a call as its agent's newest, unless its kind carries no conversation."""
        if not call.facts.unmetered:
            self.conversations.keep(call, self._wall())

    async def written(self, agent: str) -> str | None:
        """Return the name of a stopped agent's checkpoint, once it is written.

        None: the agent isn't stopped, or nothing could be written.
        """
        stop = self._stops.get(agent)
        if stop is None:
            return None
        if stop.name in self._due:
            self._due.move_to_end(stop.name, last=False)
        await wait_up_to(stop.settled, ANSWER_WITHIN_S)
        return stop.name if stop.written else None

    async def aclose(self) -> None:
        """Wait until everything is written."""
        self._engine.hooks.watched.clear()
        if self._writing is not None:
            await self._writing

    # --- Events ---------------------------------------------------------------------------------------------------

    def _warned(self, event: ev.BudgetWarned) -> None:
        if event.exhausted:
            for agent in self._engine.covered(event.state):
                if not agent.ended and self.conversations.find(agent.name) is not None:
                    self._stop(agent.name, "budget", _used_up(event.state))

    def _commanded(self, event: ev.Commanded) -> None:
        if event.name != "StopAgent":
            return
        agent = event.arguments["agent"]
        if not event.arguments["stopped"]:
            self._stops.pop(agent, None)
        elif self.conversations.find(agent) is not None or self._process(agent) is not None:
            if agent in self._stops and self._stops[agent].reason != "operator":
                del self._stops[agent]  # it was released since, or is stopped for another reason now
            self._stop(agent, "operator", f"stopped by {event.who}")

    def _began(self, event: ev.AgentBegan) -> None:
        self._stops.pop(event.agent, None)
        self._ran.add(event.agent)
        if not event.resumed:
            self.conversations.forget(event.agent)

    def _ended(self, event: ev.AgentEnded) -> None:
        agent, code = event.agent, event.exit_code
        self._ran.add(agent)
        if agent in self._stops:
            self._stops[agent].exit_code = code
            self._schedule(self._stops[agent])
        elif not self._has_asked(agent):
            return
        elif code is None:
            if agent in self._processes.lost:
                self._stop(agent, "crash", "its runner is gone, so the end of its process is unknown")
        elif code:
            self._stop(agent, "crash", f"its process ended: {humanise.exit_text(code)}")
            self._stops[agent].exit_code = code

    def _refused(self, event: ev.Refused) -> None:
        """A stopped agent sent another request, so its conversation may be newer than the one that was written."""
        if event.reason not in ("budget", "agent_stopped"):
            return
        stop, newest = self._stops.get(event.agent), self.conversations.find(event.agent)
        if newest is None:
            return
        if stop is not None:
            if stop.written_fingerprint != newest.fingerprint():  # clients that retry send the same
                self._schedule(stop)
        elif event.reason == "agent_stopped":
            self._stop(event.agent, "operator", "stopped by the operator")
        else:
            self._stop(event.agent, "budget", self._why_no_budget(event.agent))

    def _released(self, event: ev.Finished | ev.Abandoned | ev.AttemptFailed) -> None:
        if event.agent in self._stops:
            agent = self._engine.agents.get(event.agent)
            if agent is not None and not agent.in_flight:
                self._schedule(self._stops[event.agent])

    def _has_asked(self, agent: str) -> bool:
        """Return whether an agent's run has sent a request, maybe to an earlier proxy: else nothing would be lost."""
        known = self._engine.agents.get(agent)
        return self.conversations.find(agent) is not None or (known is not None and known.own.used("run").tokens > 0)

    def _process(self, agent: str) -> Process | None:
        return self._processes.process(agent) if agent in self._ran else None

    def _why_no_budget(self, name: str) -> str:
        agent = self._engine.agents.get(name)
        limits = () if agent is None else agent.limits
        return next((_used_up(each.state()) for each in limits if each.exhausted), "its budget is used up")

    # --- Writing --------------------------------------------------------------------------------------------------

    def _stop(self, agent: str, reason: checkpoints.Reason, why: str) -> None:
        if agent not in self._stops:
            # Later by a millisecond at least, so that no two checkpoints have the same name.
            self._latest = at = max(self._wall(), self._latest + 0.001)
            self._stops[agent] = _Stop(agent, checkpoints.checkpoint_name(agent, at), reason, why, at)
            # Not earlier, because these events come with every request.
            self._engine.hooks.watched |= {
                ev.Granted: lambda event: self._stops.pop(event.agent, None),
                ev.GrantedOnArrival: lambda event: self._stops.pop(event.agent, None),
                ev.Finished: self._released,
                ev.AnsweredWhole: self._released,
                ev.Abandoned: self._released,
                ev.AttemptFailed: self._released,
            }
            if len(self._stops) > STOPS_KNOWN:
                del self._stops[next(iter(self._stops))]
        self._schedule(self._stops[agent])

    def _schedule(self, stop: _Stop) -> None:
        stop.settled.clear()
        self._due[stop.name] = stop
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_due(), name="write checkpoints")

    async def _write_due(self) -> None:
        """Write what is due. What is too old by then is removed now and then: a budget of all agents may stop
        thousands at once, and looking for it reads the whole folder."""
        names, size = set[str](), 0
        while self._due:
            if len(names) >= _PRUNE_AFTER or size >= _PRUNE_AFTER_BYTES:
                await self._prune(names)
                names, size = set[str](), 0
            _, stop = self._due.popitem(last=False)
            newest = self.conversations.find(stop.agent)
            stop.written_fingerprint = b"" if newest is None else newest.fingerprint()
            try:
                size += await asyncio.to_thread(self._write, self._facts(stop, newest), newest)
                names.add(stop.name)
            except OSError as error:
                if not self._failing:
                    what = "so the state of stopped agents isn't kept until that is fixed"
                    _log.warning("checkpoints can't be written (%s: %s), %s", self._folder, error.strerror, what)
                self._failing = True
            else:
                if not stop.written:
                    again = command_line("hivemind checkpoints show", stop.name)
                    _log.info("%s is stopped; its checkpoint: %s", stop.agent, again)
                self._failing, stop.written = False, True
            if stop.name not in self._due:
                stop.settled.set()
            if not self._due:
                await self._prune(names)  # while which more may come

    async def _prune(self, names: set[str]) -> None:
        with contextlib.suppress(OSError):  # the next write reports it
            await asyncio.to_thread(checkpoints.prune, self._folder, names, self._keep)

    def _write(self, checkpoint: checkpoints.Checkpoint, conversation: Conversation | None) -> int:
        body = None
        if conversation is not None and not checkpoint.left_out:
            checkpoint, body = with_conversation(checkpoint, conversation.whole_call(), self._max_bytes, self._secrets)
        return checkpoints.write(self._folder, checkpoint, body)

    def _facts(self, stop: _Stop, newest: Conversation | None) -> checkpoints.Checkpoint:
        """Return the checkpoint as far as its agent is known now."""
        agent, process = self._engine.agents.get(stop.agent), self._process(stop.agent)
        made = checkpoints.Checkpoint(stop.name, stop.agent, stop.reason, stop.why, stop.at, exit_code=stop.exit_code)
        if agent is not None:
            tasks = self._engine.tasks.of_agent(agent.name)
            made = replace(
                made,
                parent=None if agent.parent is None else agent.parent.name,
                run=agent.own.used("run"),
                ever=replace(agent.own.ever),
                budgets=tuple(account.state() for account in agent.limits),
                tasks=tuple(_place(task) for task in tasks if task.state in OPEN or task.state == "failed"),
            )
        if process is not None:
            made = replace(made, task=process.task, command=process.command, cwd=process.cwd)
        if newest is None:
            return replace(made, left_out="it sent no request")
        call, head = newest.call, newest.call.head
        request = checkpoints.StoppedRequest(
            head.method.decode("latin-1"),
            path_of(call, self._secrets),
            head.route.origin.name,
            head.client.name,
            head.dialect.name,
            call.facts.model,
            newest.at,
        )
        return replace(made, request=request, session=newest.session, left_out=newest.left_out)


def _place(task: Task) -> checkpoints.TaskPlace:
    return checkpoints.TaskPlace(
        task.spec.id,
        task.state,
        task.spec.batch,
        task.priority.name.lower(),
        task.attempt,
        task.note,
        tuple(sorted(task.missing)),
        tuple(each.spec.id for each in task.followers if each.state in OPEN),
    )


def _used_up(state: ev.BudgetState) -> str:
    return f"{owner(state)} is used up ({how_used(state)})"


class Conversation(Struct):
    """An agent's newest request."""

    call: Call
    """Without its body, where that is packed or left out."""
    at: float
    """Time of arrival, in seconds since the epoch."""
    size: int
    """Length of the body as it was sent."""
    session: checkpoints.ClientSession | None = None
    left_out: str = ""
    """Why its body isn't kept; empty where it is."""
    packed: bytes = b""
    """The body, compressed."""
    _fingerprint: bytes = b""

    def fingerprint(self) -> bytes:
        """Return equal bytes for equal conversations. Of a long one only both ends are hashed: it grows at one end."""
        if not self._fingerprint:
            body = self.call.body
            ends = body[:_END], body[-_END:], self.size.to_bytes(8, "big")
            self._fingerprint = blake2b(b"".join(ends), digest_size=16).digest()
        return self._fingerprint

    def whole_call(self) -> Call:
        """Return the call with its body, unpacking which takes a while."""
        return replace(self.call, body=unpack(self.packed)) if self.packed else self.call

    def hold_packed(self, packed: bytes) -> None:
        """Keep the body compressed from here on."""
        self.fingerprint()
        self.call, self.packed = replace(self.call, body=b""), packed


def _session(client: Client, before: Conversation | None) -> checkpoints.ClientSession | None:
    """Return the session that a request belongs to, after the one before it."""
    known = None if before is None else before.session
    if not client.session or not client.name:
        return known
    if known is not None and (known.client, known.id) == (client.name, client.session):
        return known
    return checkpoints.ClientSession(client.name, client.session, 0 if known is None else known.others + 1)


class Conversations:
    """The newest request of each agent that calls a model, the least recently active agent first: its body is the
    conversation so far. On the path of a request only a reference is kept; no bodies longer than `limit` bytes, and as
    they came no more than about `plain` of them: the others are packed, in a thread."""

    def __init__(
        self, limit: int, total: int = TOTAL_LIMIT, agents: int = AGENTS_LIMIT, plain: int = PLAIN_LIMIT
    ) -> None:
        self._limit = limit
        self._total = total
        self._agents = agents
        self._plain = plain
        self._newest: OrderedDict[str, Conversation] = OrderedDict()
        self._packed = _Lengths()
        self._unpacked = _Lengths()
        self._packing = False
        self._fresh: list[tuple[Call, float]] = []
        """Requests that are still to be entered, and when they came."""
        self._fresh_bytes = 0

    def keep(self, call: Call, at: float) -> None:
        """Keep an agent's newest request."""
        self._fresh.append((call, at))
        self._fresh_bytes += len(call.body)
        if self._fresh_bytes > _FRESH_BYTES or len(self._fresh) >= _FRESH_MOST:
            self._enter_fresh()

    def _enter_fresh(self) -> None:
        fresh, self._fresh, self._fresh_bytes = self._fresh, [], 0
        entered, heads = list[tuple[Call, float]](), dict[str, CallHead]()
        for each in reversed(fresh):
            agent, head = each[0].identity.agent, each[0].head
            if heads.get(agent) is not head or head.client.priority is Priority.LOW:
                entered.append(each)  # else the agent's next one, of the same session, takes its place at once
            heads[agent] = head
        for call, at in reversed(entered):
            self._enter(call, at)

    def _enter(self, call: Call, at: float) -> None:
        agent, size, client = call.identity.agent, len(call.body), call.head.client
        before = self._newest.get(agent)
        if before is not None and client.priority is Priority.LOW:
            return  # a title or a summary, beside the conversation
        session = _session(client, before)
        self._forget_body(agent)
        if size > self._limit:
            why = f"it is {humanise.size(size)}, more than checkpoint.max_mb ({self._limit >> 20}) allows"
            self._newest[agent] = Conversation(replace(call, body=b""), at, size, session, why)
        else:
            self._newest[agent] = Conversation(call, at, size, session)
            self._unpacked.add(agent, size)
            self._pack_surplus()
            self._drop_surplus()
        self._newest.move_to_end(agent)
        if len(self._newest) > self._agents:
            self._drop(next(iter(self._newest)))

    def find(self, agent: str) -> Conversation | None:
        """Return an agent's newest request; None where it sent none, or long ago."""
        self._enter_fresh()
        return self._newest.get(agent)

    def forget(self, agent: str) -> None:
        """Drop an agent's request."""
        self._enter_fresh()
        self._drop(agent)

    def _drop(self, agent: str) -> None:
        self._newest.pop(agent, None)
        self._forget_body(agent)

    def _forget_body(self, agent: str) -> None:
        self._unpacked.discard(agent)
        self._packed.discard(agent)

    def _drop_surplus(self) -> None:
        while self._packed.total + self._unpacked.total > (_WHILE_PACKING if self._packing else 1) * self._total:
            oldest = (self._packed or self._unpacked).pop_first()
            held = self._newest[oldest]
            held.call, held.packed = replace(held.call, body=b""), b""
            held.left_out = "others sent so much since that it wasn't held in memory any longer"

    def _pack_surplus(self) -> None:
        """Pack the body of the least recently active agent, and the next one's after that, until few are unpacked."""
        if self._packing or self._unpacked.total <= self._plain:
            return
        self._packing = True
        agent = next(iter(self._unpacked))
        held = self._newest[agent]
        packing = asyncio.get_running_loop().run_in_executor(None, pack, held.call.body)
        packing.add_done_callback(partial(self._hold_packed, agent, held))

    def _hold_packed(self, agent: str, held: Conversation, packing: asyncio.Future[bytes]) -> None:
        self._packing = False
        if packing.cancelled():
            return
        if self._newest.get(agent) is held and agent in self._unpacked:
            held.hold_packed(packing.result())
            self._unpacked.discard(agent)
            self._packed.add(agent, len(held.packed))
        self._pack_surplus()
        self._drop_surplus()


class _Lengths(OrderedDict[str, int]):
    """Lengths of agents' bodies, those of the least recently active first."""

    total = 0

    def add(self, agent: str, length: int) -> None:
        self[agent] = length
        self.total += length

    def discard(self, agent: str) -> None:
        self.total -= self.pop(agent, 0)

    def pop_first(self) -> str:
        agent, length = self.popitem(last=False)
        self.total -= length
        return agent

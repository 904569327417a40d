"""Keeps a checkpoint of every agent that is stopped: sees the events that stop one, and has it written by a thread.

From being stopped until it is let go again an agent has one checkpoint, which is written again when something is new of
it: what flew has landed, it asked once more (and so sent a longer conversation), its process has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hivemind.host.conversations import Conversation, Conversations
from hivemind.host.processes import Process, Processes
from hivemind.proxy.engine import Engine
from hivemind.scheduler import events as ev
from hivemind.scheduler.ledger.accounts import Spent
from hivemind.scheduler.tasks.graph import OPEN, Task
from hivemind.scheduler.ticket import Agent
from hivemind.settings import Settings
from hivemind.settings.secrets import own_credentials
from hivemind.store.checkpoints import Asked, Checkpoint, Reason, TaskPlace, Used, checkpoint_name, write
from hivemind.text.amounts import how_used, owner
from hivemind.text.shells import command_line
from hivemind.wire.redacted_body import as_kept, path_of

_log = logging.getLogger(__name__)

STOPS_KNOWN = 4096
ANSWER_WITHIN_S = 4.0
"""Whoever reports the end of a process waits no longer for what is kept of it."""


@dataclass(slots=True)
class _Stop:
    """An agent doesn't go on, and its checkpoint."""

    agent: str
    name: str
    reason: Reason
    why: str
    at: float
    exit_code: int | None = None
    said: bytes = b""
    """What was written of the conversation is told again by this."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Nothing about it is to be written."""
    written: bool = False


class Keeper:
    """Of one proxy, on its loop. `max_bytes` is the longest conversation that is kept, `keep` how many checkpoints of
    an agent; `secrets` are credentials of the proxy's own."""

    def __init__(
        self,
        folder: Path,
        engine: Engine,
        processes: Processes,
        wall: Callable[[], float],
        *,
        max_bytes: int,
        keep: int,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self.conversations = Conversations(max_bytes)
        self._folder = folder
        self._engine = engine
        self._processes = processes
        self._wall = wall
        self._max_bytes = max_bytes
        self._keep = keep
        self._secrets = secrets
        self._stops: dict[str, _Stop] = {}
        self._ran: set[str] = set()
        """Agents that were seen to run as processes; what others of their names were long ago is none of theirs."""
        self._due: OrderedDict[str, _Stop] = OrderedDict()
        self._work: asyncio.Task[None] | None = None
        self._failing = False
        self._latest = 0.0
        engine.watched.update(self._watched())

    async def kept(self, agent: str) -> str | None:
        """The name of what is kept of an agent that is stopped, once it is written; None: it isn't stopped, or nothing
        could be written."""
        stop = self._stops.get(agent)
        if stop is None:
            return None
        if stop.name in self._due:
            self._due.move_to_end(stop.name, last=False)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.settled.wait(), ANSWER_WITHIN_S)
        return stop.name if stop.written else None

    async def aclose(self) -> None:
        """See everything written."""
        self._engine.watched.clear()
        if self._work is not None:
            await self._work

    # --- What happens ---------------------------------------------------------------------------------------------

    def _watched(self) -> Mapping[type[ev.Event], Callable[[Any], None]]:
        return {
            ev.BudgetWarned: self._warned,
            ev.Commanded: self._commanded,
            ev.AgentBegan: self._began,
            ev.AgentEnded: self._ended,
            ev.Granted: self._granted,
            ev.Refused: self._refused,
            ev.Finished: self._landed,
            ev.Abandoned: self._landed,
            ev.AttemptFailed: self._landed,
        }

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
        elif self._has_anything(agent):
            if agent in self._stops and self._stops[agent].reason != "operator":
                del self._stops[agent]  # it was let go since, or is stopped for another reason now
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
            self._order(self._stops[agent])
        elif code is None:
            # Else it never ran.
            if agent in self._processes.lost:
                self._stop(agent, "crash", "its runner is gone, so nobody knows how its process ended")
        elif code and self._has_anything(agent):
            self._stop(agent, "crash", _how_it_ended(code))
            self._stops[agent].exit_code = code

    def _granted(self, event: ev.Granted) -> None:
        self._stops.pop(event.agent, None)

    def _refused(self, event: ev.Refused) -> None:
        """It asked although it is stopped, so there is a newer conversation than the one that was kept."""
        if event.reason not in ("budget", "agent_stopped"):
            return
        stop, newest = self._stops.get(event.agent), self.conversations.find(event.agent)
        if newest is None:
            return
        if stop is not None:
            if stop.said != newest.fingerprint():  # clients that try again and again say the same
                self._order(stop)
        elif event.reason == "agent_stopped":
            self._stop(event.agent, "operator", "stopped by the operator")
        else:
            self._stop(event.agent, "budget", self._why_no_budget(event.agent))

    def _landed(self, event: ev.Finished | ev.Abandoned | ev.AttemptFailed) -> None:
        if event.agent in self._stops:
            agent = self._engine.agent(event.agent)
            if agent is not None and not agent.in_flight:
                self._order(self._stops[event.agent])

    def _has_anything(self, agent: str) -> bool:
        return self.conversations.find(agent) is not None or self._process(agent) is not None

    def _process(self, agent: str) -> Process | None:
        return self._processes.process(agent) if agent in self._ran else None

    def _why_no_budget(self, name: str) -> str:
        agent = self._engine.agent(name)
        limits = () if agent is None else agent.limits
        return next((_used_up(each.state()) for each in limits if each.exhausted), "its budget is used up")

    # --- Writing --------------------------------------------------------------------------------------------------

    def _stop(self, agent: str, reason: Reason, why: str) -> None:
        if agent not in self._stops:
            # No two have the same name.
            self._latest = at = max(self._wall(), self._latest + 0.001)
            self._stops[agent] = _Stop(agent, checkpoint_name(agent, at), reason, why, at)
            if len(self._stops) > STOPS_KNOWN:
                del self._stops[next(iter(self._stops))]
        self._order(self._stops[agent])

    def _order(self, stop: _Stop) -> None:
        stop.settled.clear()
        self._due[stop.name] = stop
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._write_due(), name="write checkpoints")

    async def _write_due(self) -> None:
        while self._due:
            _, stop = self._due.popitem(last=False)
            newest = self.conversations.find(stop.agent)
            stop.said = b"" if newest is None else newest.fingerprint()
            try:
                await asyncio.to_thread(self._write, self._facts(stop, newest), newest)
            except OSError as error:
                self._failed(error)
            else:
                self._wrote(stop)
            if stop.name not in self._due:
                stop.settled.set()

    def _write(self, checkpoint: Checkpoint, conversation: Conversation | None) -> None:
        """In a thread."""
        body = None
        if conversation is not None and not checkpoint.left_out:
            checkpoint, body = as_kept(checkpoint, conversation.call, self._max_bytes, self._secrets)
        write(self._folder, checkpoint, body, self._keep)

    def _wrote(self, stop: _Stop) -> None:
        self._failing = False
        if not stop.written:
            stop.written = True
            again = command_line("hivemind checkpoints show", stop.name)
            _log.info("%s doesn't go on; what it was at is kept: %s", stop.agent, again)

    def _failed(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            _log.warning(
                "checkpoints can't be written (%s: %s), so what stopped agents were at isn't kept until that is mended",
                self._folder,
                error.strerror,
            )

    def _facts(self, stop: _Stop, newest: Conversation | None) -> Checkpoint:
        """All that is known now."""
        agent, process = self._engine.agent(stop.agent), self._process(stop.agent)
        return Checkpoint(
            stop.name,
            stop.agent,
            stop.reason,
            stop.why,
            stop.at,
            parent=None if agent is None or agent.parent is None else agent.parent.name,
            exit_code=stop.exit_code,
            run=Used() if agent is None else _used(agent.own.used("run")),
            ever=Used() if agent is None else _used(agent.own.used("ever")),
            budgets=() if agent is None else tuple(account.state() for account in agent.limits),
            tasks=self._tasks(agent),
            task=None if process is None else process.task,
            command=() if process is None else process.command,
            cwd="" if process is None else process.cwd,
            request=None if newest is None else self._asked(newest),
            left_out="it asked for nothing" if newest is None else newest.left_out,
        )

    def _asked(self, conversation: Conversation) -> Asked:
        call = conversation.call
        return Asked(
            call.method.decode("latin-1"),
            path_of(call, self._secrets),
            call.route.origin.name,
            call.client.name,
            call.dialect.name,
            call.facts.model,
            conversation.at,
        )

    def _tasks(self, agent: Agent | None) -> tuple[TaskPlace, ...]:
        if agent is None:
            return ()
        mine = self._engine.tasks.of_agent(agent.name)
        return tuple(_place(task) for task in mine if task.state in OPEN or task.state == "failed")


def keeper_of(
    settings: Settings, folder: Path | None, engine: Engine, processes: Processes, wall: Callable[[], float]
) -> Keeper | None:
    """The keeper as the settings want it; None: nothing is to be kept, or nowhere."""
    if folder is None or not settings.checkpoint.enabled:
        return None
    given = settings.checkpoint
    own = own_credentials(settings)
    return Keeper(folder, engine, processes, wall, max_bytes=given.max_mb << 20, keep=given.keep, secrets=own)


def _place(task: Task) -> TaskPlace:
    return TaskPlace(
        task.spec.id,
        task.state,
        task.spec.batch,
        task.priority.name.lower(),
        task.attempt,
        task.note,
        tuple(sorted(task.missing)),
        tuple(each.spec.id for each in task.followers if each.state in OPEN),
    )


def _used(spent: Spent) -> Used:
    return Used(spent.tokens, spent.dollars, spent.unpriced)


def _used_up(state: ev.BudgetState) -> str:
    return f"{owner(state)} is used up ({how_used(state)})"


def _how_it_ended(code: int) -> str:
    if code > 0:
        return f"its process ended with exit code {code}"
    try:
        return f"its process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its process was ended by signal {-code}"

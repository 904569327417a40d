"""Agents' processes that runners start: their places, their runs, and the tasks that runners claim."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from msgspec import Struct

from hivemind.agent_names import same
from hivemind.api_types import ClaimRequest, PlaceRelease, PlaceRequest, PlaceResponse, RunUsage, TaskClaim, TaskState
from hivemind.control.rights import Rights
from hivemind.host.runs import Runs
from hivemind.proxy.engine import Engine
from hivemind.scheduler.commands import BeginAgent, ClaimTask, Conflict, EndAgent, check_exit_code
from hivemind.scheduler.events import StartRefused
from hivemind.scheduler.places import ASK_EVERY_S, KEPT_S, PlaceLimits, Places
from hivemind.scheduler.tasks import OPEN, Task
from hivemind.scheduler.ticket import Agent
from hivemind.wire.identity import Claims
from hivemind.wire.request_head import RequestRefused

_log = logging.getLogger(__name__)
_REFUSED_KEPT = 1000
"""Agents of which is remembered that their start was refused."""
_TO_START = ("waiting", "ready", "paused", "blocked")


class Process(Struct, frozen=True):
    """How an agent's process was started. The command may hold secrets: it isn't for screens or logs."""

    command: tuple[str, ...]
    cwd: str
    task: str | None


class Processes:
    """The processes of one proxy's agents, on a running loop."""

    def __init__(
        self,
        engine: Engine,
        limits: PlaceLimits,
        claims: Claims,
        key_file: Path | None = None,
        rights: Rights | None = None,
    ) -> None:
        """`key_file` is as of :class:`Runs`."""
        self._engine = engine
        self._claims = claims
        self._rights = rights
        self.runs = Runs(key_file, self._is_above)
        self._ledger = engine.ledger
        self._places = Places(limits)
        self._known: dict[str, Process] = {}
        self._refused: dict[str, tuple[str, str]] = {}
        """Agents whose start was refused, latest last: the runner that asked, and why."""
        self._taken_over: set[str] = set()
        """Agents whose process began before this proxy, so that some of its requests aren't known here."""
        self._workers: dict[str, float] = {}
        """Runners of tasks outside of batches, and until when they are there."""
        self.lost: set[str] = set()
        """Agents whose runner fell silent, so that the end of their processes is unknown."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer = asyncio.get_running_loop().call_later(ASK_EVERY_S, self._check_again)
        for name in () if self._ledger is None else self._ledger.open_runs():
            self._places.keep(engine.now(), name, self._above(name))
            self.runs.kept(name)

    def _is_above(self, one: str, other: str) -> bool:
        return same(one, other) if self._rights is None else self._rights.includes(one, other)

    def place(self, wanted: PlaceRequest, who: str) -> PlaceResponse:
        """Give a runner a place, or renew the one it has. Raises: Rejected."""
        try:
            agent = self._claims.spelled(wanted.agent)
            given = wanted.parent if self._rights is None else self._rights.parent_for(wanted)
            parent = given and self._claims.spelled(given)
        except RequestRefused as error:
            raise Conflict(str(error)) from None
        known = self._places.find(agent)
        kept = known is not None and known.until is not None
        if wanted.fresh and (kept or (known is None and self._engine.agents.get(agent) is not None)):
            raise Conflict(f"{agent} is known already; choose another name")
        if kept:
            self._places.leave(agent)
            known = None
            if not wanted.running:
                self._end_lost(agent)  # it is started anew, so it doesn't run any more
        ran = known is not None and known.running
        mine = known is None or (known.runner == wanted.runner and bool(wanted.running or wanted.runner or not ran))
        if not mine:
            raise Conflict(f"{agent} {'runs' if ran else 'queues'} already; choose another name, or stop it first")
        above = () if parent is None else (parent, *self._above(parent))
        answer = self._places.ask(
            self._engine.now(),
            agent,
            above,
            wanted.priority,
            running=wanted.running,
            runner=wanted.runner,
            group=wanted.group,
        )
        if answer.refused:
            self._report_refused(agent, wanted.runner, answer.refused)
            return PlaceResponse(False, 0, refused=answer.refused)
        self._refused.pop(agent, None)
        self._idle.clear()
        if answer.granted and not ran:
            # A running process that isn't known was started before this proxy.
            resumed = wanted.resumed or wanted.running
            deadline_s = None if wanted.deadline is None else wanted.deadline - time.time()
            self._engine.apply(BeginAgent(agent, parent, wanted.task, resumed, wanted.running, deadline_s), who)
            self.lost.discard(agent)
            if wanted.running:
                self._taken_over.add(agent)
            else:
                self._taken_over.discard(agent)
            self._known[agent] = Process(wanted.command, wanted.cwd, wanted.task)
            if self._ledger is not None:
                self._ledger.run_began(agent, wanted.command, wanted.cwd, wanted.task, goes_on=wanted.running)
        token = self._claims.token_of_run(agent) if answer.granted and wanted.takes_token else ""
        run_token = self.runs.began(agent, wanted.runner, wanted.process) if answer.granted else ""
        return PlaceResponse(answer.granted, answer.ahead, token, run_token)

    def _report_refused(self, agent: str, runner: str, why: str) -> None:
        """Report a start that is refused; a batch's runner asks again and again."""
        if self._refused.pop(agent, None) != (runner, why):
            _log.warning("%s isn't started: %s", agent, why)
            self._engine.publish(StartRefused(self._engine.now(), agent, why))
        self._refused[agent] = runner, why
        if len(self._refused) > _REFUSED_KEPT:
            del self._refused[next(iter(self._refused))]

    def is_below(self, run: str, name: str) -> bool:
        """Return whether an agent has a place, or queues for one, as one that a run started."""
        place = self._places.find(name)
        return place is not None and any(same(above, run) for above, _ in place.above)

    def _above(self, name: str) -> tuple[str, ...]:
        """Return the agent that started this one, the one that started that, and so on."""
        line, agent = [], self._engine.agents.get(name)
        while agent is not None and (agent := agent.parent) is not None:
            line.append(agent.name)
        return tuple(line)

    def leave(self, ended: PlaceRelease, who: str) -> RunUsage:
        """Note that a process has ended, and return what it used. Raises: Rejected."""
        check_exit_code(ended.exit_code)
        name = self._engine.spelling(ended.agent)
        agent = self._engine.agents.get(name)
        place = self._places.find(name)
        requests, elsewhere = self._engine.world.traffic(name, ended.client)
        if place is not None and place.runner == ended.runner:
            if self._places.leave(name):
                self._end(name, ended.exit_code, who, asked=ended.asked)
            self._note_idle()
        elif (place is None or place.until is not None) and agent is not None and ended.exit_code is not None:
            self._places.leave(name)
            self._end(name, ended.exit_code, who, asked=ended.asked)  # it was started before this proxy
        if agent is None:
            return RunUsage(0, 0.0, 0, None)
        spent = agent.tree.used("run")
        used_up = next((account.state() for account in agent.limits if account.exhausted), None)
        return RunUsage(
            spent.tokens,
            spent.dollars,
            spent.unpriced,
            None,
            used_up,
            agent.stopped,
            spent.estimated,
            None if not requests and spent.tokens and name in self._taken_over else requests,
            elsewhere if ended.exit_code == 0 else (),  # one that failed may have ended before its first request
            self._whole_at(agent),
        )

    def _whole_at(self, agent: Agent) -> float | None:
        """Return when the long windows are whole again that keep a process, as of :attr:`.RunUsage.whole_at`."""
        left_s = max(each.kept_until for each in self._engine.agents.parts_of(agent)) - self._engine.now()
        return time.time() + left_s if left_s > 0 else None

    def lapse(self, unheard_s: float = 0.0) -> None:
        """End the runs of runners that fell silent; for `unheard_s` nobody could be heard."""
        now = self._engine.now()
        for agent in self._places.lapse(now, unheard_s):
            self._end_lost(agent)
        self._workers = {name: until + unheard_s for name, until in self._workers.items() if until + unheard_s > now}
        self._note_idle()

    @property
    def agents(self) -> tuple[str, ...]:
        """Agents whose processes run, or wait for a place."""
        return self._places.agents

    def runs_now(self, agent: str) -> bool:
        """Return whether an agent's process runs, or waits for a place."""
        return self._places.find(agent) is not None

    async def idle(self) -> None:
        """Wait until no process runs or waits for a place."""
        await self._idle.wait()

    def close(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _check_again(self) -> None:
        loop = asyncio.get_running_loop()
        late_s = loop.time() - self._timer.when()
        self._timer = loop.call_later(ASK_EVERY_S, self._check_again)
        # Where it is late, this process was stopped, or starved, so that no runner could ask.
        self.lapse(late_s if late_s > ASK_EVERY_S else 0.0)

    def _note_idle(self) -> None:
        if not self._places.agents:
            self._idle.set()

    def _end_lost(self, agent: str) -> None:
        self.lost.add(agent)
        if self._engine.agents.get(agent) is None:  # it ran when an earlier proxy ended, and had no event since
            self._engine.apply(BeginAgent(agent, resumed=True, goes_on=True), "runner")
        self._end(agent, None, "runner")

    def _end(self, name: str, exit_code: int | None, who: str, *, asked: bool = False) -> None:
        self._claims.run_ended(name)
        self.runs.ended(name)
        self._engine.apply(EndAgent(name, exit_code, asked), who)
        agent = self._engine.agents.get(name)
        if self._ledger is not None and agent is not None:
            self._ledger.run_ended(name, exit_code, agent.own.used("run"))

    def process(self, agent: str) -> Process | None:
        """Return how an agent's process was started last; None where no runner started it."""
        known, ledger = self._known.get(agent), self._ledger
        run = None if known is not None or ledger is None else ledger.last_run(agent)
        return known if run is None else Process(run.command, run.cwd, run.task)

    def tasks(self, batch: str | None, *, running: bool = False) -> tuple[TaskState, ...]:
        """Return all tasks of a batch, or (None) all tasks; `running`: only those that run."""
        return tuple(
            self._state(task)
            for task in self._engine.tasks.values()
            if batch in (None, task.spec.batch) and (not running or task.state == "running")
        )

    def _state(self, task: Task) -> TaskState:
        spec = task.spec
        starts = task.state in _TO_START and bool(spec.command)
        attended = not starts or self._has_runner(spec.batch) or (bool(self.workers) and not spec.planned)
        paused_s = max(0.0, task.paused_until - self._engine.now())
        return TaskState(spec, task.state, task.priority, task.attempt, task.runner, task.note, attended, paused_s)

    @property
    def workers(self) -> tuple[str, ...]:
        """Runners that are there for tasks outside of batches."""
        now = self._engine.now()
        return tuple(name for name, until in self._workers.items() if until > now)

    def claim(self, wanted: ClaimRequest, who: str) -> TaskClaim:
        """Start the next eligible task that has a command."""
        if wanted.worker:
            self._workers[wanted.worker] = self._engine.now() + KEPT_S
        tasks = [task for task in self._engine.tasks.values() if self._claimable(task, wanted.batch)]
        ready = [task for task in tasks if task.state == "ready" and task.spec.command] if wanted.wants else []
        task = min(ready, key=lambda each: each.rank, default=None)
        if task is not None:
            self._engine.apply(ClaimTask(task.spec.id, wanted.runner), who)
        states = [each.state for each in tasks]
        given = None if task is None else self._state(task)
        return TaskClaim(given, sum(each in OPEN for each in states), states.count("running"), states.count("paused"))

    def _claimable(self, task: Task, batch: str | None) -> bool:
        spec = task.spec
        return spec.batch == batch if batch is not None else not (spec.planned or self._has_runner(spec.batch))

    def _has_runner(self, batch: str) -> bool:
        place = self._places.find(batch) if batch else None
        return place is not None and place.group

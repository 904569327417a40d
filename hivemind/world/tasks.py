"""The fold of the task graph: each task's state, and what its agent used while it ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, islice
from operator import attrgetter
from typing import Any

from hivemind.scheduler.events import TaskAdded, TaskChanged, TaskForgotten
from hivemind.scheduler.tasks import OPEN, TASK_STATES
from hivemind.scheduler.types import Priority
from hivemind.world.agents import AgentFold
from hivemind.world.snapshot import RUNS_KEPT, TASKS_SHOWN, TaskView
from hivemind.world.state import TaskRecord, WorldState

_FIRST = ("running", "ready", "paused", "waiting", "blocked")
"""Which of too many tasks are shown rather than others."""
_saved_values = attrgetter(*TaskRecord.__struct_fields__)


class TaskFold(TaskRecord, eq=False):
    """One task."""

    worker: AgentFold | None = None
    """While it runs, its agent."""

    def begin(self, worker: AgentFold, used_before: tuple[int, float] | None = None) -> None:
        """Begin an attempt; `used_before` is what the agent had used then, if that isn't now."""
        self.worker, self.used_before = worker, used_before or (worker.usage.total, worker.dollars)

    def used(self) -> tuple[int, float]:
        """Return the tokens and dollars that its agent used while it was running, as far as prices are known."""
        if self.worker is None or self.used_before is None:
            return self.tokens, self.dollars
        tokens, dollars = self.used_before
        return self.tokens + self.worker.usage.total - tokens, self.dollars + self.worker.dollars - dollars

    def end(self, at: float) -> None:
        """End the attempt."""
        self.ran_s += at - self.since
        self.runs = (*self.runs, (self.since, at))[-RUNS_KEPT:]
        self.tokens, self.dollars = self.used()
        self.worker = self.used_before = None


class TaskBook:
    """All tasks that the scheduler knows. Each event costs the same, however many there are; a view of them is bounded
    by what is shown."""

    def __init__(self, agent: Callable[[str, float], AgentFold], settle: Callable[[], None]) -> None:
        """`agent` finds or makes one by name; `settle` prices what was used up to now."""
        self._agent = agent
        self._settle = settle
        self._clear()

    def _clear(self) -> None:
        self.numbered = 0
        """Tasks ever added."""
        self._tasks: dict[str, TaskFold] = {}
        """By last move; the others likewise."""
        self._in: dict[str, dict[str, TaskFold]] = {state: {} for state in TASK_STATES}
        self._ended: dict[str, TaskFold] = {}
        self._of: dict[str, dict[str, TaskFold]] = {}
        """The open ones by agent."""
        self._running: dict[str, dict[str, TaskFold]] = {}
        """The running ones by agent."""

    def take(self, agents: Mapping[str, AgentFold]) -> list[Any]:
        """Return the values of all, as of :class:`.capture.Capture`."""
        for task in self._in["running"].values():
            if agents.get(task.added.agent) is not task.worker:  # the agent was forgotten
                tokens, dollars = task.used()
                task.begin(AgentFold(name=task.added.agent), (task.tokens - tokens, task.dollars - dollars))
        return list(chain.from_iterable(map(_saved_values, self._tasks.values())))

    def restore(self, state: WorldState, agents: Mapping[str, AgentFold]) -> None:
        """Take over the given state; `agents` are the known ones."""
        self._clear()
        self.numbered = state.numbered
        for stands in state.tasks:
            if stands.state in self._in:
                task = TaskFold(*_saved_values(stands))
                if task.used_before is not None:
                    task.begin(agents.get(task.added.agent) or AgentFold(name=task.added.agent), task.used_before)
                self._place(task)

    def added(self, event: TaskAdded) -> None:
        """Add a task, in place of one of the same name."""
        self.forgotten(TaskForgotten(event.at, event.task))
        self.numbered += 1
        self._enter(TaskFold(event, self.numbered, event.priority, event.priority, since=event.at), event.at)

    def changed(self, event: TaskChanged) -> bool:
        """Update a task. Return whether it changed its state since it was added: after a restart tasks are added in
        the state that they had."""
        task = self._tasks.get(event.task)
        news = task is None or event.at > task.added.at
        if task is None:
            # The events begin in the middle of a run, so the rest of it isn't known.
            batch = event.task.partition(".")[0] if "." in event.task else ""
            self.added(TaskAdded(event.at, event.task, batch, event.task, event.priority, 0, ()))
            task = self._tasks[event.task]
        task.priority, task.attempt, task.note = event.priority, event.attempt, event.note
        task.paused_until = event.at + event.paused_s if event.paused_s else 0.0
        if event.state == task.state or event.state not in self._in:
            return False
        self._leave(task, event.at)
        task.state, task.since = event.state, event.at
        self._enter(task, event.at)
        return news

    def forgotten(self, event: TaskForgotten) -> None:
        """Remove a task that is no longer known."""
        task = self._tasks.get(event.task)
        if task is not None:
            self._leave(task, event.at)

    def reprioritised(self, name: str, priority: Priority) -> str:
        """Change a task's own priority. Return the one before."""
        task = self._tasks.get(name)
        if task is None:
            return ""
        before, task.own = task.own, priority
        return before.name.lower()

    def of(self, agent: str) -> tuple[str | None, bool, float]:
        """Return the task that an agent works on, or will, whether that waits for others, and until when it is
        paused."""
        running = self._running.get(agent)
        if running:
            return next(reversed(running)), False, 0.0
        mine = self._of.get(agent)
        if not mine:
            return None, False, 0.0
        ready = next((task for task in islice(mine.values(), TASKS_SHOWN) if task.state in ("ready", "paused")), None)
        if ready is not None:
            return ready.added.task, False, ready.paused_until
        return next(iter(mine)), True, 0.0

    def by_agent(self) -> set[tuple[str, object]]:
        """Return what :meth:`of` tells of each agent that has a task."""
        return {(agent, self.of(agent)) for agent in {**self._of, **self._running}}

    @property
    def done(self) -> int:
        """How many known tasks are done."""
        return len(self._in["done"])

    def counts(self) -> Mapping[str, int]:
        """Return the number of tasks by state, without zeros."""
        return {state: len(tasks) for state, tasks in self._in.items() if tasks}

    def views(self, at: float) -> tuple[TaskView, ...]:
        """Return views at this moment by arrival, :data:`~hivemind.world.snapshot.TASKS_SHOWN` at most."""
        open_ = chain.from_iterable(self._in[state].values() for state in _FIRST)
        shown = list(islice(chain(open_, reversed(self._ended.values())), TASKS_SHOWN))
        shown.sort(key=attrgetter("number"))
        return tuple([_view(task, at) for task in shown])

    def _enter(self, task: TaskFold, at: float) -> None:
        if task.state == "running":
            self._settle()
            task.begin(self._agent(task.added.agent, at))
        self._place(task)

    def _place(self, task: TaskFold) -> None:
        name, agent = task.added.task, task.added.agent
        self._tasks[name] = self._in[task.state][name] = task
        if task.state in OPEN:
            self._of.setdefault(agent, {})[name] = task
        else:
            self._ended[name] = task
        if task.worker is not None:
            self._running.setdefault(agent, {})[name] = task

    def _leave(self, task: TaskFold, at: float) -> None:
        name, agent = task.added.task, task.added.agent
        del self._tasks[name], self._in[task.state][name]
        self._ended.pop(name, None)
        for by_agent in (self._of, self._running):
            mine = by_agent.get(agent, {})
            if mine.pop(name, None) is not None and not mine:
                del by_agent[agent]
        if task.worker is not None:
            self._settle()
            task.end(at)


def _view(task: TaskFold, at: float) -> TaskView:
    added = task.added
    tokens, dollars = task.used()
    return TaskView(
        id=added.task,
        batch=added.batch,
        agent=added.agent,
        state=task.state,
        priority=task.priority,
        own_priority=task.own,
        estimated_tokens=added.estimated_tokens,
        after=added.after,
        attempt=task.attempt,
        note=task.note,
        since_s=at - task.since,
        paused_s=max(0.0, task.paused_until - at),
        ran_s=task.ran_s + (at - task.since if task.worker is not None else 0.0),
        tokens=tokens,
        dollars=dollars,
        runs=_runs(task, at),
    )


def _runs(task: TaskFold, at: float) -> tuple[tuple[float, float], ...]:
    ended = tuple([(at - began, at - ended) for began, ended in task.runs])
    return ended if task.worker is None else (*ended, (at - task.since, 0.0))[-RUNS_KEPT:]

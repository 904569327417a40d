"""The task graph as the events tell it: each task's state, and what its agent used while it ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import chain, islice
from operator import attrgetter
from typing import Any

from hivemind.scheduler.events import TaskAdded, TaskChanged, TaskForgotten
from hivemind.scheduler.tasks.graph import OPEN, TASK_STATES
from hivemind.scheduler.types import Priority
from hivemind.world.agents import AgentFold
from hivemind.world.snapshot import TASKS_SHOWN, TaskView
from hivemind.world.state import TASK_TAKEN, WorldState

_FIRST = ("running", "ready", "waiting", "blocked")
"""Which of too many tasks are shown rather than others."""
_values = attrgetter(*TASK_TAKEN)
_ENDED = tuple(state for state in TASK_STATES if state not in OPEN)


@dataclass(slots=True, eq=False)
class TaskFold:
    """One task. Times are on the proxy's clock."""

    added: TaskAdded
    number: int
    """By arrival."""
    own: Priority
    priority: Priority
    since: float
    state: str = "waiting"
    moved: int = 0
    """The number of its last move, among all tasks' moves."""
    attempt: int = 0
    note: str = ""
    ran_s: float = 0.0
    """In attempts that are over, and what its agent used in them."""
    tokens: int = 0
    dollars: float = 0.0

    @classmethod
    def new(cls, added: TaskAdded, number: int) -> TaskFold:
        """Return a task that was just added."""
        return cls(added, number, added.priority, added.priority, added.at)


class Work:
    """A running attempt: what its agent had used when it began."""

    __slots__ = ("_agent", "_dollars", "_tokens")

    def __init__(self, agent: AgentFold, before: tuple[int, float] | None = None) -> None:
        self._agent = agent
        self._tokens, self._dollars = before or (agent.usage.total, agent.dollars)

    def before(self, agents: Mapping[str, AgentFold]) -> tuple[int, float]:
        """What the agent had used; where it is forgotten, as if it had used nothing since it came back."""
        if agents.get(self._agent.name) is self._agent:
            return self._tokens, self._dollars
        return -self.tokens, -self.dollars

    @property
    def tokens(self) -> int:
        """Tokens used since it began."""
        return self._agent.usage.total - self._tokens

    @property
    def dollars(self) -> float:
        """Dollars used since it began, as far as prices are known."""
        return self._agent.dollars - self._dollars


class TaskBook:
    """All tasks that the scheduler knows. Each event costs the same, however many there are; a view of them is bounded
    by what is shown."""

    def __init__(self, agent: Callable[[str, float], AgentFold], settle: Callable[[], None]) -> None:
        """`agent` finds or makes one by name; `settle` prices what was used up to now."""
        self._agent = agent
        self._settle = settle
        self._clear()

    def _clear(self) -> None:
        self.numbered = self._moves = 0
        """Tasks that there ever were, and moves of theirs."""
        self._tasks: dict[str, TaskFold] = {}
        self._in: dict[str, dict[str, TaskFold]] = {state: {} for state in TASK_STATES}
        self._work: dict[str, Work] = {}
        """Of those that run."""
        self._ended: dict[str, TaskFold] = {}
        """The one that ended last at the end."""
        self._of: dict[str, dict[str, TaskFold]] = {}
        """By agent, its open ones."""
        self._running: dict[str, dict[str, None]] = {}
        """By agent, those that it works on, the latest at the end."""

    def take(self, agents: Mapping[str, AgentFold]) -> tuple[list[Any], dict[str, tuple[int, float]]]:
        """All of them, as of :class:`.capture.Capture`; and by those that run, what their agent had used before."""
        used_before = {name: work.before(agents) for name, work in self._work.items()}
        return list(chain.from_iterable(map(_values, self._tasks.values()))), used_before

    def restore(self, state: WorldState, agents: Mapping[str, AgentFold]) -> None:
        """Take over the given state; `agents` are the known ones."""
        self._clear()
        self.numbered = state.numbered
        for stands in state.tasks:
            if stands.state not in self._in:
                continue
            task = TaskFold(
                **{each.name: getattr(stands, each.name) for each in fields(stands) if each.name != "used_before"}
            )
            agent = task.added.agent
            working = None
            if stands.used_before is not None:
                working = Work(agents.get(agent) or AgentFold(agent), stands.used_before)
            self._place(task, working)

    def added(self, event: TaskAdded) -> None:
        """Add a task, in place of one of the same name."""
        self.forgotten(TaskForgotten(event.at, event.task))
        self.numbered += 1
        self._enter(TaskFold.new(event, self.numbered), event.at)

    def changed(self, event: TaskChanged) -> bool:
        """It moved, or counts as another priority. Returns whether it moved, which is no news of one that has just
        come: after a restart they all come as they were."""
        task = self._tasks.get(event.task)
        news = task is None or event.at > task.added.at
        if task is None:
            # The fold begins in the middle: what isn't told any more stays unknown.
            batch = event.task.partition(".")[0] if "." in event.task else ""
            self.added(TaskAdded(event.at, event.task, batch, event.task, event.priority, 0, ()))
            task = self._tasks[event.task]
        task.priority, task.attempt, task.note = event.priority, event.attempt, event.note
        if event.state == task.state or event.state not in self._in:
            return False
        self._leave(task, event.at)
        task.state, task.since = event.state, event.at
        self._enter(task, event.at)
        return news

    def forgotten(self, event: TaskForgotten) -> None:
        """Remove a task that is no longer known."""
        task = self._tasks.pop(event.task, None)
        if task is not None:
            self._leave(task, event.at)

    def reprioritised(self, name: str, priority: Priority) -> str:
        """Change a task's own priority. Return the one before."""
        task = self._tasks.get(name)
        if task is None:
            return ""
        before, task.own = task.own, priority
        return before.name.lower()

    def of(self, agent: str) -> tuple[str | None, bool]:
        """Return the task that an agent works on, or will, and whether that waits for others."""
        running = self._running.get(agent)
        if running:
            return next(reversed(running)), False
        mine = self._of.get(agent)
        if not mine:
            return None, False
        ready = next((task for task in islice(mine.values(), TASKS_SHOWN) if task.state == "ready"), None)
        if ready is not None:
            return ready.added.task, False
        return next(iter(mine)), True

    def counts(self) -> Mapping[str, int]:
        """Return the number of tasks by state, without zeros."""
        return {state: len(tasks) for state, tasks in self._in.items() if tasks}

    def views(self, at: float) -> tuple[TaskView, ...]:
        """As they stand at this moment, by arrival: :data:`~hivemind.world.snapshot.TASKS_SHOWN` at most."""
        open_ = chain.from_iterable(self._in[state].values() for state in _FIRST)
        shown = list(islice(chain(open_, reversed(self._ended.values())), TASKS_SHOWN))
        shown.sort(key=_number)
        return tuple([self._view(task, at) for task in shown])

    def _enter(self, task: TaskFold, at: float) -> None:
        working = None
        if task.state == "running":
            self._settle()
            working = Work(self._agent(task.added.agent, at))
        self._place(task, working)

    def _place(self, task: TaskFold, working: Work | None) -> None:
        name, agent = task.added.task, task.added.agent
        self._moves += 1
        task.moved = self._moves
        self._tasks[name] = self._in[task.state][name] = task
        if task.state in OPEN:
            self._of.setdefault(agent, {})[name] = task
        else:
            self._ended[name] = task
        if working is not None:
            self._work[name] = working
            self._running.setdefault(agent, {})[name] = None

    def _leave(self, task: TaskFold, at: float) -> None:
        name, agent = task.added.task, task.added.agent
        del self._in[task.state][name]
        self._ended.pop(name, None)
        mine = self._of.get(agent, {})
        mine.pop(name, None)
        if not mine:
            self._of.pop(agent, None)
        work = self._work.pop(name, None)
        if work is not None:
            self._settle()
            task.ran_s += at - task.since
            task.tokens += work.tokens
            task.dollars += work.dollars
            self._running[agent].pop(name)
            if not self._running[agent]:
                del self._running[agent]

    def _view(self, task: TaskFold, at: float) -> TaskView:
        added, tokens, dollars, ran_s = task.added, task.tokens, task.dollars, task.ran_s
        work = self._work.get(added.task)
        if work is not None:
            ran_s, tokens, dollars = ran_s + at - task.since, tokens + work.tokens, dollars + work.dollars
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
            ran_s=ran_s,
            tokens=tokens,
            dollars=dollars,
        )


def _number(task: TaskFold) -> int:
    return task.number

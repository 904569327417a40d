"""The task graph: dependencies, eligible tasks and their order (paper, Priority Queue with Dependency DAG).

A task is eligible when all its predecessors are done. Of the eligible tasks the most urgent is first, then the one with
the earliest deadline, then the smallest, then the oldest; a task counts as at least as urgent as any task that waits
for it. The requests of the agent that works on a task wait while the task does, and have its priority.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple

from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler import events as ev
from hivemind.scheduler.commands import Conflict, NotKnown, Rejected, some
from hivemind.scheduler.ticket import FINAL_STATUS, Agent, Refusal
from hivemind.scheduler.types import Priority, TaskSpec

TASK_STATES = ("waiting", "ready", "paused", "running", "done", "failed", "blocked", "skipped", "cancelled")
"""Waits for predecessors; eligible; will be at a known moment, when its plan's window is whole again; being worked on;
ended well; ended badly; a predecessor ended badly, and it waits until that is retried; the same, and it will never run;
not wanted any more."""
OPEN = frozenset({"waiting", "ready", "paused", "running", "blocked"})  # states that aren't an end
SPOILED = frozenset({"failed", "cancelled", "skipped"})
"""Ends after which a successor can't become eligible, unless the task is retried."""
RETRIED = SPOILED | {"paused"}  # states in which it can be
MOST = 20_000  # tasks known at once
MOST_TOKENS = 10**12  # the largest estimate of a task
MOST_ATTEMPTS = 1_000

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_ENDED = {"failed": "failed", "cancelled": "was cancelled", "skipped": "was skipped"}


class SavedTask(Struct, frozen=True):
    """A task, as a restart must know it."""

    spec: TaskSpec
    number: int
    state: str
    attempt: int
    runner: str
    note: str
    paused_until: float = 0.0
    ready_at: float | None = None


@dataclass(slots=True, eq=False)
class Task:
    """One task and its state. Changed by :class:`Tasks` alone."""

    spec: TaskSpec
    number: int  # order of arrival
    state: str = "waiting"
    attempt: int = 0  # number of times it was started
    runner: str = ""  # the runner that started it, as long as it runs
    note: str = ""  # why it is in its state
    paused_until: float = 0.0  # when it becomes eligible; 0: it isn't paused
    ready_at: float | None = None  # when it was first eligible
    priority: Priority = field(init=False)  # its own, or that of a task that waits for it
    missing: set[str] = field(default_factory=set)  # predecessors that aren't done
    followers: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.priority = self.spec.priority

    def saved(self) -> SavedTask:
        return SavedTask(*(getattr(self, name) for name in SavedTask.__struct_fields__))

    @property
    def agent(self) -> str:
        """The agent that works on it."""
        return self.spec.agent or self.spec.id

    @property
    def rank(self) -> tuple[Priority, float, float, int]:
        """Sort key of eligible tasks: priority, then deadline, then size (unknown last), then arrival."""
        spec, never = self.spec, float("inf")
        return self.priority, spec.deadline or never, spec.estimated_tokens or never, self.number


class Tasks(dict[str, Task]):
    """All tasks by id. Every method that changes something returns the tasks that moved, in that order."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = 0
        self._by_agent: dict[str, dict[str, Task]] = {}

    def of_agent(self, agent: str) -> Iterable[Task]:
        """Return the tasks that an agent works on, by arrival."""
        return self._by_agent.get(agent, {}).values()

    def submit(self, specs: Iterable[TaskSpec]) -> list[Task]:
        """Add tasks, all or none. Earlier tasks among the returned ones have another priority now.

        Raises: Rejected: an id is invalid or taken, a predecessor isn't known, or there is a cycle, which is listed.
        """
        specs = list(specs)
        order = self._checked(specs)
        made = [self._add(Task(spec, self._numbers + 1)) for spec in specs]
        for task in made:
            self._link(task)
        fresh = {spec.id for spec in specs}
        for name in order:
            if name in fresh:
                self._settle(self[name])
        return _once([*made, *self._inherit(self[name] for name in reversed(order))])

    def claim(self, name: str, runner: str) -> list[Task]:
        """Start a task. Raises: Rejected: it isn't eligible."""
        task = self.known(name)
        if task.state not in ("ready", "paused"):
            raise Conflict(f"task {name} is {task.state}{_because(task)}, so it can't be started")
        task.attempt += 1
        _move(task, "running", runner=runner)
        return [task]

    def finish(self, name: str, *, ok: bool, note: str, again: bool, attempt: int | None = None) -> list[Task]:
        """End an attempt. Raises: Rejected: it isn't the one that runs, or none does."""
        task = self.known(name)
        if task.state != "running":
            raise Conflict(f"task {name} is {task.state}, not running")
        if attempt not in (None, task.attempt):
            raise Conflict(f"task {name} is at attempt {task.attempt}; attempt {attempt} was over before")
        if again and not ok:
            _move(task, "ready", note)
            return [task]
        _move(task, "done" if ok else "failed", note)
        if ok:
            for follower in task.followers:
                follower.missing.discard(name)
        return self._settle_followers(task)

    def pause(self, names: Iterable[str], until: float, note: str) -> list[Task]:
        """Have those of these tasks that are eligible be so again at a moment, and not before."""
        ready = [task for name in names if (task := self.get(name)) is not None and task.state == "ready"]
        for task in ready:
            _move(task, "paused", note)
            task.paused_until = until
        return ready

    def cancel(self, name: str) -> list[Task]:
        """Cancel a task. Raises: Rejected: it has ended."""
        task = self.known(name)
        if task.state not in OPEN:
            raise Conflict(f"task {name} is {task.state} already")
        _move(task, "cancelled")
        return self._settle_followers(task)

    def retry(self, name: str) -> list[Task]:
        """Reset a task as if it had never been started.

        Raises: Rejected: it didn't end badly, or would be skipped at once.
        """
        task = self.known(name)
        if task.state not in RETRIED:
            raise Conflict(f"task {name} is {task.state}{_because(task)}; only one that failed can be tried again")
        state, note = self._due_state(task)
        if state == "skipped":
            raise Conflict(f"task {name} would be skipped again, because {note}; try that again first")
        task.attempt = 0
        _move(task, state, note)
        return self._settle_followers(task)

    def set_priority(
        self, name: str, priority: Priority, deadline: float | None = None, deadline_s: float = 0.0
    ) -> list[Task]:
        """Set a task's own priority, and a deadline. Raises: Rejected: it has ended."""
        task = self.known(name)
        if task.state not in OPEN:
            raise Conflict(f"task {name} is {task.state} already")
        task.spec = replace(task.spec, priority=priority)
        if deadline is not None:
            task.spec = replace(task.spec, deadline=deadline, deadline_s=deadline_s)
        return _once([task, *self._inherit([task])])

    def forget(self, batch: str) -> tuple[list[Task], list[Task]]:
        """Drop a batch. Return its tasks, and others that have another priority now.

        Raises: Rejected: one of its tasks runs, or one of another batch waits for it.
        """
        gone = [task for task in self.values() if task.spec.batch == batch]
        for task in gone:
            if task.state == "running":
                raise Conflict(f"task {task.spec.id} is running")
            outside = next((f for f in task.followers if f.spec.batch != batch and task.spec.id in f.missing), None)
            if outside is not None:
                raise Conflict(f"task {outside.spec.id} of another batch waits for {task.spec.id}")
        for task in gone:
            del self[task.spec.id]
            mine = self._by_agent[task.agent]
            del mine[task.spec.id]
            if not mine:
                del self._by_agent[task.agent]
        before = {name for task in gone for name in task.spec.after if name in self}
        for name in before:
            self[name].followers = [each for each in self[name].followers if each.spec.batch != batch]
        return gone, self._inherit(self[name] for name in sorted(before) if self[name].state in OPEN)

    def take_over(self, saved: Iterable[SavedTask]) -> None:
        """Take over tasks from an earlier run."""
        for each in sorted(saved, key=lambda each: each.number):
            self._add(Task(*astuple(each)))
        for task in self.values():
            self._link(task)
        self._inherit(reversed(self.values()))

    def known(self, name: str) -> Task:
        """Return the task of that id. Raises: Rejected: there is none."""
        if name not in self:
            raise NotKnown(f"no task named {name!r}", self)
        return self[name]

    def _checked(self, specs: list[TaskSpec]) -> list[str]:
        """Return their ids and those of their predecessors, each after all that it waits for."""
        if len(self) + len(specs) > MOST:
            many = f"{len(self) + len(specs):,} tasks are too many: at most {MOST:,} may be known at once"
            raise Conflict(f"{many}; forget batches that have ended")
        names: set[str] = set()
        for spec in specs:
            if not ID.fullmatch(spec.id):
                raise Rejected(f"task {spec.id[:80]!r}: a name is letters, digits, . _ and -, up to 80 of them")
            if spec.id in names or spec.id in self:
                raise Conflict(f"task {spec.id} is there already")
            if spec.batch and not ID.fullmatch(spec.batch):
                raise Rejected(f"batch {spec.batch[:80]!r}: a name is letters, digits, . _ and -, up to 80 of them")
            if not (0 <= spec.estimated_tokens <= MOST_TOKENS and 1 <= spec.attempts <= MOST_ATTEMPTS):
                tokens, attempts = f"estimated_tokens must be from 0 to {MOST_TOKENS:,}", f"from 1 to {MOST_ATTEMPTS:,}"
                raise Rejected(f"task {spec.id}: {tokens}, attempts {attempts}")
            names.add(spec.id)
        for spec in specs:
            for other in spec.after:
                if other not in names and other not in self:
                    raise NotKnown(f"task {spec.id} waits for {other[:80]!r}, which isn't known", [*self, *names])
        try:
            return list(TopologicalSorter({spec.id: spec.after for spec in specs}).static_order())
        except CycleError as error:
            waiting = f"tasks wait for each other: {_listed(error.args[1], specs)}"
            raise Conflict(waiting, bad_input=True) from None

    def _add(self, task: Task) -> Task:
        self[task.spec.id] = task
        self._by_agent.setdefault(task.agent, {})[task.spec.id] = task
        self._numbers = max(self._numbers, task.number)
        return task

    def _link(self, task: Task) -> None:
        for name in dict.fromkeys(task.spec.after):
            before = self.get(name)
            if before is not None:  # else it was done, and its batch is forgotten
                before.followers.append(task)
                if before.state != "done":
                    task.missing.add(name)

    def _missed(self, task: Task) -> Iterator[Task]:
        return (self[name] for name in dict.fromkeys(task.spec.after) if name in task.missing)

    def _due_state(self, task: Task) -> tuple[str, str]:
        """Return state and note of a task that isn't running and hasn't ended, by its predecessors."""
        if not task.missing:
            return "ready", ""
        missed = list(self._missed(task))
        for each in missed:
            if each.state in SPOILED:
                state = "skipped" if task.spec.on_failure == "skip" else "blocked"
                return state, f"{each.spec.id} {_ENDED[each.state]}"
        return next((("blocked", each.note) for each in missed if each.state == "blocked"), ("waiting", ""))

    def _settle(self, task: Task) -> bool:
        """Update its state and note by its predecessors. Return whether they changed."""
        before = task.state, task.note
        due = self._due_state(task)
        if due == before:
            return False
        _move(task, *due)
        return True

    def _settle_followers(self, task: Task) -> list[Task]:
        """Settle all that wait for a task that has moved. Return the tasks that moved."""
        changed, queue = {task.spec.id: task}, deque([task])
        while queue:
            for follower in queue.popleft().followers:
                if follower.state in ("waiting", "blocked") and self._settle(follower):
                    changed[follower.spec.id] = follower
                    queue.append(follower)
        moved = list(changed.values())
        return _once([*moved, *self._inherit(each for one in reversed(moved) for each in (one, *self._missed(one)))])

    def _inherit(self, tasks: Iterable[Task]) -> list[Task]:
        """Update the priorities of tasks and of all that they wait for. Return those that changed."""
        changed: list[Task] = []
        queue = deque(tasks)
        queued = set(queue)
        while queue:
            task = queue.popleft()
            queued.discard(task)
            waiting = (follower.priority for follower in task.followers if follower.state == "waiting")
            priority = min((task.spec.priority, *waiting))
            if priority is not task.priority:
                task.priority = priority
                changed.append(task)
                fresh = [each for each in self._missed(task) if each not in queued]
                queue += fresh
                queued.update(fresh)
        return _once(changed)


def _move(task: Task, state: str, note: str = "", *, runner: str = "") -> None:
    task.state, task.note, task.runner, task.paused_until = state, note, runner, 0.0


def _because(task: Task) -> str:
    if task.state == "waiting":
        return f" for {some(sorted(task.missing))}"
    return f" ({task.note})" if task.note else ""


def _listed(cycle: list[str], specs: list[TaskSpec]) -> str:
    """List a cycle of graphlib's, where each one is waited for by the next, in reverse and from the first submitted."""
    ring = cycle[:0:-1]
    members = set(ring)
    start = ring.index(next(spec.id for spec in specs if spec.id in members))
    return " -> ".join([*ring[start:], *ring[:start], ring[start]])


def _once(tasks: list[Task]) -> list[Task]:
    return list({task.spec.id: task for task in tasks}.values())


_GATES: dict[str, Literal["open", "waits", "blocked"]] = {
    "running": "open",
    "ready": "open",
    "paused": "open",
    "waiting": "waits",
    "blocked": "blocked",
    "skipped": "blocked",
}
"""What a task's state means for its agent; of several tasks the first state in this order decides."""


class TaskBoard(Tasks):
    """The graph with its events: returns what moved, since the agents of these tasks are to be looked up again."""

    def __init__(self, emit: Callable[[ev.Event], None]) -> None:
        super().__init__()
        self.unsaved: dict[str, Task | None] = {}
        """Tasks of which something changed that a restart must know, by id; None: it is forgotten."""
        self.epoch = 0.0
        """What turns the scheduler's time into seconds since the epoch, in which deadlines are stated."""
        self._emit = emit

    def apply(self, command: cmd.TaskCommand, now: float) -> list[Task]:
        """Carry out a command. Return the tasks that moved or went.

        Raises: cmd.Rejected.
        """
        gone: list[Task] = []
        match command:
            case cmd.SubmitTasks(specs):
                known = set(self)
                moved = self.submit(specs)
                for task in moved:
                    if task.spec.id not in known:
                        self._emit(_added(task, now))
            case cmd.ClaimTask(name, runner):
                moved = self.claim(name, runner)
            case cmd.FinishTask(name, ok, note, again, attempt, paused_s, others):
                moved = self.finish(name, ok=ok, note=note, again=again, attempt=attempt)
                if paused_s > 0:
                    moved = _once([*moved, *self.pause((name, *others), now + paused_s, note)])
            case cmd.CancelTask(name):
                moved = self.cancel(name)
            case cmd.RetryTask(name):
                moved = self.retry(name)
            case cmd.SetTaskPriority(name, priority, deadline, deadline_s):
                moved = self.set_priority(name, priority, deadline, deadline_s)
            case cmd.ForgetTasks(batch):
                gone, moved = self.forget(batch)
                for task in gone:
                    self._emit(ev.TaskForgotten(now, task.spec.id))
                    self.unsaved[task.spec.id] = None
        self._note(moved, now)
        return gone + moved

    def claim_for(self, agent: Agent, now: float) -> list[Task]:
        """Start the agent's best eligible task when it sends a request, unless a runner is to start it."""
        moved = []
        for each in agent.line:
            if each.task_priority is None:
                continue
            mine = list(self.of_agent(each.name))
            ready = [task for task in mine if task.state == "ready" and not task.spec.command]
            if ready and not any(task.state == "running" for task in mine):
                moved += self.claim(min(ready, key=lambda task: task.rank).spec.id, "")
        self._note(moved, now)
        return moved

    def resume(self, task: Task, now: float) -> list[Task]:
        """Have a paused task be eligible."""
        _move(task, "ready", "a plan's window is whole again")
        self._note([task], now)
        return [task]

    def restore(self, saved: Iterable[SavedTask], now: float) -> None:
        """Take over the tasks of an earlier run, and report them as if they had just been submitted."""
        self.take_over(saved)
        for task in self.values():
            self._emit(_added(task, now))
            self._emit(_changed(task, now))

    def look_up(self, agent: Agent) -> None:
        """Set what the agent's tasks mean for it now."""
        mine = self._decisive(agent)
        agent.task_gate = _GATES[mine[0].state] if mine else "open"
        agent.task_priority = min((task.priority for task in mine), default=None)

    def review(self, agent: Agent, moved: Task) -> Refusal | None:
        """Look up an agent of which a task moved. Return why its waiting tickets are to be refused, if they are."""
        waited = agent.task_gate == "waits"
        self.look_up(agent)
        if agent.task_gate == "blocked":
            return self.refusal(agent)
        if waited and agent.task_priority is None:
            return _refusal(f"task {moved.spec.id} was to wait, and isn't wanted any more")
        return None

    def refusal(self, agent: Agent) -> Refusal:
        """Return why an agent whose task can't go on is refused."""
        at_fault = next(each for each in agent.line if each.task_gate == "blocked")
        task = self._decisive(at_fault)[0]
        what = "was skipped" if task.state == "skipped" else "can't start"
        return _refusal(f"task {task.spec.id} {what}, because {task.note}; it may ask once that is mended")

    def _decisive(self, agent: Agent) -> list[Task]:
        """Return the agent's tasks that decide what it may do: those that run, else those that may, will, or might run;
        without any of these, the last one if it was skipped."""
        mine = list(self.of_agent(agent.name))
        for state in ("running", "ready", "paused", "waiting", "blocked"):
            if found := [task for task in mine if task.state == state]:
                return found
        return mine[-1:] if mine and mine[-1].state == "skipped" else []

    def _note(self, moved: list[Task], now: float) -> None:
        for task in moved:
            if task.state == "ready" and task.ready_at is None:
                task.ready_at = now
            if task.ready_at is not None and task.spec.deadline_s and not task.spec.deadline:
                deadline = task.ready_at + self.epoch + task.spec.deadline_s
                task.spec = replace(task.spec, deadline=deadline)
            self._emit(_changed(task, now))
            self.unsaved[task.spec.id] = task


def _refusal(detail: str) -> Refusal:
    return Refusal("task_blocked", None, FINAL_STATUS, detail=detail)


def _added(task: Task, now: float) -> ev.TaskAdded:
    spec = task.spec
    return ev.TaskAdded(now, spec.id, spec.batch, task.agent, spec.priority, spec.estimated_tokens, spec.after)


def _changed(task: Task, now: float) -> ev.TaskChanged:
    paused_s = max(0.0, task.paused_until - now)
    return ev.TaskChanged(now, task.spec.id, task.state, task.priority, task.attempt, task.note, paused_s)

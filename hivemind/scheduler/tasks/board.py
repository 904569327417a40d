"""The task graph with its events, and what a task means for the agent that works on it: its requests wait while the
task does, and have the task's priority."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from hivemind.scheduler import commands as cmd
from hivemind.scheduler import events as ev
from hivemind.scheduler.tasks.graph import SavedTask, Task, Tasks
from hivemind.scheduler.ticket import Agent, Refusal

_GATES: dict[str, Literal["open", "waits", "blocked"]] = {
    "running": "open",
    "ready": "open",
    "waiting": "waits",
    "blocked": "blocked",
    "skipped": "blocked",
}
"""What a task's state means for its agent; of several tasks the first state in this order decides."""


class TaskBoard:
    """Changes the graph, reports what moved, and returns it: the agents of these tasks are to be looked up again."""

    def __init__(self, emit: Callable[[ev.Event], None]) -> None:
        self.graph = Tasks()
        self.unsaved: dict[str, Task | None] = {}
        """Tasks of which something changed that a restart must know, by id; None: it is forgotten."""
        self._emit = emit

    def apply(self, command: cmd.TaskCommand, now: float) -> list[Task]:
        """Carry out a command. Return the tasks that moved or went.

        Raises: cmd.Rejected.
        """
        graph = self.graph
        gone: list[Task] = []
        match command:
            case cmd.SubmitTasks(specs):
                known = set(graph)
                moved = graph.submit(specs)
                for task in moved:
                    if task.spec.id not in known:
                        self._emit(_added(task, now))
            case cmd.ClaimTask(name, runner):
                moved = graph.claim(name, runner)
            case cmd.FinishTask(name, ok, note, again, attempt):
                moved = graph.finish(name, ok=ok, note=note, again=again, attempt=attempt)
            case cmd.CancelTask(name):
                moved = graph.cancel(name)
            case cmd.RetryTask(name):
                moved = graph.retry(name)
            case cmd.SetTaskPriority(name, priority):
                moved = graph.set_priority(name, priority)
            case cmd.ForgetTasks(batch):
                gone, moved = graph.forget(batch)
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
            mine = list(self.graph.of_agent(each.name))
            ready = [task for task in mine if task.state == "ready" and not task.spec.command]
            if ready and not any(task.state == "running" for task in mine):
                moved += self.graph.claim(min(ready, key=lambda task: task.rank).spec.id, "")
        self._note(moved, now)
        return moved

    def restore(self, saved: Iterable[SavedTask], now: float) -> None:
        """Take over the tasks of an earlier run, and report them as if they had just been submitted."""
        self.graph.restore(saved)
        for task in self.graph.values():
            self._emit(_added(task, now))
            self._emit(_changed(task, now))

    def look_up(self, agent: Agent) -> None:
        """Set what the agent's tasks mean for it now."""
        mine = self._decisive(agent)
        agent.task_gate = _GATES[mine[0].state] if mine else "open"
        agent.task_priority = min((task.priority for task in mine), default=None)

    def update(self, agent: Agent, moved: Task) -> Refusal | None:
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
        mine = list(self.graph.of_agent(agent.name))
        for state in ("running", "ready", "waiting", "blocked"):
            if found := [task for task in mine if task.state == state]:
                return found
        return mine[-1:] if mine and mine[-1].state == "skipped" else []

    def _note(self, moved: list[Task], now: float) -> None:
        for task in moved:
            self._emit(_changed(task, now))
            self.unsaved[task.spec.id] = task


def _refusal(detail: str) -> Refusal:
    return Refusal("task_blocked", None, 403, detail=detail)


def _added(task: Task, now: float) -> ev.TaskAdded:
    spec = task.spec
    return ev.TaskAdded(now, spec.id, spec.batch, task.agent, spec.priority, spec.estimated_tokens, spec.after)


def _changed(task: Task, now: float) -> ev.TaskChanged:
    return ev.TaskChanged(now, task.spec.id, task.state, task.priority, task.attempt, task.note)

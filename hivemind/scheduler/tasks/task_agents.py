"""What a task means for the agent that works on it: its requests wait while the task does, and count as it counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from hivemind.scheduler import commands as cmd
from hivemind.scheduler import events as ev
from hivemind.scheduler.ledger.budget import hold
from hivemind.scheduler.ledger.family import reclass_all, with_subs
from hivemind.scheduler.ticket import Agent, Refusal

if TYPE_CHECKING:
    from hivemind.scheduler.persistence import SavedTask
    from hivemind.scheduler.scheduler import Scheduler
    from hivemind.scheduler.tasks.graph import Task


_GATES: dict[str, Literal["open", "waits", "blocked"]] = {
    "running": "open",
    "ready": "open",
    "waiting": "waits",
    "blocked": "blocked",
    "skipped": "blocked",
}
"""What tasks mean for their agent, by their state, the one that decides first."""


def carry_out(scheduler: Scheduler, command: cmd.TaskCommand, now: float) -> dict[str, Any] | None:
    """Change the graph. Returns what the event says instead of the command's own arguments, where those are too long or
    not for everybody's eyes.

    Raises: cmd.Rejected.
    """
    tasks = scheduler.tasks
    match command:
        case cmd.SubmitTasks(specs):
            known = set(tasks)
            moved = tasks.submit(specs)
            for task in moved:
                if task.spec.id not in known:
                    scheduler.events.append(_added(task, now))
            _spread(scheduler, moved, now)
            return {"tasks": [spec.id for spec in specs]}
        case cmd.ClaimTask(name, runner):
            _spread(scheduler, tasks.claim(name, runner), now)
        case cmd.FinishTask(name, ok, note, again, attempt):
            _spread(scheduler, tasks.finish(name, ok=ok, note=note, again=again, attempt=attempt), now)
        case cmd.CancelTask(name):
            _spread(scheduler, tasks.cancel(name), now)
        case cmd.RetryTask(name):
            _spread(scheduler, tasks.retry(name), now)
        case cmd.SetTaskPriority(name, priority):
            _spread(scheduler, tasks.set_priority(name, priority), now)
        case cmd.ForgetTasks(batch):
            gone, moved = tasks.forget(batch)
            scheduler.events += [ev.TaskForgotten(now, task.spec.id) for task in gone]
            scheduler.unsaved_tasks.update({task.spec.id: None for task in gone})
            _tell_agents(scheduler, gone, now)
            _spread(scheduler, moved, now)
    return None


def restore(scheduler: Scheduler, saved: Iterable[SavedTask], now: float) -> None:
    """Take the tasks of an earlier run over, and tell of them as if they had just come."""
    tasks = scheduler.tasks
    tasks.restore((each.spec, each.number, each.state, each.attempt, each.runner, each.note) for each in saved)
    for task in tasks.values():
        scheduler.events += [_added(task, now), _changed(task, now)]


def asked(scheduler: Scheduler, agent: Agent, now: float) -> None:
    """The agent asks: where one of its tasks is eligible, and nobody but itself would start it, that has begun."""
    for each in agent.line:
        if each.task_priority is None:
            continue
        mine = list(scheduler.tasks.of_agent(each.name))
        ready = [task for task in mine if task.state == "ready" and not task.spec.command]
        if ready and not any(task.state == "running" for task in mine):
            _spread(scheduler, scheduler.tasks.claim(min(ready, key=lambda task: task.rank).spec.id, ""), now)


def greet(scheduler: Scheduler, agent: Agent) -> None:
    """The agent is new at hand: see what its tasks mean for it."""
    if scheduler.tasks:
        _look_up(scheduler, agent)
        hold(scheduler, agent)


def blocked(scheduler: Scheduler, agent: Agent) -> Refusal:
    """What an agent is told whose task can't go on."""
    at_fault = next(each for each in agent.line if each.task_gate == "blocked")
    task = _at_hand(scheduler, at_fault)[0]
    what = "was skipped" if task.state == "skipped" else "can't start"
    return _refusal(f"task {task.spec.id} {what}, because {task.note}; it may ask once that is mended")


def _refusal(detail: str) -> Refusal:
    return Refusal("task_blocked", None, 403, detail=detail)


def _spread(scheduler: Scheduler, moved: list[Task], now: float) -> None:
    for task in moved:
        scheduler.events.append(_changed(task, now))
        scheduler.unsaved_tasks[task.spec.id] = task
        if task.state == "running":
            scheduler.feedback.began(task, scheduler.agents.get(task.agent) or scheduler.agents.past.get(task.agent))
    _tell_agents(scheduler, moved, now)


def _tell_agents(scheduler: Scheduler, tasks: Iterable[Task], now: float) -> None:
    for name, task in {task.agent: task for task in tasks}.items():
        agent = scheduler.agents.get(name)
        if agent is None:
            continue
        waited = agent.task_gate == "waits"
        _look_up(scheduler, agent)
        reclass_all(scheduler, agent, now)
        refusal = None
        if agent.task_gate == "blocked":
            refusal = blocked(scheduler, agent)
        elif waited and agent.task_priority is None:
            refusal = _refusal(f"task {task.spec.id} was to wait, and isn't wanted any more")
        for each in with_subs(scheduler, agent):
            if refusal is not None:
                scheduler.turn_away(each, refusal, now)
            if hold(scheduler, each):
                scheduler.let_go(each, now)
        if waited and any(each.tickets for each in with_subs(scheduler, agent)):
            asked(scheduler, agent, now)  # it did so before it might


def _look_up(scheduler: Scheduler, agent: Agent) -> None:
    mine = _at_hand(scheduler, agent)
    agent.task_gate = _GATES[mine[0].state] if mine else "open"
    agent.task_priority = min((task.priority for task in mine), default=None)


def _at_hand(scheduler: Scheduler, agent: Agent) -> list[Task]:
    """The agent's tasks that say what it may do now: those that run, or else those that may, or will, or might; where
    none is left of these, the last one if it was skipped."""
    mine = list(scheduler.tasks.of_agent(agent.name))
    for state in ("running", "ready", "waiting", "blocked"):
        if found := [task for task in mine if task.state == state]:
            return found
    return mine[-1:] if mine and mine[-1].state == "skipped" else []


def _added(task: Task, now: float) -> ev.TaskAdded:
    spec = task.spec
    return ev.TaskAdded(now, spec.id, spec.batch, task.agent, spec.priority, spec.estimated_tokens, spec.after)


def _changed(task: Task, now: float) -> ev.TaskChanged:
    return ev.TaskChanged(now, task.spec.id, task.state, task.priority, task.attempt, task.note)

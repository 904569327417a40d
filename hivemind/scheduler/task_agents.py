"""What a task means for the agent that works on it: its requests wait while the task does, and count as it counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import commands as cmd
from . import events as ev
from .budget import hold
from .queue import reclass
from .tasks import OPEN
from .ticket import Agent, Refusal

if TYPE_CHECKING:
    from .scheduler import Scheduler
    from .tasks import Task


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
        case cmd.FinishTask(name, ok, note, again):
            _spread(scheduler, tasks.finish(name, ok=ok, note=note, again=again), now)
        case cmd.CancelTask(name):
            _spread(scheduler, tasks.cancel(name), now)
        case cmd.RetryTask(name):
            _spread(scheduler, tasks.retry(name), now)
        case cmd.SetTaskPriority(name, priority):
            _spread(scheduler, tasks.set_priority(name, priority), now)
        case cmd.ForgetTasks(batch):
            gone = tasks.forget(batch)
            scheduler.events += [ev.TaskForgotten(now, task.spec.id) for task in gone]
            scheduler.unsaved_tasks.update({task.spec.id: None for task in gone})
            _tell_agents(scheduler, gone, now)
    return None


def asked(scheduler: Scheduler, agent: Agent, now: float) -> None:
    """The agent asks: where one of its tasks is eligible, and nobody but itself would start it, that has begun."""
    mine = list(scheduler.tasks.of_agent(agent.name))
    if any(task.state == "running" for task in mine):
        return
    ready = sorted((task for task in mine if task.state == "ready" and not task.spec.command), key=lambda t: t.rank)
    if ready:
        _spread(scheduler, scheduler.tasks.claim(ready[0].spec.id, ""), now)


def greet(scheduler: Scheduler, agent: Agent) -> None:
    """The agent is new at hand: see what its tasks mean for it."""
    if scheduler.tasks:
        _look_up(scheduler, agent)
        hold(scheduler, agent)


def blocked(scheduler: Scheduler, agent: Agent) -> Refusal:
    """What an agent is told whose task can't go on."""
    task = next(each for each in scheduler.tasks.of_agent(agent.name) if each.state == "blocked")
    return Refusal("task_blocked", None, 403, detail=f"task {task.spec.id} can't start, because {task.note}")


def _spread(scheduler: Scheduler, moved: list[Task], now: float) -> None:
    for task in moved:
        scheduler.events.append(ev.TaskChanged(now, task.spec.id, task.state, task.priority, task.attempt, task.note))
        scheduler.unsaved_tasks[task.spec.id] = task
    _tell_agents(scheduler, moved, now)


def _tell_agents(scheduler: Scheduler, tasks: Iterable[Task], now: float) -> None:
    for name in dict.fromkeys(task.agent for task in tasks):
        agent = scheduler.agents.get(name)
        if agent is None:
            continue
        _look_up(scheduler, agent)
        reclass(agent, now)
        if agent.task_gate == "blocked":
            scheduler.turn_away(agent, blocked(scheduler, agent), now)
        if hold(scheduler, agent):
            scheduler.let_go(agent, now)


def _look_up(scheduler: Scheduler, agent: Agent) -> None:
    mine = [task for task in scheduler.tasks.of_agent(agent.name) if task.state in OPEN]
    agent.task_priority = min((task.priority for task in mine), default=None)
    states = {task.state for task in mine}
    if not states or states & {"running", "ready"}:
        agent.task_gate = "open"
    else:
        agent.task_gate = "waits" if "waiting" in states else "blocked"


def _added(task: Task, now: float) -> ev.TaskAdded:
    spec = task.spec
    return ev.TaskAdded(now, spec.id, spec.batch, task.agent, spec.priority, spec.estimated_tokens, spec.after)

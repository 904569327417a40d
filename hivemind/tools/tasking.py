"""The tools for tasks: hm.submit and hm.batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from hivemind.api_types import TaskState
from hivemind.scheduler.commands import (
    CancelTask,
    ClaimTask,
    FinishTask,
    ForgetTasks,
    RetryTask,
    SubmitTasks,
)
from hivemind.scheduler.tasks.graph import OPEN
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.tools.desk import Caller, Desk
from hivemind.tools.failure import ToolFailure, unknown
from hivemind.tools.inputs import BatchInput, SubmitInput, TaskFields
from hivemind.tools.outputs import Batch, Submitted
from hivemind.tools.rows import by_state, cut, in_order, task_row

_READY_SHOWN = 20
_AHEAD = ("critical", "high")


async def submit(desk: Desk, caller: Caller, asked: SubmitInput) -> Submitted:
    """Add a task, or report how one went."""
    name = full_id(asked.batch, asked.name)
    if asked.outcome is None:
        if asked.note is not None:
            raise ToolFailure("note: goes with an outcome, done or failed; leave it out of a new task")
        await _allowed(desk, [asked])
        known = {task.spec.id for task in await desk.tasks()} if asked.after else set()
        spec = _spec(asked, asked.name, asked.batch, known | {name})
        await desk.order(SubmitTasks((spec,)), caller.who)
        task = await _task(desk, name, asked.batch)
        return Submitted(said=f"Task {name} is added and {_standing(task)}.", task=task_row(task))
    given = [field for field in TaskFields.model_fields if getattr(asked, field) is not None]
    if given:
        raise ToolFailure(f"{given[0]}: isn't changed by an outcome; leave it out, or leave outcome out to add a task")
    task = await _task(desk, name, asked.batch)
    said = await _report(desk, caller, task, asked.outcome, asked.note or "")
    return Submitted(said=said, task=task_row(await _task(desk, name, task.spec.batch)))


async def batch(desk: Desk, caller: Caller, asked: BatchInput) -> Batch:
    """Add many tasks at once, all or none; or end a batch."""
    if asked.action == "submit":
        said = await _submit_all(desk, caller, asked)
    elif asked.tasks:
        raise ToolFailure(f"tasks: go with action submit, not with {asked.action}")
    else:
        said = await _end(desk, caller, asked.batch, asked.action)
    tasks = await desk.tasks(asked.batch)
    ready = [task.spec.id for task in in_order(tasks) if task.state == "ready"]
    shown, left_out = cut(ready, _READY_SHOWN)
    return Batch(
        said=said,
        batch=asked.batch,
        tasks=len(tasks),
        tasks_by_state=dict(by_state(tasks)),
        ready=shown,
        ready_left_out=left_out,
    )


def full_id(batch: str | None, name: str) -> str:
    """A task's id: of a batch's its name comes first, unless it is there already."""
    return name if batch is None or name.startswith(f"{batch}.") else f"{batch}.{name}"


def _spec(fields: TaskFields, name: str, batch: str | None, known: Iterable[str]) -> TaskSpec:
    """What is submitted. `known` are ids that predecessors are looked for among."""
    known = set(known)

    def before(other: str) -> str:
        near = full_id(batch, other)
        return near if near in known else other

    return TaskSpec(
        id=full_id(batch, name),
        priority=Priority[(fields.priority or "normal").upper()],
        estimated_tokens=fields.estimated_tokens or 0,
        after=tuple(before(other) for other in fields.after or ()),
        agent=fields.agent or "",
        batch=batch or "",
        command=tuple(fields.command or ()),
        on_failure=fields.on_failure or "block",
        attempts=fields.attempts or 1,
    )


async def _allowed(desk: Desk, tasks: Iterable[TaskFields]) -> None:
    """Where tools may change nothing, a task is no way round that: it has no command, which a runner would start with
    the rights of whoever started that, and is no more urgent than others.

    Raises: ToolFailure.
    """
    found = next((each for each in tasks if each.command or each.priority in _AHEAD), None)
    if found is not None and (await desk.about()).read_only:
        what = (
            "command: a runner would start it"
            if found.command
            else f"priority {found.priority}: it is more than normal"
        )
        raise ToolFailure(
            f"{what}, and this proxy lets tools do neither (mcp.read_only); leave it out, or ask its operator"
        )


async def _submit_all(desk: Desk, caller: Caller, asked: BatchInput) -> str:
    if not asked.tasks:
        raise ToolFailure("tasks: is empty; give at least one task with a name")
    await _allowed(desk, asked.tasks)
    known = {full_id(asked.batch, task.name) for task in asked.tasks}
    if any(task.after for task in asked.tasks):
        known |= {task.spec.id for task in await desk.tasks()}
    specs = tuple(_spec(task, task.name, asked.batch, known) for task in asked.tasks)
    await desk.order(SubmitTasks(specs), caller.who)
    return f"{_counted(len(specs))} of {asked.batch} {'is' if len(specs) == 1 else 'are'} added."


async def _end(desk: Desk, caller: Caller, name: str, action: str) -> str:
    tasks = await desk.tasks(name)
    if not tasks:
        raise unknown("batch", name, sorted({task.spec.batch for task in await desk.tasks()} - {""}))
    if action == "forget":
        await desk.order(ForgetTasks(name), caller.who)
        return f"{_counted(len(tasks))} of {name} forgotten; the name is free again."
    wanted = [task.spec.id for task in tasks if task.state in OPEN]
    # The last first, so that none is blocked by what it waits for on the way.
    for each in reversed(wanted):
        if (await _task(desk, each, name)).state in OPEN:
            await desk.order(CancelTask(each), caller.who)
    return f"{_counted(len(wanted))} of {name} cancelled; requests that their agents have in flight go on."


async def _report(
    desk: Desk,
    caller: Caller,
    task: TaskState,
    outcome: Literal["started", "done", "failed", "cancelled", "retry"],
    note: str,
) -> str:
    name = task.spec.id
    if note and outcome not in ("done", "failed"):
        raise ToolFailure(f"note: goes with done or failed, not with {outcome}")
    if outcome == "cancelled":
        await desk.order(CancelTask(name), caller.who)
        return f"Task {name} is cancelled; what waits for it is blocked or skipped."
    if outcome == "retry":
        await desk.order(RetryTask(name), caller.who)
        return f"Task {name} may run again."
    if task.spec.command and task.state == "ready":
        raise ToolFailure(f"task {name} has a command, so a runner starts it (hivemind batch) and reports how it went")
    if task.state == "ready":
        # Who works on it may have asked for nothing through the proxy yet, by which it would have begun.
        await desk.order(ClaimTask(name), caller.who)
        task = await _task(desk, name, task.spec.batch)
    elif outcome == "started":
        raise ToolFailure(f"task {name} is {_standing(task)}, so it can't be started")
    if outcome == "started":
        return f"Task {name} is yours: report done or failed when it ends."
    again = outcome == "failed" and task.attempt < task.spec.attempts
    await desk.order(FinishTask(name, outcome == "done", note, again), caller.who)
    if outcome == "done":
        return f"Task {name} is done; what waited for it alone may start."
    if again:
        return f"Task {name} failed, and may be tried again: {task.attempt} of {task.spec.attempts} attempts are used."
    return f"Task {name} failed; what waits for it is blocked or skipped."


async def _task(desk: Desk, name: str, batch: str | None = None) -> TaskState:
    for among in (batch or "", None):  # the whole graph may be large
        tasks = {task.spec.id: task for task in await desk.tasks(among)}
        if name in tasks:
            return tasks[name]
    raise unknown("task", name, tasks)


def _standing(task: TaskState) -> str:
    if task.state == "ready":
        return "ready: a runner starts it" if task.spec.command else "ready to be started"
    if task.state == "waiting":
        shown, more = cut(task.spec.after, 3)
        return f"waiting for {', '.join(shown)}" + (f" and {more} more" if more else "")
    return f"{task.state} ({task.note})" if task.note else task.state


def _counted(count: int) -> str:
    return "1 task" if count == 1 else f"{count:,} tasks"

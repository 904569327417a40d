"""The tools for tasks: hm.submit and hm.batch."""

from __future__ import annotations

from collections.abc import Iterable

from hivemind.api_types import NOBODY, TaskState
from hivemind.scheduler.commands import CancelTask, ClaimTask, FinishTask, ForgetTasks, RetryTask, SubmitTasks
from hivemind.scheduler.tasks import OPEN
from hivemind.scheduler.types import Priority, TaskSpec
from hivemind.text.humanise import duration, plural
from hivemind.tools.access import Caller, ProxyAccess
from hivemind.tools.outputs import Batch, Submitted, by_state, cut, in_order, task_row
from hivemind.tools.tool import BatchInput, SubmitInput, TaskFields, ToolError, tool, unknown

_READY_SHOWN = 20
_ABOVE_NORMAL = ("critical", "high")


@tool("Submit a task, or report on one", destructive=True)
async def submit(proxy: ProxyAccess, caller: Caller, args: SubmitInput) -> Submitted:
    """Adds a task to the graph; with an outcome, reports one (started, done, failed), cancels it or retries it. A task
    is ready when all in after are done. A runner starts and reports those with a command; report the others yourself.
    """
    name = full_id(args.batch, args.name)
    if args.outcome is None:
        if args.note is not None:
            raise ToolError("note: goes with an outcome, done or failed; leave it out of a new task")
        await _check_allowed(proxy, [args])
        known = {task.spec.id for task in await proxy.tasks()} if args.after else set()
        spec = _spec(caller, args, args.name, args.batch, known | {name})
        await proxy.apply(SubmitTasks((spec,)), caller.who)
        task = await _task(proxy, name, args.batch)
        return Submitted(said=f"Task {name} is added and {_state_text(task)}.", task=task_row(task))
    given = [field for field in TaskFields.model_fields if getattr(args, field) is not None]
    if given:
        raise ToolError(f"{given[0]}: isn't changed by an outcome; leave it out, or leave outcome out to add a task")
    task = await _task(proxy, name, args.batch)
    said = await _report(proxy, caller, task, args.outcome, args.note or "")
    return Submitted(said=said, task=task_row(await _task(proxy, name, task.spec.batch)))


@tool("Submit many tasks at once", destructive=True)
async def batch(proxy: ProxyAccess, caller: Caller, args: BatchInput) -> Batch:
    """Adds all tasks of a batch, or none, and names what is wrong. Cancels or forgets a batch. Ask hm.status for
    headroom first.
    """
    if args.action == "submit":
        said = await _submit_all(proxy, caller, args)
    elif args.tasks:
        raise ToolError(f"tasks: go with action submit, not with {args.action}")
    else:
        said = await _end(proxy, caller, args.batch, args.action)
    tasks = await proxy.tasks(args.batch)
    ready = [task.spec.id for task in in_order(tasks) if task.state == "ready"]
    shown, left_out = cut(ready, _READY_SHOWN)
    return Batch(
        said=said,
        batch=args.batch,
        tasks=len(tasks),
        tasks_by_state=by_state(tasks),
        ready=shown,
        ready_left_out=left_out,
    )


def full_id(batch: str | None, name: str) -> str:
    """Return a task's id: its name, with that of its batch in front."""
    return name if batch is None or name.startswith(f"{batch}.") else f"{batch}.{name}"


def _spec(caller: Caller, fields: TaskFields, name: str, batch: str | None, known: set[str]) -> TaskSpec:
    """Return the task to submit. `known` are ids of possible predecessors."""

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
        cwd=caller.cwd if fields.command else "",
        parent=caller.agent or "",
    )


async def _check_allowed(proxy: ProxyAccess, tasks: Iterable[TaskFields]) -> None:
    """Raise ToolError if tools are read-only and a task would circumvent that: by a command, which a runner would start
    with its own rights, or by a priority above normal."""
    found = next((each for each in tasks if each.command or each.priority in _ABOVE_NORMAL), None)
    if found is not None and (await proxy.about()).read_only:
        more = f"priority {found.priority}: it is more than normal"
        what = "command: a runner would start it" if found.command else more
        raise ToolError(
            f"{what}, and this proxy lets tools do neither (mcp.read_only); leave it out, or ask its operator"
        )


async def _submit_all(proxy: ProxyAccess, caller: Caller, args: BatchInput) -> str:
    if not args.tasks:
        raise ToolError("tasks: is empty; give at least one task with a name")
    await _check_allowed(proxy, args.tasks)
    known = {full_id(args.batch, task.name) for task in args.tasks}
    if any(task.after for task in args.tasks):
        known |= {task.spec.id for task in await proxy.tasks()}
    specs = tuple(_spec(caller, task, task.name, args.batch, known) for task in args.tasks)
    await proxy.apply(SubmitTasks(specs), caller.who)
    said = f"{plural(len(specs), 'task')} of {args.batch} {'is' if len(specs) == 1 else 'are'} added."
    waiting = [task.spec.id for task in await proxy.tasks(args.batch) if not task.attended]
    return f"{said} {waiting[0]}: {NOBODY}." if waiting else said


async def _end(proxy: ProxyAccess, caller: Caller, name: str, action: str) -> str:
    tasks = await proxy.tasks(name)
    if not tasks:
        raise unknown("batch", name, sorted({task.spec.batch for task in await proxy.tasks()} - {""}))
    if action == "forget":
        await proxy.apply(ForgetTasks(name), caller.who)
        return f"{plural(len(tasks), 'task')} of {name} forgotten; the name is free again."
    wanted = [task.spec.id for task in tasks if task.state in OPEN]
    # In reverse, so that no task is blocked by a cancelled predecessor on the way.
    for each in reversed(wanted):
        if (await _task(proxy, each, name)).state in OPEN:
            await proxy.apply(CancelTask(each), caller.who)
    return f"{plural(len(wanted), 'task')} of {name} cancelled; requests that their agents have in flight go on."


async def _report(proxy: ProxyAccess, caller: Caller, task: TaskState, outcome: str, note: str) -> str:
    name = task.spec.id
    if note and outcome not in ("done", "failed"):
        raise ToolError(f"note: goes with done or failed, not with {outcome}")
    if outcome == "cancelled":
        await proxy.apply(CancelTask(name), caller.who)
        return f"Task {name} is cancelled; what waits for it is blocked or skipped."
    if outcome == "retry":
        await proxy.apply(RetryTask(name), caller.who)
        return f"Task {name} may run again."
    if task.spec.command and task.state in ("ready", "paused"):
        raise ToolError(f"task {name} has a command, so a runner starts it (hivemind batch) and reports how it went")
    if task.state == "ready":
        # A task begins with its agent's first request, which may not have come yet.
        await proxy.apply(ClaimTask(name), caller.who)
        task = await _task(proxy, name, task.spec.batch)
    elif outcome == "started":
        raise ToolError(f"task {name} is {_state_text(task)}, so it can't be started")
    if outcome == "started":
        return f"Task {name} is yours: report done or failed when it ends."
    again = outcome == "failed" and task.attempt < task.spec.attempts
    await proxy.apply(FinishTask(name, outcome == "done", note, again), caller.who)
    if outcome == "done":
        return f"Task {name} is done; what waited for it alone may start."
    if again:
        return f"Task {name} failed, and may be tried again: {task.attempt} of {task.spec.attempts} attempts are used."
    return f"Task {name} failed; what waits for it is blocked or skipped."


async def _task(proxy: ProxyAccess, name: str, batch: str | None = None) -> TaskState:
    for among in (batch or "", None):  # the whole graph may be large
        tasks = {task.spec.id: task for task in await proxy.tasks(among)}
        if name in tasks:
            return tasks[name]
    raise unknown("task", name, tasks)


def _state_text(task: TaskState) -> str:
    if task.state == "ready":
        if not task.attended:
            return f"ready, but {NOBODY}"
        return "ready: a runner starts it" if task.spec.command else "ready to be started"
    if task.state == "waiting":
        shown, more = cut(task.spec.after, 3)
        return f"waiting for {', '.join(shown)}" + (f" and {more} more" if more else "")
    if task.paused_s:
        return f"paused for {duration(task.paused_s)}: {task.note}"
    return f"{task.state} ({task.note})" if task.note else task.state

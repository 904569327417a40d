"""Beginning a batch: submit its tasks, or continue where an earlier runner ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

import msgspec

from hivemind.agent_names import same
from hivemind.agents.attempts import TaskProcess
from hivemind.agents.batch_context import BatchContext, RunnerNote
from hivemind.agents.batch_job import GRACE_S
from hivemind.agents.plan import Plan
from hivemind.agents.plan_document import PlanError
from hivemind.api_types import TaskState
from hivemind.errors import UsageError
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.tasks import OPEN
from hivemind.scheduler.types import TaskSpec
from hivemind.text.shells import command_line

_AT_ONCE = 1 << 20
"""Bytes of tasks that are submitted together, all or none of them."""
_FIELDS = {"after": "after", "agent": "agent", "estimated_tokens": "estimate", "on_failure": "on_failure"}
"""Fields of a task that can't change once it is submitted, and their names in a plan."""


@dataclass(frozen=True, slots=True)
class StartMode:
    """What to do with a batch that exists already."""

    resume: bool = False
    fresh: bool = False
    retry_failed: bool = False


async def begin(context: BatchContext, runner: str, how: StartMode) -> list[TaskState]:
    """Begin or continue the batch. Return the tasks that an earlier runner had claimed, for this one to run.

    Raises: UsageError: it can't be begun like this; ControlError; OSError: the folder can't be written to.
    """
    known: Sequence[TaskState] = await context.tasks()
    if known and not how.resume and (how.fresh or all(state.state == "done" for state in known)):
        await _forget(context, known)
        known = ()
    if known and not how.resume:
        done, failed = (sum(state.state == each for state in known) for each in ("done", "failed"))
        counts = f"{done} of {len(known)} done"
        counts += f", {failed} failed (--retry-failed tries them again)" if failed else ""
        raise UsageError(f"{context.batch}: {counts}; --resume goes on, --fresh begins anew")
    try:
        if known:
            if not context.folder.begun():
                context.folder.begin()
            await _enter(context, resumed=True)
            await _continue(context, known, how)
        else:
            if how.resume and context.folder.begun() and context.folder.plans():
                raise UsageError(
                    f"{context.batch}: the proxy at {context.session.way.url} doesn't know this batch any more;"
                    " name the one that does with --attach, or begin anew with --fresh"
                )
            context.folder.begin()
            await _enter(context, resumed=False)
            await _submit(context, context.plan.specs())
        context.folder.enlist(runner, RunnerNote(context.session.proxy is not None, context.plan.path))
    except cmd.Rejected as error:
        raise UsageError(f"{context.batch}: {error}") from None
    return [state for state in await context.tasks() if state.state == "running"]


async def _enter(context: BatchContext, *, resumed: bool) -> None:
    """Register the batch as an agent: the parent of its tasks' agents, with the budget of all together."""
    place = context.place
    await context.ask(lambda client: client.place(place))
    if not resumed:
        await context.order(cmd.BeginAgent(context.batch, place.parent))
    await context.budget(context.batch, context.plan.budget)


async def _submit(context: BatchContext, specs: Sequence[TaskSpec]) -> None:
    """Submit tasks, in parts if they are long. What a crash leaves out is submitted by --resume."""
    part: list[TaskSpec] = []
    size = 0
    for spec in specs:
        length = len(msgspec.json.encode(spec))
        if part and size + length > _AT_ONCE:
            await context.order(cmd.SubmitTasks(tuple(part)))
            part, size = [], 0
        part.append(spec)
        size += length
    if part:
        await context.order(cmd.SubmitTasks(tuple(part)))


async def _continue(context: BatchContext, known: Sequence[TaskState], how: StartMode) -> None:
    """Update the graph to the plan. Raises: PlanError, UsageError, Rejected."""
    _check_runners(context, known)
    plan, plans = context.plan, context.folder.plans()
    by_id = {state.spec.id: state for state in known}
    specs = {spec.id: spec for spec in plan.specs()}
    mistakes: list[str] = []
    for name, spec in specs.items():
        mistakes += _changed(plan, by_id[name], spec, how) if name in by_id else []
    mistakes += [
        f"{plan.file}: task {context.short(name)} runs, but isn't in the plan any more"
        for name, state in by_id.items()
        if name not in specs and state.state == "running"
    ]
    foreign = [name for name, state in by_id.items() if name not in specs and state.state in OPEN]
    if foreign and plans and plan.path not in plans:
        raise UsageError(
            f"{context.batch}: this batch was begun from {min(plans)}, another plan; give this one a name of its own"
        )
    if mistakes:
        raise PlanError(mistakes)
    for name in foreign:
        context.say(f"{context.short(name)} isn't in the plan any more, so it is cancelled", "warn")
        await context.order(cmd.CancelTask(name))
    for name, spec in specs.items():
        state = by_id.get(name)
        if state is not None and state.state in OPEN and spec.priority != state.spec.priority:
            await context.order(cmd.SetTaskPriority(name, spec.priority))
    if how.retry_failed:
        await _retry_failed(context, {name: state for name, state in by_id.items() if name in specs})
    await _submit(context, [spec for name, spec in specs.items() if name not in by_id])


async def _retry_failed(context: BatchContext, known: Mapping[str, TaskState]) -> None:
    """Retry failed tasks, and those that were skipped because of tasks that are retried or done by now."""
    for name, state in known.items():
        if state.state == "failed":
            await context.order(cmd.RetryTask(name))
    skipped = {name: state for name, state in known.items() if state.state == "skipped"}
    behind = {name: [each for each in state.spec.after if each in skipped] for name, state in skipped.items()}
    for name in TopologicalSorter(behind).static_order():
        with contextlib.suppress(cmd.Rejected):  # it would be skipped again, because of another task
            await context.order(cmd.RetryTask(name))


def _check_runners(context: BatchContext, known: Sequence[TaskState]) -> None:
    """Raises: UsageError."""
    for state in known:
        if state.state == "running" and context.folder.runner(state.runner) is None:
            raise UsageError(
                f"{context.batch}: task {context.short(state.spec.id)} is run by somebody else"
                f" ({state.runner or 'its agent'}); wait for it, or end it with:"
                f" {command_line('hivemind tasks fail', state.spec.id)}"
            )


def _changed(plan: Plan, state: TaskState, spec: TaskSpec, how: StartMode) -> list[str]:
    """Return a message about changes that can't be made any more."""
    task = plan.tasks[spec.id.removeprefix(f"{plan.name}.")]
    where = f"{plan.file}:{task.line}: task {task.name}"
    begun = state.state in ("running", "done", "cancelled") or (state.state == "failed" and not how.retry_failed)
    if begun and state.spec.command != spec.command:
        return [f"{where} is {state.state}, so its command can't change; change it back, or begin anew with --fresh"]
    agent = spec.agent if same(state.spec.agent or spec.id, spec.agent or spec.id) else state.spec.agent
    before = replace(state.spec, command=spec.command, priority=spec.priority, attempts=spec.attempts, agent=agent)
    if before == spec:
        return []
    what = [name for field, name in _FIELDS.items() if getattr(before, field) != getattr(spec, field)]
    return [f"{where}: {' and '.join(what)} can't change any more; change it back, or begin anew with --fresh"]


async def _forget(context: BatchContext, known: Sequence[TaskState]) -> None:
    """End what still runs of the batch, and remove it from the proxy. Raises: UsageError."""
    context.folder.begun()
    _check_runners(context, known)
    for state in known:
        if state.state == "running":
            code = await _ended(context, state)
            await context.leave(state.spec.agent or state.spec.id, state.runner, code)
            await context.order(cmd.FinishTask(state.spec.id, False, "begun anew"))
    try:
        await context.order(cmd.ForgetTasks(context.batch))
    except cmd.Rejected as error:
        raise UsageError(f"{context.batch}: it can't begin anew: {error}") from None


async def _ended(context: BatchContext, state: TaskState) -> int | None:
    """End an attempt. Return its exit code; None if it has none."""
    name = context.short(state.spec.id)
    folder = context.folder.attempt(name, state.runner)
    if not folder.exists():
        return None
    attempt = TaskProcess(folder)
    if attempt.look() is None:
        context.say(f"{name} still runs and is ended", "warn")
    attempt.stop()
    try:
        return (await asyncio.wait_for(attempt.ended(), GRACE_S)).exit_code
    except TimeoutError:
        attempt.stop(hard=True)
        return (await attempt.ended()).exit_code

"""Beginning a batch: submit its tasks, or go on where an earlier runner stopped, was stopped or was killed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter

import msgspec

from hivemind.agent_names import same
from hivemind.agents.attempts import adopt
from hivemind.agents.batch_context import WHO, BatchContext, RunnerNote
from hivemind.agents.batch_job import GRACE_S
from hivemind.agents.plan_document import PlanError
from hivemind.api_types import TaskState
from hivemind.errors import UsageError
from hivemind.scheduler.commands import (
    BeginAgent,
    CancelTask,
    Command,
    FinishTask,
    ForgetTasks,
    Rejected,
    RetryTask,
    SetTaskPriority,
    SubmitTasks,
)
from hivemind.scheduler.tasks.graph import OPEN
from hivemind.scheduler.types import TaskSpec
from hivemind.text.shells import command_line

_AT_ONCE = 1 << 20
"""Bytes of tasks that are submitted together, all or none of them."""


@dataclass(frozen=True, slots=True)
class StartMode:
    """What the user wants done with a batch that is there already."""

    resume: bool = False
    fresh: bool = False
    retry_failed: bool = False


async def begin(desk: BatchContext, runner: str, how: StartMode) -> list[TaskState]:
    """Returns the tasks that an earlier runner had begun, to be seen through.

    Raises: UsageError: it can't be begun like this; NoAnswer; OSError: the folder can't be written to.
    """
    known = await _known(desk)
    if known and not how.resume and (how.fresh or all(state.state == "done" for state in known)):
        await _forget(desk, known)
        known = []
    resumed = bool(known)
    if known and not how.resume:
        raise UsageError(f"{desk.batch}: {_counted(known)}; --resume goes on, --fresh begins anew")
    try:
        if resumed:
            if not desk.folder.begun():
                desk.folder.begin()
            await _enter(desk, resumed=True)
            await _go_on(desk, known, how)
        else:
            if how.resume and desk.folder.begun() and desk.folder.plans():
                raise UsageError(
                    f"{desk.batch}: the proxy at {desk.session.way.url} doesn't know this batch any more;"
                    " name the one that does with --attach, or begin anew with --fresh"
                )
            desk.folder.begin()
            await _enter(desk, resumed=False)
            await _submit(desk, desk.plan.specs())
        desk.folder.enlist(runner, RunnerNote(desk.session.proxy is not None, desk.plan.path))
    except Rejected as error:
        raise UsageError(f"{desk.batch}: {error}") from None
    return [state for state in await _known(desk) if state.state == "running"]


async def _known(desk: BatchContext) -> list[TaskState]:
    return list((await desk.ask(lambda client: client.tasks(desk.batch))).tasks)


async def _order(desk: BatchContext, command: Command) -> None:
    await desk.ask(lambda client: client.command(command, WHO))


async def _enter(desk: BatchContext, *, resumed: bool) -> None:
    """The batch is an agent too: the parent of all of its own, with the budget of all together."""
    place = desk.place
    await desk.ask(lambda client: client.place(place))
    if not resumed:
        await _order(desk, BeginAgent(desk.batch, place.parent))
    await desk.budget(desk.batch, desk.plan.budget)


async def _submit(desk: BatchContext, specs: Sequence[TaskSpec]) -> None:
    """In one go where that isn't too much for one. What is left out by a crash is submitted by --resume."""
    part: list[TaskSpec] = []
    size = 0
    for spec in specs:
        length = len(msgspec.json.encode(spec))
        if part and size + length > _AT_ONCE:
            await _order(desk, SubmitTasks(tuple(part)))
            part, size = [], 0
        part.append(spec)
        size += length
    if part:
        await _order(desk, SubmitTasks(tuple(part)))


async def _go_on(desk: BatchContext, known: Sequence[TaskState], how: StartMode) -> None:
    """Make the graph what the plan says now. Raises: PlanError, UsageError, Rejected."""
    _check_runners(desk, known)
    by_id = {state.spec.id: state for state in known}
    specs = {spec.id: spec for spec in desk.plan.specs()}
    mistakes = [
        line for spec in specs.values() if spec.id in by_id for line in _changed(desk, by_id[spec.id], spec, how)
    ]
    mistakes += [
        f"{desk.plan.file}: task {desk.short(name)} runs, but isn't in the plan any more"
        for name, state in by_id.items()
        if name not in specs and state.state == "running"
    ]
    foreign = [name for name, state in by_id.items() if name not in specs and state.state in OPEN]
    plans = desk.folder.plans()
    if foreign and plans and desk.plan.path not in plans:
        raise UsageError(
            f"{desk.batch}: this batch was begun from {min(plans)}, another plan; give this one a name of its own"
        )
    if mistakes:
        raise PlanError(mistakes)
    for name in foreign:
        desk.say(f"{desk.short(name)} isn't in the plan any more, so it is cancelled", "warn")
        await _order(desk, CancelTask(name))
    for name, state in by_id.items():
        if name in specs and state.state in OPEN and specs[name].priority != state.spec.priority:
            await _order(desk, SetTaskPriority(name, specs[name].priority))
    if how.retry_failed:
        for name, state in by_id.items():
            if state.state == "failed" and name in specs:
                await _order(desk, RetryTask(name))
        await _unskip(
            desk, {name: state for name, state in by_id.items() if state.state == "skipped" and name in specs}
        )
    await _submit(desk, [spec for name, spec in specs.items() if name not in by_id])


async def _unskip(desk: BatchContext, skipped: Mapping[str, TaskState]) -> None:
    """What was skipped because of tasks that are tried again, or were mended since, waits for them anew."""
    behind = {name: [each for each in state.spec.after if each in skipped] for name, state in skipped.items()}
    for name in TopologicalSorter(behind).static_order():
        with contextlib.suppress(Rejected):  # it would be skipped at once, for another that it waits for
            await _order(desk, RetryTask(name))


def _check_runners(desk: BatchContext, known: Sequence[TaskState]) -> None:
    """Raises: UsageError."""
    for state in known:
        if state.state == "running" and desk.folder.runner(state.runner) is None:
            raise UsageError(
                f"{desk.batch}: task {desk.short(state.spec.id)} is run by somebody else"
                f" ({state.runner or 'its agent'}); wait for it, or end it with:"
                f" {command_line('hivemind tasks fail', state.spec.id)}"
            )


def _changed(desk: BatchContext, state: TaskState, spec: TaskSpec, how: StartMode) -> list[str]:
    """What of a task can't be changed any more."""
    task = desk.plan.tasks[desk.short(spec.id)]
    where = f"{desk.plan.file}:{task.line}: task {task.name}"
    begun = state.state in ("running", "done", "cancelled") or (state.state == "failed" and not how.retry_failed)
    if begun and state.spec.command != spec.command:
        return [f"{where} is {state.state}, so its command can't change; change it back, or begin anew with --fresh"]
    agent = spec.agent if same(state.spec.agent or spec.id, spec.agent or spec.id) else state.spec.agent
    before = replace(state.spec, command=spec.command, priority=spec.priority, attempts=spec.attempts, agent=agent)
    if before == spec:
        return []
    names = {"after": "after", "agent": "agent", "estimated_tokens": "estimate", "on_failure": "on_failure"}
    what = [name for field, name in names.items() if getattr(before, field) != getattr(spec, field)]
    return [f"{where}: {' and '.join(what)} can't change any more; change it back, or begin anew with --fresh"]


async def _forget(desk: BatchContext, known: Sequence[TaskState]) -> None:
    """Drop what is known of the batch; what still runs is ended first. Raises: UsageError."""
    desk.folder.begun()
    _check_runners(desk, known)
    for state in known:
        if state.state == "running":
            code = await _ended(desk, state)
            await desk.leave(state.spec.agent or state.spec.id, state.runner, code)
            await _order(desk, FinishTask(state.spec.id, False, "begun anew"))
    try:
        await _order(desk, ForgetTasks(desk.batch))
    except Rejected as error:
        raise UsageError(f"{desk.batch}: it can't begin anew: {error}") from None


async def _ended(desk: BatchContext, state: TaskState) -> int | None:
    """See to it that an attempt goes on no longer. Returns its exit code; None where it has none."""
    name = desk.short(state.spec.id)
    folder = desk.folder.attempt(name, state.runner)
    if not folder.exists():
        return None
    attempt = adopt(folder)
    if attempt.look() is None:
        desk.say(f"{name} still runs and is ended", "warn")
    attempt.stop()
    try:
        return (await asyncio.wait_for(attempt.ended(), GRACE_S)).exit_code
    except TimeoutError:
        attempt.stop(hard=True)
        return (await attempt.ended()).exit_code


def _counted(known: Sequence[TaskState]) -> str:
    done = sum(state.state == "done" for state in known)
    failed = sum(state.state == "failed" for state in known)
    return f"{done} of {len(known)} done" + (f", {failed} failed (--retry-failed tries them again)" if failed else "")

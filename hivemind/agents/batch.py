"""Running a batch: claim eligible tasks, run them to their ends, and show the progress."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter

import msgspec

from hivemind.agent_names import same
from hivemind.agents.attempts import TaskProcess
from hivemind.agents.batch_context import WHO, BatchContext, RunnerNote, TaskOutcome
from hivemind.agents.batch_job import GRACE_S
from hivemind.agents.plans.document import PlanError
from hivemind.agents.plans.plan import Plan
from hivemind.agents.progress import BatchProgress, TaskRow
from hivemind.agents.task_runner import TaskRunner, check_jobs
from hivemind.api_types import ClaimRequest, TaskState
from hivemind.control.client import ControlError
from hivemind.errors import UsageError
from hivemind.records import replace
from hivemind.scheduler import commands as cmd
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.tasks import OPEN
from hivemind.scheduler.types import TaskSpec
from hivemind.text.humanise import moment
from hivemind.text.shells import command_line
from hivemind.world.snapshot import TaskView

_SHOW_EVERY_S = 0.25
_NEXT_SHOWN = 6


class BatchRunner(TaskRunner):
    """One runner's work on a batch."""

    def __init__(self, context: BatchContext, limit: int, *, watched: bool = False) -> None:
        """`limit`: tasks at once; `watched`: show the usage of running tasks."""
        super().__init__(context, limit)
        self._context: BatchContext = context
        self._watched = watched
        self._began = self._clock()
        self._states: dict[str, TaskState] = {}
        self._views: dict[str, TaskView] = {}
        self._late: set[str] = set()
        self._outcomes: dict[str, list[TaskOutcome]] = {}
        self._reported: set[str] = set()
        self._forgotten = False
        """The proxy doesn't know the batch any more."""

    async def run(self, left: Iterable[TaskState], show: Callable[[BatchProgress], object]) -> BatchProgress:
        """Run until nothing is left, or the context says stop. `left`: tasks that an earlier runner had claimed."""
        await self._run(left, self._show(show))
        with contextlib.suppress(ControlError):
            await self._look_once()
        return self.standing()

    def standing(self) -> BatchProgress:
        """Return the batch's progress."""
        context = self._context
        planned_first = dict.fromkeys([*context.plan.tasks, *map(context.short, self._states)])
        rows = [self._row(name) for name in planned_first]
        ready = [state for state in self._states.values() if state.state == "ready"]
        ready.sort(key=lambda state: (state.priority, state.spec.estimated_tokens or float("inf")))
        names = [name for state in ready if (name := context.short(state.spec.id)) not in self._jobs]
        more = [f"{len(names) - _NEXT_SHOWN} more"] if len(names) > _NEXT_SHOWN else []
        elapsed_s = self._clock() - self._began
        coming = (*names[:_NEXT_SHOWN], *more)
        return BatchProgress(context.batch, rows, elapsed_s, context.folder.logs, context.notice or self._held, coming)

    @property
    def _held(self) -> str:
        """Until when tasks are paused, in words; empty: none is."""
        paused_s = max((state.paused_s for state in self._states.values()), default=0.0)
        if not paused_s:
            return ""
        wall = self._context.wall()
        return f"a plan's window is used up until {moment(wall, wall + paused_s)}"

    def _wanted(self, claim: str) -> ClaimRequest:
        return ClaimRequest(claim, self._context.batch, WHO)

    def _is_over(self) -> bool:
        return True

    async def _keep(self) -> None:
        with contextlib.suppress(Rejected):
            await self._context.session.ask(lambda client: client.place(self._context.place))

    def _ended(self, name: str) -> None:
        self._outcomes[name] = [each for each in self._context.folder.outcomes(name) if each is not None]

    # --- Progress -------------------------------------------------------------------------------------------------

    async def _look_once(self) -> None:
        context, before = self._context, list(self._jobs.values())
        found = await context.session.ask(lambda client: client.tasks(context.batch))
        self._states = {state.spec.id: state for state in found.tasks}
        check_jobs(before, self._states)
        for state in found.tasks:
            self._report(state)
        if not found.tasks and not self._forgotten:
            self._forgotten = True
            context.say("the proxy doesn't know this batch any more, so nothing more is started", "bad")
        if self._watched:
            world = await context.session.ask(lambda client: client.world())
            self._views = {view.id: view for view in world.snapshot.tasks if view.batch == context.batch}

    def _report(self, state: TaskState) -> None:
        """Say once that a task won't run."""
        name, deadline = self._context.short(state.spec.id), state.spec.deadline
        waits = state.state in ("waiting", "ready", "paused") and name not in self._late
        if deadline and waits and self._context.wall() >= deadline:
            self._late.add(name)
            self._context.say(f"{name} wasn't started by its deadline, and won't be", "warn")
        if state.state not in ("blocked", "skipped", "cancelled"):
            self._reported.discard(name)
        elif name not in self._reported:
            self._reported.add(name)
            why = f" ({self._context.short(state.note)})" if state.note else ""
            self._context.say(f"{name} is {state.state}{why}", "warn")

    async def _show(self, show: Callable[[BatchProgress], object]) -> None:
        while True:
            show(self.standing())
            await asyncio.sleep(_SHOW_EVERY_S)

    def _row(self, name: str) -> TaskRow:
        context, job = self._context, self._jobs.get(name)
        task, planned = f"{context.batch}.{name}", context.plan.tasks.get(name)
        if name not in self._outcomes or (job is not None and job.phase == "delayed"):
            self._ended(name)
        ends = self._outcomes[name]
        state, view, last = self._states.get(task), self._views.get(task), ends[-1] if ends else None
        known = last.how if last is not None and last.how in ("done", "failed") else "waiting"
        # The state may be older than the end that was reported since.
        stale = state is not None and state.state == "running" and last is not None and job is None
        row = TaskRow(name, (planned and planned.agent) or task, known if state is None or stale else state.state)
        row.attempts, row.log = len(ends), context.folder.log(name)
        if state is not None:
            row.note = context.short(state.note)
            if state.state == "ready" and state.note == "stopped":
                row.state = "stopped"
        if last is not None:
            # A task that failed here may have been resumed by `hivemind resume`.
            row.exit_code = 0 if row.state == "done" else last.exit_code
            row.seconds = sum(each.seconds for each in ends)
            row.tokens, row.dollars, row.unpriced = last.tokens, last.dollars, last.unpriced
            row.worktree, row.checkpoint, row.estimated = last.worktree or None, last.checkpoint, last.estimated
        if job is not None and job.phase != "over":
            row.state, row.exit_code = job.phase, None
            if job.began is not None and job.phase != "delayed":
                row.attempts += 1
                row.seconds = (row.seconds or 0.0) + self._clock() - job.began
            if view is not None and view.tokens > row.tokens:
                row.tokens, row.dollars = view.tokens, view.dollars
        return row


_AT_ONCE = 1 << 20
"""Bytes of tasks that are submitted together, all or none of them."""
_FIELDS = {"after": "after", "agent": "agent", "estimated_tokens": "estimate", "on_failure": "on_failure"}
"""Fields of a task that can't change once it is submitted, and their names in a plan."""


async def begin(context: BatchContext, *, resume: bool, fresh: bool, retry_failed: bool) -> list[TaskState]:
    """Begin the batch, or continue one that exists already, as the flags say. Return the tasks that an earlier runner
    had claimed, for this one to run.

    Raises: UsageError: it can't be begun like this; ControlError; OSError: the folder can't be written to.
    """
    known: Sequence[TaskState] = await context.tasks()
    if known and not resume and (fresh or all(state.state == "done" for state in known)):
        await _forget(context, known)
        known = ()
    if known and not resume:
        done, failed = (sum(state.state == each for state in known) for each in ("done", "failed"))
        counts = f"{done} of {len(known)} done"
        counts += f", {failed} failed (--retry-failed tries them again)" if failed else ""
        raise UsageError(f"{context.batch}: {counts}; --resume goes on, --fresh begins anew")
    try:
        if known:
            if not context.folder.begun():
                context.folder.begin()
            await _enter(context, resumed=True)
            await _continue(context, known, retry_failed=retry_failed)
        else:
            if resume and context.folder.begun() and context.folder.plans():
                raise UsageError(
                    f"{context.batch}: the proxy at {context.session.way.url} doesn't know this batch any more;"
                    " name the one that does with --attach, or begin anew with --fresh"
                )
            context.folder.begin()
            await _enter(context, resumed=False)
            await _submit(context, context.plan.specs())
        context.folder.note("deadlines", context.plan.deadlines())
        context.folder.enlist(context.runner, RunnerNote(context.plan.path, context.session.about.run))
    except cmd.Rejected as error:
        raise UsageError(f"{context.batch}: {error}") from None
    return [state for state in await context.tasks() if state.state == "running"]


async def _enter(context: BatchContext, *, resumed: bool) -> None:
    """Register the batch as an agent: the parent of its tasks' agents, with the budget of all together."""
    place = context.place
    await context.ask(lambda client: client.place(place))
    context.session.placed()
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


async def _continue(context: BatchContext, known: Sequence[TaskState], *, retry_failed: bool) -> None:
    """Update the graph to the plan. Raises: PlanError, UsageError, Rejected."""
    _check_runners(context, known)
    plan, plans = context.plan, context.folder.plans()
    by_id = {state.spec.id: state for state in known}
    specs = {spec.id: spec for spec in plan.specs()}
    mistakes: list[str] = []
    for name, spec in specs.items():
        mistakes += _changed(plan, by_id[name], spec, retry_failed=retry_failed) if name in by_id else []
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
    if retry_failed:
        await _retry_failed(context, {name: state for name, state in by_id.items() if name in specs})
    deadlines, before = plan.deadlines(), context.folder.noted("deadlines")
    for name, spec in specs.items():
        state, short = by_id.get(name), context.short(name)
        if state is None or not (state.state in OPEN or (retry_failed and state.state == "failed")):
            continue
        deadline = spec.deadline if deadlines.get(short) != before.get(short) else None
        if deadline is not None or spec.priority != state.spec.priority:
            await context.order(cmd.SetTaskPriority(name, spec.priority, deadline, spec.deadline_s))
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
    for state in known:
        if state.state == "running" and context.folder.runner(state.runner) is None:
            raise UsageError(
                f"{context.batch}: task {context.short(state.spec.id)} is run by somebody else"
                f" ({state.runner or 'its agent'}); wait for it, or end it with:"
                f" {command_line('hivemind tasks fail', state.spec.id)}"
            )


def _changed(plan: Plan, state: TaskState, spec: TaskSpec, *, retry_failed: bool) -> list[str]:
    """Return a message about changes that can't be made any more."""
    task = plan.tasks[spec.id.removeprefix(f"{plan.name}.")]
    where = f"{plan.file}:{task.line}: task {task.name}"
    begun = state.state in ("running", "done", "cancelled") or (state.state == "failed" and not retry_failed)
    if begun and state.spec.command != spec.command:
        return [f"{where} is {state.state}, so its command can't change; change it back, or begin anew with --fresh"]
    agent = spec.agent if same(state.spec.agent or spec.id, spec.agent or spec.id) else state.spec.agent
    kept = replace(state.spec, planned=spec.planned, cwd=spec.cwd, parent=spec.parent, agent=agent)
    before = replace(kept, command=spec.command, priority=spec.priority, attempts=spec.attempts)
    before = replace(before, deadline=spec.deadline, deadline_s=spec.deadline_s)
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
            await context.leave(state.spec.agent or state.spec.id, state.runner, code, asked=True)
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
        async with asyncio.timeout(GRACE_S):
            return (await attempt.ended()).exit_code
    except TimeoutError:
        attempt.stop(hard=True)
        return (await attempt.ended()).exit_code

"""Running a batch: claim eligible tasks, run them to their ends, and show the progress."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable

from hivemind.agents.batch_context import WHO, BatchContext, TaskOutcome
from hivemind.agents.batch_job import TaskRun
from hivemind.agents.progress import BatchProgress, TaskRow
from hivemind.api_types import ClaimRequest, TaskState
from hivemind.control.client import ANSWER_WITHIN_S, ControlError
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.places import ASK_EVERY_S
from hivemind.world.snapshot import TaskView

LOOK_EVERY_S = 1.0
"""Interval of queries for what others changed, and for usage."""
_SHOW_EVERY_S = 0.25
_NEXT_SHOWN = 6


class BatchRunner:
    """One runner's work on a batch."""

    def __init__(
        self, context: BatchContext, runner: str, limit: int, clock: Callable[[], float], *, watched: bool = False
    ) -> None:
        """`runner`: its name in claims; `limit`: tasks at once; `watched`: show the usage of running tasks."""
        self._context = context
        self._runner = runner
        self._limit = limit
        self._watched = watched
        self._clock = clock
        self._began = clock()
        self._claims = itertools.count(1)
        self._jobs: dict[str, TaskRun] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._states: dict[str, TaskState] = {}
        self._views: dict[str, TaskView] = {}
        self._outcomes: dict[str, list[TaskOutcome]] = {}
        self._reported: set[str] = set()
        self._forgotten = False
        """The proxy doesn't know the batch any more."""
        self._over = asyncio.Event()

    async def run(self, left: Iterable[TaskState], show: Callable[[BatchProgress], object]) -> BatchProgress:
        """Run until nothing is left, or the context says stop. `left`: tasks that an earlier runner had claimed."""
        looker, shower = asyncio.create_task(self._look()), asyncio.create_task(self._show(show))
        try:
            for state in left:
                self._take(TaskRun(self._context, state, taken_over=True))
            await self._work()
            while self._running:
                await asyncio.wait(self._running)
                self._reap()
            self._over.set()
            await asyncio.wait((looker,), timeout=ANSWER_WITHIN_S)
            for task in (looker, shower):
                if task.done():
                    task.result()  # raises its error
        finally:
            for task in (looker, shower, *self._running):
                task.cancel()
            await asyncio.wait((looker, shower, *self._running))
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
        return BatchProgress(context.batch, rows, elapsed_s, context.folder.logs, context.notice, coming)

    # --- Work -----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        context = self._context
        while not context.stop.is_set():
            context.changed.clear()
            self._reap()
            jobs = [job for job in self._jobs.values() if job.phase != "delayed"]
            # While a claimed task queues for its place, no other is claimed, so that the graph chooses the next.
            if len(jobs) < self._limit and not any(job.ahead is not None for job in jobs):
                try:
                    state = await self._claim()
                except ControlError:
                    return  # only once it is to stop
                if state is not None:
                    self._take(TaskRun(context, state))
                    continue
                if not self._jobs:
                    return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(context.changed.wait(), LOOK_EVERY_S)

    async def _claim(self) -> TaskState | None:
        """Claim the next task; None: none is eligible. Raises: ControlError: the runner is to stop."""
        claim, context = f"{self._runner}-{next(self._claims):06}", self._context
        wanted = ClaimRequest(claim, context.batch, WHO)
        while True:
            try:
                return (await context.session.ask(lambda client: client.claim(wanted))).task
            except ControlError as error:
                context.away(str(error))
                known = await context.tasks()
                context.back()
                # The claim may have been executed, and its answer lost.
                for state in known:
                    if state.runner == claim and state.state == "running":
                        return state

    def _take(self, job: TaskRun) -> None:
        self._jobs[job.name] = job
        self._running.add(asyncio.create_task(job.run(), name=f"task {job.name}"))

    def _reap(self) -> None:
        for task in [task for task in self._running if task.done()]:
            self._running.discard(task)
            task.result()  # raises its error
        for name in [name for name, job in self._jobs.items() if job.phase == "over"]:
            del self._jobs[name]
            self._read_outcomes(name)

    def _read_outcomes(self, name: str) -> None:
        self._outcomes[name] = [each for each in self._context.folder.outcomes(name) if each is not None]

    # --- Progress -------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        keep_at = 0.0
        while not self._over.is_set():
            try:
                await self._look_once()
                if self._clock() >= keep_at:
                    keep_at = self._clock() + ASK_EVERY_S
                    with contextlib.suppress(Rejected):
                        await self._context.session.ask(lambda client: client.place(self._context.place))
                    for job in list(self._jobs.values()):
                        await job.keep()
            except ControlError as error:
                self._context.away(str(error))
            else:
                self._context.back()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK_EVERY_S)

    async def _look_once(self) -> None:
        """Raises: ControlError."""
        context, before = self._context, list(self._jobs.values())
        found = await context.session.ask(lambda client: client.tasks(context.batch))
        self._states = {state.spec.id: state for state in found.tasks}
        for job in before:
            now = self._states.get(job.state.spec.id)
            if now is not None and (now.state != "running" or now.runner != job.state.runner):
                job.unwanted = job.unwanted or job.phase in ("queued", "running", "delayed")
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
        name = self._context.short(state.spec.id)
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
            self._read_outcomes(name)
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
        if job is not None and job.phase != "over":
            row.state, row.exit_code = job.phase, None
            if job.began is not None and job.phase != "delayed":
                row.attempts += 1
                row.seconds = (row.seconds or 0.0) + max(0.0, context.wall() - job.began)
            if view is not None and view.tokens > row.tokens:
                row.tokens, row.dollars = view.tokens, view.dollars
        return row

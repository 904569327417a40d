"""Running a batch: claim what is eligible, see it through, and show how it stands."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from hivemind.agents.batch_context import WHO, BatchContext
from hivemind.agents.batch_job import TaskRun
from hivemind.agents.progress import BatchProgress, TaskRow
from hivemind.api_types import ClaimRequest, TaskState
from hivemind.control.client import ANSWER_WITHIN_S, ControlError
from hivemind.scheduler.commands import Rejected
from hivemind.scheduler.places import ASK_EVERY_S
from hivemind.world.snapshot import TaskView

if TYPE_CHECKING:
    from hivemind.agents.batch_context import TaskOutcome

LOOK_EVERY_S = 1.0
"""At what others change, and at what agents use."""
_SHOW_EVERY_S = 0.25
_NEXT_SHOWN = 6


class BatchRunner:
    """One runner's work on a batch."""

    def __init__(
        self, desk: BatchContext, runner: str, limit: int, clock: Callable[[], float], *, watched: bool = False
    ) -> None:
        """`runner`: as it claims tasks; `limit`: tasks that it runs at once; `watched`: show what running ones use."""
        self._desk = desk
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
        self._told: set[str] = set()
        self._forgotten = False
        """By the proxy."""
        self._over = asyncio.Event()

    async def run(self, left: Iterable[TaskState], show: Callable[[BatchProgress], object]) -> BatchProgress:
        """Until nothing is left to run, or the desk's word to stop. `left`: what an earlier runner was at."""
        looker, shower = asyncio.create_task(self._look()), asyncio.create_task(self._show(show))
        try:
            for state in left:
                self._take(TaskRun(self._desk, state, taken_over=True))
            await self._work()
            while self._running:
                await asyncio.wait(self._running)
                self._reap()
            self._over.set()
            await asyncio.wait((looker,), timeout=ANSWER_WITHIN_S)
            for task in (looker, shower):
                if task.done():
                    task.result()  # likewise
        finally:
            for task in (looker, shower, *self._running):
                task.cancel()
            await asyncio.wait((looker, shower, *self._running))
        with contextlib.suppress(ControlError):
            await self._look_once()
        return self.standing()

    def standing(self) -> BatchProgress:
        """Return the batch's progress."""
        rows = [self._row(name) for name in self._names()]
        ready = sorted((state for state in self._states.values() if state.state == "ready"), key=_turn)
        names = [name for state in ready if (name := self._desk.short(state.spec.id)) not in self._jobs]
        more = [f"{len(names) - _NEXT_SHOWN} more"] if len(names) > _NEXT_SHOWN else []
        elapsed_s = self._clock() - self._began
        return BatchProgress(
            self._desk.batch, rows, elapsed_s, self._desk.folder.logs, self._desk.notice, (*names[:_NEXT_SHOWN], *more)
        )

    # --- Work -----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        desk = self._desk
        while not desk.stop.is_set():
            desk.changed.clear()
            self._reap()
            if self._has_room():
                try:
                    state = await self._claim()
                except ControlError:
                    return  # only once it is to stop
                if state is not None:
                    self._take(TaskRun(desk, state))
                    continue
                if not self._jobs:
                    return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(desk.changed.wait(), LOOK_EVERY_S)

    def _has_room(self) -> bool:
        """Whether another task may be claimed; one at a time where they queue, so that the graph chooses the next."""
        jobs = [job for job in self._jobs.values() if job.phase != "delayed"]
        return len(jobs) < self._limit and not any(job.ahead is not None for job in jobs)

    async def _claim(self) -> TaskState | None:
        """The next task; None: none is eligible. Raises: NoAnswer: the runner is to stop."""
        claim, desk = f"{self._runner}-{next(self._claims):06}", self._desk
        wanted = ClaimRequest(claim, desk.batch, WHO)
        while True:
            try:
                return (await desk.session.ask(lambda client: client.claim(wanted))).task
            except ControlError as error:
                desk.away(str(error))
                known = await desk.ask(lambda client: client.tasks(desk.batch))
                desk.back()
                # It may have been heard, and its answer lost.
                for state in known.tasks:
                    if state.runner == claim and state.state == "running":
                        return state

    def _take(self, job: TaskRun) -> None:
        self._jobs[job.name] = job
        self._running.add(asyncio.create_task(job.run(), name=f"task {job.name}"))

    def _reap(self) -> None:
        """Let go of what is over."""
        for task in [task for task in self._running if task.done()]:
            self._running.discard(task)
            task.result()  # a fault of ours must not pass unseen
        for name in [name for name, job in self._jobs.items() if job.phase == "over"]:
            del self._jobs[name]
            self._remember(name)

    def _remember(self, name: str) -> None:
        self._outcomes[name] = [each for each in self._desk.folder.outcomes(name) if each is not None]

    # --- Looking --------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        keep_at = 0.0
        while not self._over.is_set():
            try:
                await self._look_once()
                if self._clock() >= keep_at:
                    keep_at = self._clock() + ASK_EVERY_S
                    await self._keep_places()
            except ControlError as error:
                self._desk.away(str(error))
            else:
                self._desk.back()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), LOOK_EVERY_S)

    async def _look_once(self) -> None:
        """Raises: NoAnswer."""
        desk, before = self._desk, list(self._jobs.values())
        found = await desk.session.ask(lambda client: client.tasks(desk.batch))
        self._states = {state.spec.id: state for state in found.tasks}
        for job in before:
            now = self._states.get(job.state.spec.id)
            if now is not None and (now.state != "running" or now.runner != job.state.runner):
                job.unwanted = job.unwanted or job.phase in ("queued", "running", "delayed")
        for state in found.tasks:
            self._tell(state)
        if not found.tasks and not self._forgotten:
            self._forgotten = True
            desk.say("the proxy doesn't know this batch any more, so nothing more is started", "bad")
        if self._watched:
            world = await desk.session.ask(lambda client: client.world())
            self._views = {view.id: view for view in world.snapshot.tasks if view.batch == desk.batch}

    async def _keep_places(self) -> None:
        """Raises: NoAnswer."""
        with contextlib.suppress(Rejected):
            await self._desk.keep(self._desk.place)
        for job in list(self._jobs.values()):
            await job.keep()

    def _tell(self, state: TaskState) -> None:
        """What nobody said yet: tasks that won't run."""
        name = self._desk.short(state.spec.id)
        if state.state not in ("blocked", "skipped", "cancelled"):
            self._told.discard(name)
        elif name not in self._told:
            self._told.add(name)
            why = f" ({self._desk.short(state.note)})" if state.note else ""
            self._desk.say(f"{name} is {state.state}{why}", "warn")

    # --- Showing --------------------------------------------------------------------------------------------------

    async def _show(self, show: Callable[[BatchProgress], object]) -> None:
        while True:
            show(self.standing())
            await asyncio.sleep(_SHOW_EVERY_S)

    def _names(self) -> list[str]:
        return list(dict.fromkeys([*self._desk.plan.tasks, *map(self._desk.short, self._states)]))

    def _row(self, name: str) -> TaskRow:
        task, job = f"{self._desk.batch}.{name}", self._jobs.get(name)
        if name not in self._outcomes or (job is not None and job.phase == "delayed"):
            self._remember(name)
        ends = self._outcomes[name]
        state, view, last = self._states.get(task), self._views.get(task), ends[-1] if ends else None
        planned = self._desk.plan.tasks.get(name)
        known = last.how if last is not None and last.how in ("done", "failed") else "waiting"
        # What the graph was last seen to say may be older than the end that was told to it.
        stale = state is not None and state.state == "running" and last is not None and job is None
        row = TaskRow(name, (planned and planned.agent) or task, known if state is None or stale else state.state)
        row.attempts, row.log = len(ends), self._desk.folder.log(name)
        if state is not None:
            row.note = self._desk.short(state.note)
            if state.state == "ready" and state.note == "stopped":
                row.state = "stopped"
        if last is not None:
            # One that failed here may have been resumed by itself.
            row.exit_code = 0 if row.state == "done" else last.exit_code
            row.seconds = sum(each.seconds for each in ends)
            row.tokens, row.dollars, row.unpriced = last.tokens, last.dollars, last.unpriced
        if job is not None and job.phase != "over":
            row.state, row.exit_code = job.phase, None
            if job.began is not None and job.phase != "delayed":
                row.attempts += 1
                row.seconds = (row.seconds or 0.0) + max(0.0, self._desk.wall() - job.began)
            if view is not None and view.tokens > row.tokens:
                row.tokens, row.dollars = view.tokens, view.dollars
        return row


def _turn(state: TaskState) -> tuple[int, float]:
    return state.priority, state.spec.estimated_tokens or float("inf")

"""Running tasks of the graph: claim those that are eligible, and run them to their ends."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable

from hivemind.agents.batch_context import RunnerContext
from hivemind.agents.batch_job import TaskRun
from hivemind.api_types import ClaimRequest, TaskState
from hivemind.control.client import ANSWER_WITHIN_S, ControlError
from hivemind.scheduler.places import ASK_EVERY_S
from hivemind.waiting import wait_up_to

LOOK_EVERY_S = 1.0
"""Interval of queries for what others changed, and for usage."""


class TaskRunner(ABC):
    """One runner's work on tasks."""

    def __init__(self, context: RunnerContext, limit: int) -> None:
        """`limit`: tasks at once."""
        self._context = context
        self._limit = limit
        self._clock = asyncio.get_running_loop().time
        self._claims = itertools.count(1)
        self._jobs: dict[str, TaskRun] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._paused = False
        """Some tasks wait until a plan's window is whole again."""

    async def _run(self, left: Iterable[TaskState], *beside: Coroutine[None, None, None]) -> None:
        """Run until nothing is left, or the context says stop. `left`: tasks that an earlier runner had claimed;
        `beside`: what goes on meanwhile, and is cancelled at the end."""
        looker, *others = [asyncio.create_task(each) for each in (self._look(), *beside)]
        try:
            for state in left:
                self._take(TaskRun(self._context, state, taken_over=True))
            await self._work()
            while self._running:
                await asyncio.wait(self._running)
                self._reap()
            self._over.set()
            await asyncio.wait((looker,), timeout=ANSWER_WITHIN_S)
            for task in (looker, *others):
                if task.done():
                    task.result()  # raises its error
        finally:
            for task in (looker, *others, *self._running):
                task.cancel()
            await asyncio.wait((looker, *others, *self._running))

    async def _work(self) -> None:
        context = self._context
        while not context.stop.is_set():
            context.changed.clear()
            self._reap()
            jobs = [job for job in self._jobs.values() if job.phase != "delayed"]
            # While a claimed task queues for its place, no other is claimed, so that the graph chooses the next.
            if len(jobs) < self._limit and all(job.ahead is None for job in jobs):
                try:
                    state = await self._claim()
                except ControlError:
                    return  # only once it is to stop
                if state is not None:
                    self._take(TaskRun(context, state))
                    continue
                if not (self._jobs or self._paused) and self._is_over():
                    return
            await wait_up_to(context.changed, LOOK_EVERY_S)

    async def _claim(self) -> TaskState | None:
        """Claim the next task; None: none is eligible. Raises: ControlError: the runner is to stop."""
        claim, context = f"{self._context.runner}-{next(self._claims):06}", self._context
        wanted = self._wanted(claim)
        while True:
            try:
                claimed = await context.session.ask(lambda client: client.claim(wanted))
                self._paused = claimed.paused > 0
                return claimed.task
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
            self._ended(name)

    async def _look(self) -> None:
        keep_at = 0.0
        while not self._over.is_set():
            try:
                await self._look_once()
                if self._clock() >= keep_at:
                    keep_at = self._clock() + ASK_EVERY_S
                    await self._keep()
                    for job in list(self._jobs.values()):
                        await job.keep()
            except ControlError as error:
                self._context.away(str(error))
            else:
                self._context.back()
            await wait_up_to(self._over, LOOK_EVERY_S)

    @abstractmethod
    def _wanted(self, claim: str) -> ClaimRequest:
        """Return the request for the next task."""

    @abstractmethod
    def _is_over(self) -> bool:
        """Whether the runner ends, as nothing runs and nothing can be claimed."""

    @abstractmethod
    async def _look_once(self) -> None:
        """Ask what others changed. Raises: ControlError."""

    @abstractmethod
    async def _keep(self) -> None:
        """Tell the proxy that this runner is there. Raises: ControlError."""

    @abstractmethod
    def _ended(self, name: str) -> None:
        """Note that a task's attempt has ended."""


def check_jobs(jobs: Iterable[TaskRun], states: dict[str, TaskState]) -> None:
    """Have attempts end whose tasks others ended; `states`: what was known after those attempts began."""
    for job in jobs:
        now = states.get(job.state.spec.id)
        if now is not None and (now.state != "running" or now.runner != job.state.runner):
            job.unwanted = job.unwanted or job.phase in ("queued", "running", "delayed")

"""Running tasks that no batch's runner sees to, as they come.

Several runners may work at once, since the proxy gives each task to one. Each holds a lock for as long as it lives, and
what a killed one has left is taken over by whoever gets its lock. A task of a plan is left to the plan's runner, which
alone knows its environment. That a runner is there is known by its asking, so a task can say that nobody will run it.

::

    work/runners/CLAIM                    a file for each runner
    work/locks/CLAIM                      held by it for as long as it lives
    work/logs/TASK.log
    work/attempts/TASK/CLAIM/             as of a batch
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from hivemind.agents.batch_context import WHO, RunnerContext, RunnerFolder, RunnerNote
from hivemind.agents.batch_job import TaskRun
from hivemind.agents.task_runner import TaskRunner, check_jobs
from hivemind.api_types import ClaimRequest
from hivemind.store.locks import take_lock

_KEPT_S = 30 * 86_400
"""Files of tasks and runners that weren't changed for so long are removed."""


class WorkFolder(RunnerFolder):
    """The files of all these runners on a machine. Raises: OSError, from every method."""

    def __init__(self, state: Path) -> None:
        super().__init__(state / "work")
        self._begin()
        self._locks = self.root / "locks"
        self._locks.mkdir(mode=0o700, exist_ok=True)
        self._held: dict[str, int] = {}

    @contextlib.contextmanager
    def joined(self, runner: str, note: RunnerNote) -> Iterator[None]:
        """Be one of the runners in this context, and release at its end what was taken over."""
        self._prune(time.time() - _KEPT_S)
        assert self.take_over(runner), "the name is new"
        try:
            self.enlist(runner, note)
            yield
        finally:
            for file in self._held.values():
                os.close(file)
            self._held.clear()

    def take_over(self, runner: str) -> bool:
        """Return whether a runner's tasks are this process's now, because it doesn't live any more."""
        if runner in self._held:
            return True
        try:
            self._held[runner] = take_lock(self._locks / runner)
        except BlockingIOError:
            return False
        return True

    def _prune(self, before: float) -> None:
        for part in (self.root / "attempts", self.logs, self.root / "runners", self._locks):
            for path in part.iterdir():
                with contextlib.suppress(FileNotFoundError):  # another runner prunes too
                    if path.stat().st_mtime < before:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()


class Worker(TaskRunner):
    """A runner of whatever tasks are submitted outside of batches."""

    def __init__(self, context: RunnerContext, folder: WorkFolder, limit: int, idle_exit_s: float | None) -> None:
        """`idle_exit_s`: end if nothing ran for so long; None: never."""
        super().__init__(context, limit)
        self._folder = folder
        self._idle_exit_s = idle_exit_s
        self._busy_at = self._clock()
        self._seen: set[str] = set()
        """Claims of other runners that were taken over."""

    async def run(self) -> None:
        """Run until the context says stop, or nothing came for long enough."""
        await self._run(())

    def _wanted(self, claim: str) -> ClaimRequest:
        return ClaimRequest(claim, None, WHO, self._context.runner)

    def _is_over(self) -> bool:
        return self._idle_exit_s is not None and self._clock() - self._busy_at >= self._idle_exit_s

    async def _look_once(self) -> None:
        jobs, own = list(self._jobs.values()), self._context.runner
        found = (await self._context.session.ask(lambda client: client.tasks(running=True))).tasks
        states = {state.spec.id: state for state in found}
        check_jobs(jobs, states)
        for job in jobs:
            if job.state.spec.id not in states:
                job.unwanted = job.unwanted or job.phase in ("queued", "running", "delayed")
        if jobs or self._paused:
            self._busy_at = self._clock()
        for state in found:
            runner = state.runner.rpartition("-")[0]
            if runner == own or state.runner in self._seen or self._folder.runner(state.runner) is None:
                continue
            if not self._context.stop.is_set() and self._folder.take_over(runner):
                self._seen.add(state.runner)
                self._take(TaskRun(self._context, state, taken_over=True))

    async def _keep(self) -> None:
        present = ClaimRequest(self._context.runner, None, WHO, self._context.runner, wants=False)
        await self._context.session.ask(lambda client: client.claim(present))

    def _ended(self, name: str) -> None:
        self._busy_at = self._clock()

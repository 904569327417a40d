"""What a restart must know: handed from the scheduler to the database when it changes, and back at the start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hivemind.records import replace
from hivemind.scheduler.accounts import Spent
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.tasks import SavedTask
from hivemind.store.schema import SavedBatch, SavedRun
from hivemind.store.store import Store

EVERY_S = 0.3
"""Between two batches. With the time between two reports of a stream, a kill loses less than a second."""
AGENTS_AT_ONCE = 25  # in one step of the loop, which takes about a tenth of a millisecond


class LedgerStore:
    """The records of one scheduler; made on its event loop, before its first request.

    `wall` is the time of day in seconds since the epoch; `day` names the present one.
    """

    def __init__(self, scheduler: Scheduler, store: Store, wall: Callable[[], float], day: str) -> None:
        self.day = day  # change it when another one begins, after what that brings about
        self._loop = asyncio.get_running_loop()
        self._scheduler = scheduler
        self._store = store
        self._wall = wall
        self.timer: asyncio.Handle | None = None
        """Set while something waits to be written, which needs no further :meth:`look`."""
        kept, now = store.take(), self._loop.time()
        self._last = {run.agent: run for run in kept.runs}
        self._next_run = kept.next_run
        self._runs: dict[int, SavedRun] = {}
        self._batch = SavedBatch()
        """What is gathered for the store."""
        since = now - wall()
        tasks = [_shifted(task, since) for task in kept.tasks]
        scheduler.restore(kept.agents, tasks, kept.in_flight, now, new_run=kept.clean)
        scheduler.works.restore((name, replace(work, began_at=work.began_at + since)) for name, work in kept.works)
        if kept.day not in ("", day):
            scheduler.begin_period(now, "day")
            if kept.day[:7] != day[:7]:
                scheduler.begin_period(now, "month")
        store.put(self._take())
        store.start()

    def look(self) -> None:
        """Have what changed written soon, if anything did."""
        if self.timer is None and (self._scheduler.has_unsaved or self._runs):
            self.timer = self._loop.call_later(EVERY_S, self._begin)

    async def settled(self) -> None:
        """Wait until all that happened so far would survive a crash."""
        self.flush()
        await self._store.settled()

    def run_began(self, agent: str, command: tuple[str, ...], cwd: str, task: str | None, *, goes_on: bool) -> None:
        """An agent's process was started; `goes_on`: before the proxy was, perhaps."""
        last = self._last.get(agent)
        if goes_on and last is not None and last.ended_at is None:
            return
        self._note(SavedRun(self._next_run, agent, command, cwd, task, self._wall()))
        self._next_run += 1
        self.look()

    def run_ended(self, agent: str, exit_code: int | None, spent: Spent) -> None:
        """Note that the process has ended, or that its runner is gone."""
        last = self._last.get(agent)
        if last is None or last.ended_at is not None:
            return
        used = replace(last, tokens=spent.tokens, dollars=spent.dollars, unpriced=spent.unpriced)
        self._note(replace(used, ended_at=self._wall(), exit_code=exit_code))
        self.look()

    def last_run(self, agent: str) -> SavedRun | None:
        """Return what was started as that agent last, in this run of the proxy or an earlier one."""
        return self._last.get(agent)

    def open_runs(self) -> list[str]:
        """Return the agents whose processes haven't ended as far as known."""
        return [agent for agent, run in self._last.items() if run.ended_at is None]

    def _note(self, run: SavedRun) -> None:
        self._last[run.agent] = self._runs[run.id] = run

    def flush(self) -> None:
        """Hand what changed to the store now."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._gather(None)
        self._hand_over()

    def _begin(self) -> None:
        ledger = self._scheduler.ledger
        self._step(len(ledger.unsaved) + len(ledger.unsaved_use))

    def _step(self, left: int) -> None:
        """Hand over what changed of so many agents, gathered in steps between which traffic is served."""
        self._gather(AGENTS_AT_ONCE)
        if left > AGENTS_AT_ONCE:
            self.timer = self._loop.call_soon(self._step, left - AGENTS_AT_ONCE)
        else:
            self.timer = None
            self._hand_over()
            self.look()  # more may have changed meanwhile

    def _gather(self, most: int | None) -> None:
        self._batch = self._take(most).over(self._batch)

    def _hand_over(self) -> None:
        """Hand what is gathered to the store, in one piece: its thread runs beside the event loop, and slows it."""
        batch, self._batch = self._batch, SavedBatch()
        if batch:
            self._store.put(batch)

    def _take(self, most: int | None = None) -> SavedBatch:
        unsaved, wall, now = self._scheduler.take_unsaved(most), self._wall(), self._loop.time()
        runs, self._runs = self._runs, {}
        seen = {name: wall - (now - at) for name, at in unsaved.seen.items()}
        works = {
            name: work and replace(work, began_at=wall - (now - work.began_at)) for name, work in unsaved.works.items()
        }
        tasks = {name: task and _shifted(task, wall - now) for name, task in unsaved.tasks.items()}
        return SavedBatch(
            unsaved.agents, seen, tasks, unsaved.forgotten, works, unsaved.in_flight, runs, wall, self.day
        )


def _shifted(task: SavedTask, by_s: float) -> SavedTask:
    """Return a task on another clock."""
    ready_at = None if task.ready_at is None else task.ready_at + by_s
    return replace(task, paused_until=task.paused_until and task.paused_until + by_s, ready_at=ready_at)

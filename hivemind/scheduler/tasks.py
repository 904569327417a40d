"""The task graph: who waits for whom, who may start, and in which order (paper, Priority Queue with Dependency DAG).

A task is eligible when all its predecessors are done. Among the eligible the most urgent is first, then the smallest,
then the oldest; a task counts as at least as urgent as whoever waits for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from .commands import Rejected
from .types import Priority, TaskSpec

TASK_STATES = ("waiting", "ready", "running", "done", "failed", "blocked", "skipped", "cancelled")
"""For predecessors; for somebody to start it; being worked on; ended well; ended badly; a predecessor ended badly, and
this waits for that to be mended; the same, and it will never run; not wanted any more."""
OPEN = frozenset({"waiting", "ready", "running", "blocked"})
"""States that aren't an end."""
SPOILED = frozenset({"failed", "cancelled", "skipped", "blocked"})
"""States of a predecessor that keep a task from ever becoming eligible by itself."""
MOST = 100_000
"""Tasks known at once."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class Task:
    """One task and where it stands. Changed by :class:`Tasks` alone."""

    __slots__ = ("attempt", "followers", "missing", "note", "number", "priority", "runner", "spec", "state")

    def __init__(self, spec: TaskSpec, number: int) -> None:
        self.spec = spec
        self.number = number
        """Of arrival."""
        self.state = "waiting"
        self.priority = spec.priority
        """What it counts as."""
        self.attempt = 0
        """Times it was started."""
        self.runner = ""
        """Who started it, as long as it runs."""
        self.note = ""
        """Why it stands where it does."""
        self.missing: set[str] = set()
        """Predecessors that aren't done."""
        self.followers: list[Task] = []

    @property
    def agent(self) -> str:
        """Who works on it."""
        return self.spec.agent or self.spec.id

    @property
    def rank(self) -> tuple[Priority, float, int]:
        """Sorts the eligible: priority, then size (unknown last), then arrival."""
        return self.priority, self.spec.estimated_tokens or float("inf"), self.number


class Tasks(dict[str, Task]):
    """By id. Every method that changes something returns the tasks that moved, in the order in which they did."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = 0
        self._by_agent: dict[str, dict[str, Task]] = {}

    def of_agent(self, agent: str) -> Iterable[Task]:
        """Tasks that an agent works on, by arrival."""
        return self._by_agent.get(agent, {}).values()

    def eligible(self, batch: str | None = None) -> list[Task]:
        """Those that may be started, best first; of one batch, or (None) of all."""
        ready = [task for task in self.values() if task.state == "ready" and batch in (None, task.spec.batch)]
        return sorted(ready, key=lambda task: task.rank)

    def submit(self, specs: Iterable[TaskSpec]) -> list[Task]:
        """Add tasks, all or none.

        Raises: Rejected: an id can't be one or is taken, a predecessor isn't known, or there is a cycle, which is
        written out.
        """
        fresh = self._checked(list(specs))
        made = []
        for spec in fresh:
            self._numbers += 1
            task = self[spec.id] = Task(spec, self._numbers)
            self._by_agent.setdefault(task.agent, {})[spec.id] = task
            made.append(task)
        for task in made:
            self._link(task)
        for task in made:
            self._settle(task)
        changed = {task.spec.id: task for task in made}
        for task in made:
            changed |= {each.spec.id: each for each in self._inherit(task)}
        return list(changed.values())

    def claim(self, name: str, runner: str) -> list[Task]:
        """Somebody starts it. Raises: Rejected: it isn't eligible."""
        task = self.known(name)
        if task.state != "ready":
            raise Rejected(f"task {name} is {task.state}{_because(task)}, so it can't be started")
        return [_moved(task, "running", runner=runner, attempt=task.attempt + 1)]

    def finish(self, name: str, *, ok: bool, note: str, again: bool) -> list[Task]:
        """Its attempt has ended. Raises: Rejected: none was running."""
        task = self.known(name)
        if task.state != "running":
            raise Rejected(f"task {name} is {task.state}, not running")
        if ok:
            _moved(task, "done", note)
            return [task, *self._released(task)]
        if again:
            return [_moved(task, "ready", note)]
        return self._spoil(task, "failed", note)

    def cancel(self, name: str) -> list[Task]:
        """Not wanted any more. Raises: Rejected: it has ended."""
        task = self.known(name)
        if task.state not in OPEN:
            raise Rejected(f"task {name} is {task.state} already")
        return self._spoil(task, "cancelled", "")

    def retry(self, name: str) -> list[Task]:
        """Once more, as if it had never been started. Raises: Rejected: it didn't end badly."""
        task = self.known(name)
        if task.state not in ("failed", "cancelled", "skipped"):
            raise Rejected(f"task {name} is {task.state}{_because(task)}; only one that failed can be tried again")
        self._settle(task)
        changed, queue = [task, *self._inherit(task)], list(task.followers)
        while queue:
            follower = queue.pop(0)
            if follower.state == "blocked":
                self._settle(follower)
                changed.append(follower)
                queue += follower.followers
        return changed

    def set_priority(self, name: str, priority: Priority) -> list[Task]:
        """Its own, from now on. Raises: Rejected: it has ended."""
        task = self.known(name)
        if task.state not in OPEN:
            raise Rejected(f"task {name} is {task.state} already")
        task.spec = replace(task.spec, priority=priority)
        return self._inherit(task) or [task]

    def forget(self, batch: str) -> list[Task]:
        """Drop a batch. Raises: Rejected: one of its tasks runs, or one of another batch waits for it."""
        gone = [task for task in self.values() if task.spec.batch == batch]
        for task in gone:
            if task.state == "running":
                raise Rejected(f"task {task.spec.id} is running")
            outside = next((f for f in task.followers if f.spec.batch != batch and f.state in OPEN), None)
            if outside is not None:
                raise Rejected(f"task {outside.spec.id} waits for {task.spec.id}")
        for task in gone:
            del self[task.spec.id]
            mine = self._by_agent[task.agent]
            del mine[task.spec.id]
            if not mine:
                del self._by_agent[task.agent]
        for task in self.values():
            task.followers = [each for each in task.followers if each.spec.batch != batch]
        return gone

    def restore(self, saved: Iterable[tuple[TaskSpec, int, str, int, str, str]]) -> None:
        """Take tasks over from an earlier run: spec, number, state, attempt, runner and note of each."""
        for spec, number, state, attempt, runner, note in sorted(saved, key=lambda each: each[1]):
            task = self[spec.id] = Task(spec, number)
            task.state, task.attempt, task.runner, task.note = state, attempt, runner, note
            self._by_agent.setdefault(task.agent, {})[spec.id] = task
            self._numbers = max(self._numbers, number)
        for task in self.values():
            self._link(task)
        for task in self.values():
            self._inherit(task)

    def known(self, name: str) -> Task:
        """The task of that id. Raises: Rejected: there is none."""
        task = self.get(name)
        if task is None:
            raise Rejected(f"no task named {name!r}" + (f"; known: {_some(self)}" if self else ""))
        return task

    # --- Checks ---------------------------------------------------------------------------------------------------

    def _checked(self, specs: list[TaskSpec]) -> list[TaskSpec]:
        if len(self) + len(specs) > MOST:
            raise Rejected(f"{len(self) + len(specs):,} tasks are too many; at most {MOST:,} may be known at once")
        names = {spec.id for spec in specs}
        seen: set[str] = set()
        for spec in specs:
            if not _ID.fullmatch(spec.id):
                raise Rejected(f"task {spec.id[:80]!r}: a name is letters, digits, . _ and -, up to 80 of them")
            if spec.id in seen or spec.id in self:
                raise Rejected(f"task {spec.id} is there already")
            if spec.estimated_tokens < 0 or spec.attempts < 1:
                raise Rejected(f"task {spec.id}: estimated_tokens must be 0 or more, attempts 1 or more")
            seen.add(spec.id)
            for other in spec.after:
                if other not in names and other not in self:
                    raise Rejected(f"task {spec.id} waits for {other!r}, which isn't known")
        try:
            TopologicalSorter({spec.id: spec.after for spec in specs}).prepare()
        except CycleError as error:
            # As graphlib gives it, each one is waited for by the next.
            raise Rejected("tasks wait for each other: " + " -> ".join(reversed(error.args[1]))) from None
        return specs

    # --- Moves ----------------------------------------------------------------------------------------------------

    def _link(self, task: Task) -> None:
        for name in dict.fromkeys(task.spec.after):
            before = self.get(name)
            if before is not None:
                before.followers.append(task)
                if before.state != "done":
                    task.missing.add(name)

    def _settle(self, task: Task) -> None:
        """Where it stands when it isn't running and hasn't ended: by its predecessors."""
        spoiler = next((name for name in task.spec.after if name in self and self[name].state in SPOILED), None)
        if spoiler is not None:
            state = "blocked" if task.spec.on_failure == "block" else "skipped"
            _moved(task, state, f"{spoiler} is {self[spoiler].state}", attempt=0)
        else:
            _moved(task, "waiting" if task.missing else "ready", "", attempt=0)

    def _released(self, task: Task) -> Iterator[Task]:
        for follower in task.followers:
            follower.missing.discard(task.spec.id)
            if follower.state == "waiting" and not follower.missing:
                yield _moved(follower, "ready", "")

    def _spoil(self, task: Task, state: str, note: str) -> list[Task]:
        """It ended badly, and whoever waits for it hears of it."""
        changed, queue = [_moved(task, state, note)], [task]
        while queue:
            spoiled = queue.pop(0)
            for follower in spoiled.followers:
                if follower.state == "waiting":
                    self._settle(follower)
                    changed.append(follower)
                    queue.append(follower)
        for each in list(changed):
            changed += [other for other in self._relaxed(each) if other not in changed]
        return changed

    # --- Inherited priority ---------------------------------------------------------------------------------------

    def _inherit(self, task: Task) -> list[Task]:
        """Bring what the task counts as up to date, and that of all before it. Returns those that changed."""
        changed, queue = [], [task]
        while queue:
            each = queue.pop(0)
            waiting = [follower.priority for follower in each.followers if follower.state in ("waiting", "ready")]
            priority = min(waiting, default=each.spec.priority)
            priority = min(priority, each.spec.priority)
            if priority != each.priority:
                each.priority = priority
                changed.append(each)
            elif each is not task:
                continue
            queue += [self[name] for name in each.spec.after if name in self and self[name].state in OPEN]
        return changed

    def _relaxed(self, task: Task) -> list[Task]:
        """It waits no longer, so those before it needn't count as urgent as it any more."""
        before = [self[name] for name in task.spec.after if name in self and self[name].state in OPEN]
        return [changed for each in before for changed in self._inherit(each)]


def _moved(task: Task, state: str, note: str = "", *, runner: str = "", attempt: int | None = None) -> Task:
    task.state, task.note, task.runner = state, note, runner
    if attempt is not None:
        task.attempt = attempt
    return task


def _because(task: Task) -> str:
    if task.state == "waiting":
        return f" for {_some(sorted(task.missing))}"
    return f" ({task.note})" if task.note else ""


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:5]) + (" …" if len(shown) > 5 else "")

"""What holds of any graph, whatever fails and whenever the proxy dies."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import pytest
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scheduler.test_tasks import eligible

from hivemind.scheduler import commands as cmd
from hivemind.scheduler.config import SchedulerConfig
from hivemind.scheduler.persistence import Unsaved
from hivemind.scheduler.scheduler import Scheduler
from hivemind.scheduler.tasks import OPEN, SPOILED, SavedTask, Task
from hivemind.scheduler.types import Priority, TaskSpec

RUNNERS = ("one", "two", "three")


class ProxyDied(Exception):
    """It was killed; what it was asked for may have been written, or not."""


@dataclass(slots=True)
class Attempt:
    """A process that a runner started."""

    task: str
    number: int
    may_again: bool
    ok: bool | None = None
    """How it ended; None: it runs."""


class Disk:
    """What was written, in order."""

    def __init__(self) -> None:
        self.tasks: dict[str, SavedTask] = {}

    def write(self, records: Unsaved) -> None:
        tasks = self.tasks | records.tasks
        self.tasks = {name: task for name, task in tasks.items() if task is not None}


class Night:
    """A proxy that dies now and then, runners that go on with what they hold, and an operator who meddles."""

    def __init__(self, random: Random, crash_share: float, fail_share: float) -> None:
        self.random = random
        self.crash_share, self.fail_share = crash_share, fail_share
        self.disk = Disk()
        self.scheduler = Scheduler(SchedulerConfig(), random.random)
        self.unwritten: list[Unsaved] = []
        self.held: dict[str, list[Attempt]] = {name: [] for name in RUNNERS}
        self.succeeded: Counter[str] = Counter()
        self.crashes = 0

    # --- The proxy ------------------------------------------------------------------------------------------------

    def ask(self, command: cmd.Command, *, reliable: bool = False) -> None:
        """Carried out and written before the answer comes, unless the proxy dies at one of these moments.

        Raises: ProxyDied, Rejected.
        """
        self.scheduler.apply(0.0, command, "you")
        for act in (self.take, self.write, lambda: None):
            if not reliable and self.random.random() < self.crash_share:
                self.die()
                raise ProxyDied
            act()

    def take(self) -> None:
        if records := self.scheduler.take_unsaved():
            self.unwritten.append(records)

    def write(self) -> None:
        for records in self.unwritten:
            self.disk.write(records)
        self.unwritten.clear()

    def die(self) -> None:
        for records in self.unwritten[: self.random.randint(0, len(self.unwritten))]:
            self.disk.write(records)
        self.unwritten.clear()
        self.crashes += 1
        self.scheduler = Scheduler(SchedulerConfig(), self.random.random)
        shuffled = self.random.sample(list(self.disk.tasks.values()), len(self.disk.tasks))
        self.scheduler.restore((), shuffled, {}, 0.0, new_run=False)
        check(self.scheduler.tasks.values())

    # --- Runners --------------------------------------------------------------------------------------------------

    def resume(self, runner: str) -> None:
        """What runs in its name, and it knows nothing of, never began."""
        mine = {attempt.task for attempt in self.held[runner]}
        lost = [t for t in self.scheduler.tasks.values() if t.runner == runner and t.spec.id not in mine]
        for task in lost:
            self.ask(cmd.FinishTask(task.spec.id, False, "lost", again=True, attempt=task.attempt))

    def claim(self, runner: str) -> None:
        tasks = self.scheduler.tasks
        ready = eligible(tasks)
        if not ready:
            return
        task = ready[0]
        assert task.rank == min(each.rank for each in tasks.values() if each.state == "ready")
        self.ask(cmd.ClaimTask(task.spec.id, runner))
        assert all(self.succeeded[name] for name in task.spec.after), "started before its predecessors were done"
        assert not any(a.task == task.spec.id and a.ok is None for held in self.held.values() for a in held)
        self.held[runner].append(Attempt(task.spec.id, task.attempt, task.attempt < task.spec.attempts))

    def end_process(self, runner: str) -> None:
        running = [attempt for attempt in self.held[runner] if attempt.ok is None]
        if running:
            attempt = self.random.choice(running)
            attempt.ok = self.random.random() >= self.fail_share
            self.succeeded[attempt.task] += attempt.ok

    def report(self, runner: str) -> None:
        for attempt in [each for each in self.held[runner] if each.ok is not None]:
            again = not attempt.ok and attempt.may_again
            try:
                self.ask(cmd.FinishTask(attempt.task, bool(attempt.ok), "", again=again, attempt=attempt.number))
            except cmd.Rejected:
                # It was heard the last time, when the answer was lost.
                assert not attempt.ok or self.scheduler.tasks[attempt.task].state == "done"
            self.held[runner].remove(attempt)

    # --- The operator ---------------------------------------------------------------------------------------------

    def meddle(self) -> None:
        tasks = self.scheduler.tasks.values()
        task = self.random.choice([each for each in tasks if each.state in SPOILED] or list(tasks))
        if self.random.random() < 0.5:
            task = self.random.choice(list(tasks))
        if any(attempt.task == task.spec.id for held in self.held.values() for attempt in held):
            return
        commands: list[cmd.Command] = [cmd.CancelTask(task.spec.id), cmd.SetTaskPriority(task.spec.id, self.priority())]
        if task.state in SPOILED or self.random.random() < 0.1:
            commands = [cmd.RetryTask(task.spec.id)]
        command = self.random.choice(commands)
        try:
            self.ask(command)
        except cmd.Rejected as error:
            meant_for = {"failed", "cancelled"} if isinstance(command, cmd.RetryTask) else OPEN
            in_vain = "would be skipped again" in str(error)
            assert in_vain or task.state not in meant_for

    def priority(self) -> Priority:
        return self.random.choice(list(Priority))

    # --- The whole night ------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        acts = (self.resume, self.claim, self.claim, self.end_process, self.end_process, self.report)
        for step in range(steps):
            try:
                if self.random.random() < 0.1:
                    self.meddle()
                else:
                    self.random.choice(acts)(self.random.choice(RUNNERS))
            except ProxyDied:
                continue
            if step % 50 == 0:
                check(self.scheduler.tasks.values())

    def finish(self) -> None:
        """No runner dies any more, and each does what is to be done, as often as there are tasks."""
        self.crash_share = 0.0
        for _ in range(4 * len(self.scheduler.tasks) + 4):
            for act, runner in itertools.product((self.resume, self.claim, self.end_process, self.report), RUNNERS):
                act(runner)


def check(tasks: Iterable[Task]) -> None:
    """Every task stands where its predecessors put it, and counts as it must."""
    all_tasks = {task.spec.id: task for task in tasks}
    for task in all_tasks.values():
        before = [all_tasks[name] for name in task.spec.after]
        undone = {each.spec.id for each in before if each.state != "done"}
        assert task.missing == undone
        match task.state:
            case "ready" | "running" | "done" | "failed":
                assert not undone
            case "waiting":
                assert undone
                assert not any(each.state in SPOILED or each.state == "blocked" for each in before)
            case "blocked" | "skipped":
                assert any(each.state in SPOILED or each.state == "blocked" for each in before) or (
                    task.state == "skipped"
                )
                assert task.note
        waiting = [each.priority for each in task.followers if each.state == "waiting"]
        if task.state in OPEN:
            assert task.priority is min([task.spec.priority, *waiting])


def some_graph(random: Random, size: int, edges: float) -> list[TaskSpec]:
    """In any order of arrival."""
    names = [f"t{n}" for n in range(size)]
    specs = [
        TaskSpec(
            name,
            random.choice(list(Priority)),
            random.choice([0, 10, 5000]),
            tuple(random.sample(names[:n], min(n, int(random.expovariate(1 / edges)))) if edges else ()),
            on_failure=random.choice(["block", "skip"]),
            attempts=random.randint(1, 3),
        )
        for n, name in enumerate(names)
    ]
    return random.sample(specs, size)


@settings(max_examples=examples(60, few=4), deadline=None, derandomize=True)
@example(seed=0, size=156, edges=2.0, fail_share=0.5, crash_share=0.0)
@given(
    seed=st.integers(0, 10**9),
    size=st.integers(1, 200),
    edges=st.sampled_from([0.0, 0.7, 2.0, 8.0]),
    fail_share=st.sampled_from([0.0, 0.1, 0.5]),
    crash_share=st.sampled_from([0.0, 0.02, 0.2]),
)
def test_every_task_succeeds_once_or_is_reported(
    seed: int, size: int, edges: float, fail_share: float, crash_share: float
) -> None:
    """In a legal order, and nothing hangs, though the proxy is killed at any moment, between and within commands."""
    random = Random(seed)
    night = Night(random, crash_share, fail_share)
    specs = some_graph(random, size, edges)
    night.ask(cmd.SubmitTasks(tuple(specs)), reliable=True)
    night.run(3 * size)
    night.finish()
    tasks = night.scheduler.tasks
    check(tasks.values())
    assert {task.state for task in tasks.values()} <= {"done", "failed", "blocked", "skipped", "cancelled"}
    assert sorted(tasks) == sorted(spec.id for spec in specs)
    for name, task in tasks.items():
        assert night.succeeded[name] == (task.state == "done"), name
        assert task.attempt <= task.spec.attempts + night.crashes
        if task.state == "blocked":
            assert any(tasks[each].state in SPOILED | {"blocked"} for each in task.spec.after)
    assert {task.spec.id: task.state for task in night.disk.tasks.values()} == {
        name: task.state for name, task in tasks.items()
    }


def test_a_cycle_anywhere_in_a_large_graph_is_found() -> None:
    """And is listed as one: each of it waits for the next."""
    for seed in range(30):
        random = Random(seed)
        specs = {spec.id: spec for spec in some_graph(random, 200, 2.0)}
        first, last = "t0", "t199"
        chain = ["t0", *(f"t{n}" for n in sorted(random.sample(range(1, 199), random.randint(0, 60)))), "t199"]
        for before, after in itertools.pairwise(chain):
            spec = specs[after]
            specs[after] = TaskSpec(after, after=(*spec.after, before))
        specs[first] = TaskSpec(first, after=(last,))
        scheduler = Scheduler(SchedulerConfig(), random.random)
        with pytest.raises(cmd.Rejected) as caught:
            scheduler.apply(0.0, cmd.SubmitTasks(tuple(specs.values())), "you")
        told = str(caught.value).removeprefix("tasks wait for each other: ").split(" -> ")
        assert told[0] == told[-1]
        assert len(set(told)) == len(told) - 1
        assert all(after in specs[name].after for name, after in itertools.pairwise(told))
        assert not scheduler.tasks

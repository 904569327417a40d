"""The task graph, and agents' processes, as they are folded up."""

from __future__ import annotations

from world.kit import arrived, commanded, finished, hold, only_agent, sampled, state, task_added, task_changed, told

from hivemind.scheduler import events as ev
from hivemind.scheduler.types import Priority, Usage
from hivemind.world.snapshot import RUNS_KEPT, TASKS_SHOWN, Snapshot, TaskView
from hivemind.world.world import World


def only_task(snapshot: Snapshot) -> TaskView:
    """Of a world with one."""
    (task,) = snapshot.tasks
    return task


def price(_: str, __: str, usage: Usage) -> float:
    """A cent a token."""
    return usage.total / 100


def test_a_task_waits_runs_and_is_done() -> None:
    """What it waits for, since when it is where it is, and how often it was started."""
    world = told(task_added(at=1.0, after=("build",)))
    task = only_task(world.snapshot(3.0))
    assert (task.id, task.agent, task.state, task.after, task.since_s) == ("lint", "lint", "waiting", ("build",), 2.0)
    world.apply(task_changed("running", at=4.0))
    task = only_task(world.snapshot(7.0))
    assert (task.state, task.attempt, task.since_s, task.ran_s) == ("running", 1, 3.0, 3.0)
    world.apply(task_changed("failed", "exit code 1", at=8.0))
    task = only_task(world.snapshot(20.0))
    assert (task.state, task.note, task.since_s, task.ran_s) == ("failed", "exit code 1", 12.0, 4.0)


def test_a_paused_task_tells_for_how_long() -> None:
    """Its agent too; and an agent whose class is held by a window's pace."""
    world = told(arrived(), task_added(agent="ann"))
    world.apply(ev.TaskChanged(2.0, "lint", "paused", Priority.NORMAL, 1, "used up", 60.0))
    world.apply(sampled(10.0, state(upcoming=(hold(1, "pace", 30.0),))))
    seen = world.snapshot(12.0)
    assert (only_task(seen).paused_s, only_agent(seen).paused_s, only_agent(seen).paced_s) == (50.0, 50.0, 28.0)
    world.apply(task_changed("ready", at=62.0))
    assert (only_task(world.snapshot(70.0)).paused_s, only_agent(world.snapshot(70.0)).paused_s) == (0.0, 0.0)


def test_each_attempt_of_a_task_has_its_times() -> None:
    """One that runs goes on until now; of many the latest are kept."""
    world = told(task_added(at=1.0), task_changed("ready", at=2.0), task_changed("running", at=4.0))
    assert only_task(world.snapshot(7.0)).runs == ((3.0, 0.0),)
    for event in (task_changed("failed", at=8.0), task_changed("ready", at=9.0)):
        world.apply(event)
    assert only_task(world.snapshot(10.0)).runs == ((6.0, 2.0),)
    world.apply(task_changed("running", at=11.0))
    assert only_task(world.snapshot(12.0)).runs == ((8.0, 4.0), (1.0, 0.0))
    for start in range(20, 20 + 2 * RUNS_KEPT, 2):
        world.apply(task_changed("failed", at=float(start)))
        world.apply(task_changed("running", at=start + 1.0))
    runs = only_task(world.snapshot(100.0)).runs
    assert (len(runs), runs[-1], runs[-2]) == (RUNS_KEPT, (65.0, 0.0), (67.0, 66.0))


def test_what_its_agent_used_while_it_ran_is_the_tasks() -> None:
    """In all its attempts, nothing before, between or after them; dollars too."""
    world = told(price=price)
    for at, event in enumerate(("", "ready", "", "running", "", "ready", "", "running", "", "done", ""), 1):
        if event:
            world.apply(task_added() if event == "ready" and at == 2 else task_changed(event, at=float(at)))
        else:
            world.apply(arrived(at, "lint", at=float(at)))
            world.apply(finished(at, "lint", at=float(at), usage=Usage(input_tokens=10**at)))
    task = only_task(world.snapshot(12.0))
    assert task.tokens == 10**5 + 10**9
    assert task.dollars == task.tokens / 100
    assert task.ran_s == 4.0


def test_a_running_task_is_charged_as_it_goes() -> None:
    """Its agent needn't have been seen before."""
    world = told(task_added(agent="bob"), task_changed("running"), price=price)
    assert only_agent(world.snapshot(2.0)).task == "lint"
    world.apply(arrived(1, "bob"))
    world.apply(finished(1, "bob", usage=Usage(input_tokens=70)))
    task = only_task(world.snapshot(6.0))
    assert (task.tokens, task.dollars) == (70, 0.7)


def test_an_agent_shows_its_task_and_that_it_waits_for_others() -> None:
    """The one that runs goes before one that may, and that before one that waits."""
    world = told(arrived(1, "bob"), task_added("a", agent="bob", after=("z",)), task_added("b", agent="bob"))
    bob = only_agent(world.snapshot(2.0))
    assert (bob.task, bob.state) == ("a", "pending")
    world.apply(task_changed("ready", task="b"))
    bob = only_agent(world.snapshot(2.0))
    assert (bob.task, bob.state) == ("b", "queued")
    world.apply(task_changed("running", task="a"))
    assert only_agent(world.snapshot(2.0)).task == "a"
    world.apply(task_changed("done", task="a"))
    world.apply(task_changed("cancelled", task="b"))
    bob = only_agent(world.snapshot(2.0))
    assert (bob.task, bob.state) == (None, "queued")


def test_a_task_counts_as_urgent_as_whoever_waits_for_it() -> None:
    """Its own priority stays what was given it."""
    world = told(task_added(), task_changed("ready", priority=Priority.HIGH))
    task = only_task(world.snapshot(2.0))
    assert (task.priority, task.own_priority) == (Priority.HIGH, Priority.NORMAL)
    world.apply(commanded("SetTaskPriority", task="lint", priority="low"))
    assert only_task(world.snapshot(2.0)).own_priority is Priority.LOW
    assert world.snapshot(2.0).lines[-1].text == "priority normal -> low"


def test_lines_tell_of_moves_alone() -> None:
    """Not of another priority, and not twice what a command told."""
    world = told(task_added(), task_changed("blocked", "a is failed"), task_changed("blocked", "a is failed"))
    world.apply(task_changed("cancelled"))
    world.apply(commanded("CancelTask", task="lint"))
    world.apply(commanded("SubmitTasks", tasks=["a", "b", "c", "d", "e"]))
    world.apply(commanded("ForgetTasks", batch="nightly"))
    assert [(line.who, line.text) for line in world.snapshot(2.0).lines] == [
        ("lint", "blocked: a is failed"),
        ("lint", "cancelled"),
        ("all", "5 tasks added: a, b, c, d …"),
        ("all", "tasks of batch nightly forgotten"),
    ]


def test_tasks_that_come_back_after_a_restart_have_no_lines() -> None:
    """They are told of as they had been; that isn't news."""
    world = told(task_added(at=5.0), task_changed("failed", "exit code 1", at=5.0))
    assert only_task(world.snapshot(6.0)).state == "failed"
    assert world.snapshot(6.0).lines == ()


def test_agents_that_come_back_after_a_restart_are_as_they_were() -> None:
    """Held, stopped, of the priority that was decided, under whoever started them."""
    world = told(ev.AgentRecalled(0.0, "ann", "lead", Priority.LOW, True, False))
    ann = only_agent(world.snapshot(1.0))
    assert (ann.parent, ann.priority, ann.held, ann.state) == ("lead", Priority.LOW, True, "held")
    world.apply(ev.AgentRecalled(0.0, "ann", None, None, False, True))
    ann = only_agent(world.snapshot(1.0))
    assert (ann.parent, ann.priority, ann.state) == ("lead", Priority.LOW, "stopped")
    assert world.snapshot(1.0).lines == ()


def test_a_fold_that_begins_in_the_middle_shows_what_it_hears_of() -> None:
    """And forgets what it is told to."""
    world = told(task_changed("running", task="nightly.lint"))
    task = only_task(world.snapshot(2.0))
    assert (task.id, task.batch, task.state) == ("nightly.lint", "nightly", "running")
    world.apply(ev.TaskForgotten(2.0, "nightly.lint"))
    world.apply(ev.TaskForgotten(2.0, "never.heard.of"))
    snapshot = world.snapshot(3.0)
    assert (snapshot.tasks, snapshot.task_counts) == ((), {})
    assert only_agent(snapshot).task is None


def test_processes_begin_and_end() -> None:
    """Who started them, for which task, and how they ended."""
    world = told(ev.AgentBegan(1.0, "ann", "lead", "lint", False))
    ann = only_agent(world.snapshot(2.0))
    assert (ann.parent, ann.task, ann.running, ann.exit_code) == ("lead", "lint", True, None)
    world.apply(ev.AgentEnded(3.0, "ann", -9))
    ann = only_agent(world.snapshot(4.0))
    assert (ann.task, ann.running, ann.exit_code) == (None, False, -9)
    world.apply(ev.AgentBegan(5.0, "ann", None, None, True))
    assert (only_agent(world.snapshot(6.0)).running, only_agent(world.snapshot(6.0)).exit_code) == (True, None)


def big(tasks: int) -> World:
    """A graph of which a tenth runs, a half has ended, and the rest waits."""
    world = told()
    for number in range(tasks):
        world.apply(task_added(f"t{number}"))
        if number % 10 == 0:
            world.apply(task_changed("running", task=f"t{number}"))
        elif number % 2:
            world.apply(task_changed("done", task=f"t{number}", at=float(number)))
    return world


def test_of_many_tasks_those_that_matter_are_shown() -> None:
    """Those that run before those that wait, the latest of those that have ended, by arrival; and all are counted."""
    snapshot = big(2_000).snapshot(3_000.0)
    assert len(snapshot.tasks) == TASKS_SHOWN
    assert sum(task.state == "running" for task in snapshot.tasks) == 200
    assert snapshot.task_counts == {"running": 200, "waiting": 800, "done": 1_000}
    small = big(700).snapshot(3_000.0).tasks
    assert [task.id for task in small if task.state == "done"] == [f"t{n}" for n in range(401, 700, 2)]
    numbers = [int(task.id[1:]) for task in small]
    assert numbers == sorted(numbers)
